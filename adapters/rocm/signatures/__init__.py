"""Failure texts of ROCm, as signatures (docs/signatures.md)."""
