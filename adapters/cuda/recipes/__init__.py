"""Launch presets for CUDA, one TOML file each (livedbg.recipes.model)."""
