"""Failure texts as data: files say how a text looks and what it means, and one engine finds all of them in logs."""
