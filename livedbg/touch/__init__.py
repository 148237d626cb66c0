"""Attaching a gdb to a running process, under a guard that outlives whatever happens to livedbg and to gdb."""
