"""Finding many words in the bytes of a log at once."""

from __future__ import annotations

from functools import lru_cache

from ahocorasick_rs import BytesAhoCorasick, Implementation

__all__ = ["finder"]


@lru_cache(maxsize=4)
def finder(words: tuple[bytes, ...]) -> BytesAhoCorasick:
    """An automaton for some words: one for all logs, as it takes 5 MB and 20 ms. A small one takes twice the time."""
    return BytesAhoCorasick(words, implementation=Implementation.DFA)
