"""Failure texts of nvFuser, as signatures (docs/signatures.md)."""
