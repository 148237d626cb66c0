"""Launch presets for Ascend, one TOML file each (livedbg.recipes.model)."""
