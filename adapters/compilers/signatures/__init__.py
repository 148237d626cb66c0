"""Failures of compilers, as signatures (docs/signatures.md)."""
