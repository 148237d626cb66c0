"""Launch presets of IREE."""
