"""Demo programs with real hangs: deadlock, GIL, pipeline (`livedbg demo`)."""
