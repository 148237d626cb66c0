"""A logger's head before every line of what another program printed: a launcher hands its output to a logger.

A logger writes one head for each message, so that lines which are surely parts of a longer text (those of a traceback,
of a compiler's or a sanitizer's message, lines with heads of their own) are not its own messages where each of them has
the same head. What stands behind that head is then what the other program wrote, and the head's level says nothing of
it.

Invariant:
    heads.H1. A head is taken off only where it is the same, but for its time, before each line of a row, and where
        lines behind it are surely parts of a longer text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.rows import SURE, Layer, Row, longer
from livedbg.logs.wrapping.tags import Opened

__all__ = ["Head", "Watch", "watching"]

Watch = Callable[[str], "re.Match[str] | None"]
"""Matches a line with a head that is known, if what stands behind it is surely part of a longer text."""

_STAMP: Final = (
    r"[\[(]?((?:\d{4}[-/]|\d\d/)\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z|[+-]\d\d:?\d\d)?[\])]?"
)
_LEVEL: Final = r"(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|debug|info|notice|warning|error)"
_GAP: Final = r"(?:(?<![|:,-])[ |:,-]{1,4}+|(?=\[))"  # a whole one: else there would be very many ways to read a line
_HEAD: Final = re.compile(
    _STAMP + rf"(?P<rest>{_GAP}(?:[\[(]?[\w.:/<>-]{{1,80}}[\])]?{_GAP}){{0,3}}?[\[(<]?{_LEVEL}\b"
    r"(?:[\])>]? {0,8}[-|:>]{0,2}(?: ?\[(?!rank|default)[\w.:/-]{1,80}\](?= ))?(?: |:|$))"
    r"(?:[\w./<>]{1,80}(?::[\w.<>]{1,80}){0,2}(?: - |: |\] | \| ))?)"
)
_FIRSTS: Final = frozenset(" |+[{(0123456789TEFICWDAJMSON=*^~\u256d\u250c")  # of what is sure, mostly
_FEWEST: Final = 3


class Head:
    """`2026-03-04 10:00:00,250 - train - INFO - ` before each line."""

    once = True
    first = "[(0123456789"
    likely = r"[\[(]?(?:\d{4}[-/]|\d\d/)\d\d[-/]\d\d"

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        """See Guess."""
        match = _HEAD.match(text)
        if match is None:
            return None
        return Opened(text[match.end() :], wall_ns=_wall_ns(match, clock))

    def proved(self, row: Row) -> Layer | None:
        """See Guess."""
        rest = _common(row.texts)
        if not rest or len(row.texts) < _FEWEST:
            return None
        inner = [_behind(text, rest) for text in row.texts]
        return _layer(rest) if longer(inner, row.long or row.whole) else None


def _wall_ns(match: re.Match[str], clock: SourceClock) -> int | None:
    """When; Spark writes years without the century."""
    second = match[1] if match[1][2] != "/" else f"20{match[1]}"
    return clock.date_time(second, match[2], match[3])


def watching(texts: Sequence[str]) -> Watch | None:
    """Watch for lines that show that the head of a row is before what another program wrote; None without such a head.

    Args:
        texts: the lines of the row.
    """
    said = [text for text in texts if text and not text.isspace()]
    rest = _common(said)
    if not rest:
        return None
    match = re.compile(f"{_STAMP}{re.escape(rest)}(?P<behind>{SURE.pattern})").match
    width = len(said[0]) - len(_behind(said[0], rest))  # the same in all lines, but for odd stamps

    def watch(text: str) -> re.Match[str] | None:
        return match(text) if text[width : width + 1] in _FIRSTS else None

    return watch


def _layer(rest: str) -> Layer:
    pattern = re.compile(_STAMP + re.escape(rest.rstrip(" ")) + ("(?: |$)" if rest.endswith(" ") else ""))

    def opened(text: str, clock: SourceClock) -> Opened | None:
        match = pattern.match(text)
        if match is None:
            return None
        return Opened(text[match.end() :], wall_ns=_wall_ns(match, clock))

    return opened


def _common(texts: Sequence[str]) -> str:
    """What stands between the times and the messages of all lines; "" if that is not the same."""
    heads = [_HEAD.match(text) for text in texts]
    rests = {match["rest"] if match is not None else "" for match in heads}
    shortest = min(rests, key=len, default="")
    return shortest if all(rest.startswith(shortest.rstrip(" ")) for rest in rests) else ""


def _behind(text: str, rest: str) -> str:
    """The message of a line with a head."""
    match = _HEAD.match(text)
    return "" if match is None else text[match.start("rest") + len(rest) :]
