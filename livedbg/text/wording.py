"""Counted nouns in sentences: one place that knows singular from plural."""

from __future__ import annotations

__all__ = ["many"]


def many(count: int, one: str, several: str = "") -> str:
    """`1 thread`, `4,201 threads`; `1 tensor has no values`, `2 tensors have no values`.

    Args:
        count: how many.
        one: the words after the number 1.
        several: the words after any other number; by default the plural of `one` as most nouns have it.
    """
    return f"{count:,} {one if count == 1 else several or _plural(one)}"


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith(("ch", "sh", "s", "x")) else f"{noun}s"
