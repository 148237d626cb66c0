"""Probe events: perf events, uprobes by tracefs, and why the kernel refuses them."""
