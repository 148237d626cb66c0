"""Failure texts of CUDA and NCCL, as data (docs/signatures.md)."""
