"""Kernel probes on other programs: perf events, trace events for their functions, and the life of what reads them."""
