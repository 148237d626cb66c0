"""A logger's head before every line that another program printed: a launcher passes its output to a logger.

A logger writes one head for each message, so lines that are surely parts of a longer text (those of a traceback, of a
compiler's or a sanitizer's message, lines with heads of their own) are not its own messages if each of them has the
same head. Then the text after that head is the other program's, and the head's level does not apply to it. An unknown
prefix is learned from a traceback: the text before its first line is before the next one too.

Invariant:
    heads.H1. A head is taken off only where it is the same, except its time, before each line of a row, and where lines
        after it are surely parts of a longer text.
    heads.H2. A head of a warning is none of a launcher's: a logger that puts its head before each line of a message has
        warned of an error that was handled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.prefixes import Layer, by
from livedbg.logs.wrapping.rows import BEGINS, SURE, Guess, Row, longer
from livedbg.logs.writers import Opened
from livedbg.text.patterns import lazy_re

Watch = Callable[[str], "re.Match[str] | None"]
"""Matches a line with a head that is known, if what stands behind it is surely part of a longer text."""

_STAMP: Final = (
    r"[\[(]?(?P<time>(?:\d{4}[-/]|\d\d/)\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r" ?(?P<zone>Z|[+-]\d\d:?\d\d)?[\])]?"
)
_LEVEL: Final = r"(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|debug|info|notice|warning|error)"
_GAP: Final = r"(?:(?<![|:,-])[ |:,-]{1,4}+|(?=\[))"  # a whole one: else there would be very many ways to read a line
_HEAD: Final = lazy_re(
    _STAMP + rf"(?P<rest>{_GAP}(?:[\[(]?[\w.:/<>-]{{1,80}}[\])]?{_GAP}){{0,3}}?[\[(<]?{_LEVEL}\b"
    r"(?:[\])>]? {0,8}[-|:>]{0,2}(?: ?\[(?!rank|default)[\w.:/-]{1,80}\](?= ))?(?: |:|$))"
    r"(?:[\w./<>]{1,80}(?::[\w.<>]{1,80}){0,2}(?: - |: |\] | \| ))?)"
)
_FIRSTS: Final = frozenset(" |+[{(0123456789TEFICWDAJMSON=*^~\u256d\u250c")  # of what is sure, mostly
_FEWEST: Final = 3
_WARNS: Final = lazy_re(r"\b(?:WARNING|WARN|warning|DEBUG|debug)\b")


def _heads(row: Row, _layer: Layer) -> Layer | None:
    rest = _common(row.texts)
    if not rest or len(row.texts) < _FEWEST or _WARNS.search(rest) is not None:
        return None
    inner = [_behind(text, rest) for text in row.texts]
    end = "(?: |$)" if rest.endswith(" ") else ""
    return by(_STAMP + re.escape(rest.rstrip(" ")) + end) if longer(inner, row.long or row.whole) else None


HEAD: Final = Guess("[(0123456789", r"[\[(]?(?:\d{4}[-/]|\d\d/)\d\d[-/]\d\d", by(_HEAD.pattern), _heads)
"""`2026-03-04 10:00:00,250 - train - INFO - ` before each line."""


def watching(texts: Sequence[str]) -> Watch | None:
    """Return a matcher for lines that show that the head of a row precedes another program's text; None without such a
    head.
    """
    said = [text for text in texts if text and not text.isspace()]
    rest = _common(said)
    if not rest or _WARNS.search(rest) is not None:
        return None
    match = re.compile(f"{_STAMP}{re.escape(rest)}(?P<behind>{SURE.pattern})").match
    width = len(said[0]) - len(_behind(said[0], rest))  # the same in all lines, but for odd stamps

    def watch(text: str) -> re.Match[str] | None:
        return match(text) if text[width : width + 1] in _FIRSTS else None

    return watch


def _common(texts: Sequence[str]) -> str:
    heads = [_HEAD.match(text) for text in texts]
    rests = {match["rest"] if match is not None else "" for match in heads}
    shortest = min(rests, key=len, default="")
    return shortest if all(rest.startswith(shortest.rstrip(" ")) for rest in rests) else ""


def _behind(text: str, rest: str) -> str:
    match = _HEAD.match(text)
    return "" if match is None else text[match.start("rest") + len(rest) :]


_HEADINGS: Final = lazy_re(
    r"Traceback \(most recent call|terminate called (?:after throwing|without an active)|Program received signal SIG"
    r"|goroutine \d{1,9} \[|Exception in thread \"|[Tt]hread '[^'\n]{1,60}'(?: \(\d{1,19}\))? panicked at "
    r"|forrtl: severe \(\d"
)
_HINTS: Final = (
    "Traceback (",
    "terminate called",
    "received signal SIG",
    "goroutine ",
    'in thread "',
    "' panicked at ",
    "forrtl: ",
)
_LONGEST: Final = 300
_FAR: Final = 600
_NUMBER: Final = lazy_re(r"\d+")
_OTHER: Final = lazy_re(
    r"[\s|+]*(?:Exception Group )?$|\S*[VIWEFC]\d{4}(?:\d{4})? \d\d:|.*[|+] +$|.*\""
    r"|(?!.*\d\d:\d\d:\d\d)[\W\d]*$|INTERNALERROR> "
)
"""What is no prefix of a launcher's, though a traceback stands behind it: with its own, pytest says that it failed."""
_DATE: Final = lazy_re(r"\D{0,40}?(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z|[+-]\d\d:?\d\d)?")

_DAY: Final = lazy_re(r"\D{0,40}?\b(\d\d)-(\d\d) (\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?")


def _framed(row: Row, layer: Layer) -> Layer | None:
    return layer if any(BEGINS.match(one.text) is not None for one in row.inner[1:]) else None


def _after(prefix: str) -> Guess:
    pattern = re.compile(r"\d+".join(map(re.escape, _NUMBER.split(prefix))))

    def opened(text: str, clock: SourceClock) -> Opened | None:
        match = pattern.match(text)
        return None if match is None else Opened(text[match.end() :], wall_ns=time_of(match[0], clock))

    return Guess("", "", opened, _framed)


def time_of(prefix: str, clock: SourceClock) -> int | None:
    """Return the date and time in a prefix, in ns, or None."""
    date = _DATE.match(prefix)
    if date is not None:
        return clock.date_time(date[1], date[2], date[3])
    day = _DAY.match(prefix)
    return None if day is None else clock.month_day(int(day[1]), int(day[2]), day[3], day[4])


def learned(text: str, watch: Watch | None) -> Guess | None:
    """Return a guess from the first line of a traceback, or of another stack, with a prefix, or None."""
    heading = _HEADINGS.search(text, 0, _FAR) if any(hint in text for hint in _HINTS) else None
    prefix = text[: heading.start()] if heading is not None else ""
    seen = watch(text) if watch is not None else None
    if seen is not None:
        return _after(text[: seen.start("behind")])
    if not prefix or len(prefix) > _LONGEST or "%|" in prefix or _OTHER.match(prefix):
        return None
    if (head := _HEAD.match(prefix)) is not None and _WARNS.search(head["rest"]) is not None:
        return None
    return _after(prefix)
