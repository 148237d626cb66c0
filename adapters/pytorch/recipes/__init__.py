"""Launch presets for PyTorch, one TOML file each (livedbg.recipes.model)."""
