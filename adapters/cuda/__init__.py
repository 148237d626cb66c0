"""CUDA as its logs and the kernel's log tell it: the driver's error log, sanitizers, asserts, Xids, error blocks."""
