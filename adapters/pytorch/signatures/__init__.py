"""Failure texts of PyTorch, as data (docs/signatures.md)."""
