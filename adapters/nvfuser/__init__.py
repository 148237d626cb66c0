"""nvFuser: segments of fusions, what is under way or failed, where a trace stopped (docs/systems/nvfuser.md)."""
