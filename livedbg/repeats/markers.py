"""Markers: lines that report the begin or the end of a step. A run is in the last step that began and did not end.

Invariants:
    markers.K1. An end closes the newest begin of the same step in the same lane; an end without a begin closes
        nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Protocol

import msgspec

from livedbg.session.systems import systems
from livedbg.text.typed import ready

__all__ = ["Marker", "Pair", "PatternPair", "known_pairs", "last_open"]


class Marker(msgspec.Struct, frozen=True):
    """A line that reports the begin of a step that did not end.

    Attributes:
        text: the line.
        pair: which kind of marker.
        line: its number.
        others: how many more are open.
    """

    text: str
    pair: str
    line: int
    others: int = 0


class Pair(Protocol):
    """Recognises the lines that begin a step and those that end it."""

    @property
    def name(self) -> str:
        """Name of the pair."""
        ...

    def begun(self, line: str) -> tuple[str, str] | None:
        """(lane, step) that begins with a line; None if none does."""
        ...

    def ended(self, line: str) -> tuple[str, str] | None:
        """(lane, step) that ends with a line; None if none does."""
        ...


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    begin: str
    end: str
    source: str


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pair: tuple[_Entry, ...]


@dataclass(frozen=True, slots=True)
class PatternPair:
    """A pair given by two regular expressions with the groups `what` and perhaps `lane`."""

    name: str
    begin: re.Pattern[str]
    end: re.Pattern[str]

    def begun(self, line: str) -> tuple[str, str] | None:
        """See Pair."""
        return _named(self.begin.search(line))

    def ended(self, line: str) -> tuple[str, str] | None:
        """See Pair."""
        return _named(self.end.search(line))


def _named(match: re.Match[str] | None) -> tuple[str, str] | None:
    if match is None:
        return None
    groups = match.groupdict()
    return groups.get("lane") or "", groups["what"]


@lru_cache(maxsize=1)
def known_pairs() -> tuple[PatternPair, ...]:
    """The pairs of livedbg/repeats/data/markers.toml, and those that systems declare."""
    text = files("livedbg.repeats").joinpath("data", "markers.toml").read_bytes()
    known = [(entry.name, entry.begin, entry.end) for entry in msgspec.toml.decode(text, type=ready(_Data)).pair]
    known += [(pair.name, pair.begin, pair.end) for system in systems() for pair in system.markers]
    return tuple(PatternPair(name, re.compile(begin), re.compile(end)) for name, begin, end in known)


def last_open(lines: Sequence[str], pairs: Sequence[Pair]) -> Marker | None:
    """The last step that began and did not end.

    Args:
        lines: of one run, in order.
        pairs: kinds of markers.
    """
    still = {number: pair for pair in reversed(pairs) for number in _still_open(lines, pair)}
    if not still:
        return None
    newest = max(still)
    return Marker(lines[newest], still[newest].name, newest, len(still) - 1)


def _still_open(lines: Sequence[str], pair: Pair) -> Iterator[int]:
    begun: dict[tuple[str, str], list[int]] = {}
    for number, line in enumerate(lines):
        ended = pair.ended(line)
        if ended is not None and begun.get(ended):
            begun[ended].pop()
        elif (began := pair.begun(line)) is not None:
            begun.setdefault(began, []).append(number)
    for numbers in begun.values():
        yield from numbers
