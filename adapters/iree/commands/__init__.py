"""Command of IREE: `livedbg diff-run`."""
