"""CUDA: errors in logs, Xids, GPU counters, device state from GPU core dumps (docs/systems/cuda.md)."""
