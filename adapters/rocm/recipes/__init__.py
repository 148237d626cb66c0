"""Launch presets for ROCm, one TOML file each (livedbg.recipes.model)."""
