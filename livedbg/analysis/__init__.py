"""Analyses: pure functions of a snapshot (wait-for graph, stalls, diagnosis)."""
