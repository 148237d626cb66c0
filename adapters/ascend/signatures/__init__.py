"""Failure texts of Ascend's harnesses, as signatures (docs/signatures.md)."""
