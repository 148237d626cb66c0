"""Where two runs of one IREE module differ: compiled and run on two sides, compared dispatch by dispatch."""
