"""Launch presets for nvFuser, one TOML file each (livedbg.recipes.model)."""
