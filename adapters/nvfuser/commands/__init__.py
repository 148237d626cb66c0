"""Command of nvFuser: `livedbg repro`."""
