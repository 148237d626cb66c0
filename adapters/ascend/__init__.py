"""Ascend NPUs: the `simpler` runtime, from its logs and files (docs/systems/ascend.md)."""
