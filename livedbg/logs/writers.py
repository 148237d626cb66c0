"""The words for those that share a log."""

from __future__ import annotations

__all__ = ["rank_of"]


def rank_of(writer: str) -> int | None:
    """The number of `rank 3`; None where a writer is no rank."""
    word, _, number = writer.partition(" ")
    return int(number) if word == "rank" and number.isdecimal() else None
