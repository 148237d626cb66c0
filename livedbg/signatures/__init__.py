"""Failure texts as data: TOML files say how a text looks and what it means; one engine finds them in logs."""
