"""Failure texts of hosts, schedulers and launchers, as signatures (docs/signatures.md)."""
