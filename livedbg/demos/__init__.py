"""Programs that are really stuck, for `livedbg demo`."""
