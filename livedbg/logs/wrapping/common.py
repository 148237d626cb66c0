"""A prefix that nobody knows and that all of the first lines have: `Step #4: `, `0|train  | `, `train.1.x7@node07  | `.

Numbers in it may differ. What stands behind it must show that it is a prefix: the beginning of a traceback, a log
header, another wrapping. A logger's head is none (livedbg.logs.wrapping.heads).

Invariant:
    common.C1. A prefix is taken off only where no known wrapping explains the lines, all lines have it, and a line
        behind it surely is a line of its own. What it says, but for a time, is kept as the writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.certain import CERTAIN
from livedbg.logs.wrapping.guesses import GUESSES
from livedbg.logs.wrapping.learned import time_of
from livedbg.logs.wrapping.rows import BEGINS, Layer, begins_line
from livedbg.logs.wrapping.tags import NO_TAG, Opened, Tag

__all__ = ["common_prefix"]

_PAIR: Final = 2
_LOOKED_AT: Final = 200
_FEW_WRITERS: Final = 3
_SHORTEST: Final = 3
_LONGEST: Final = 200
_NUMBER: Final = re.compile(r"\d+")
_TIME: Final = re.compile(r"\d{1,4}[-/]\d\d(?:[-/]\d\d)?[T ]|\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_LEVEL: Final = re.compile(r"\b(?:DEBUG|TRACE|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b", re.IGNORECASE)
_SURE: Final = re.compile(
    rf"(?:{BEGINS.pattern})|\S{{1,200}}:\d{{1,9}}:(?:\d{{1,9}}:)? (?:fatal )?(?:error|warning|note): "
)
_DATED: Final = re.compile(r"\[?\d{4}[-/]\d\d[-/]\d\d(?!.{0,40} kernel: )")
_CLOCK: Final = SourceClock(0, 0)
_EDGES: Final = " \t|:[](){}<>-\u2502#"


def common_prefix(texts: Sequence[str]) -> Layer | None:
    """What takes off a prefix that all lines have; None where they have none.

    Args:
        texts: the first lines; the last one may be a piece of one.
    """
    said = [text for text in texts[:_LOOKED_AT] if text and not text.isspace()]
    if len(said) < _PAIR or not any(_ends(_common(said[:_PAIR]))) or _known(said[0]):
        return None
    shape = _common(said[: len(said) - (len(said) > _SHORTEST)])
    ends = list(_ends(shape))
    if not ends or any(begins_line(text) and _DATED.match(text) is None for text in said) or _explained(said):
        return None
    for end in ends:
        own = _pattern(shape[:end])
        matches = [match for match in map(own.match, said) if match is not None]
        sure = sum(_SURE.match(match.string[match.end() :]) is not None for match in matches)
        if sure and (sure == len(said) or len(said) > _PAIR):
            return _layer(own) if _name_writers([match[0] for match in matches]) else None
    return None


def _name_writers(prefixes: Sequence[str]) -> bool:
    """Whether the prefixes, but for times in them, are those of few writers: nothing that counts is taken off."""
    writers = [_writer(prefix) for prefix in prefixes]
    different = len(set(writers))
    runs = sum(before != after for before, after in pairwise(writers)) + 1
    return different * 2 <= len(writers) and (runs > different or different <= _FEW_WRITERS)


def _common(texts: Sequence[str]) -> str:
    """What all texts begin with, any number being 0."""
    shapes = [_NUMBER.sub("0", f"{text[:_LONGEST]} ") for text in texts]  # behind a prefix alone, blanks may be gone
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(shapes), max(shapes), strict=False))
    return "".join(one for one, _ in pairs)


def _ends(shape: str) -> Iterator[int]:
    """Where a prefix may end: behind a blank, and before a word; the shortest first."""
    for blank in re.finditer(r"[ \t](?![ \t|+\u2502])", shape):
        prefix = shape[: blank.end()]
        if blank.end() >= _SHORTEST and re.search(r"[A-Za-z]", prefix) and _LEVEL.search(prefix) is None:
            yield blank.end()


def _layer(own: re.Pattern[str]) -> Layer:

    def opened(text: str, clock: SourceClock) -> Opened | None:
        match = own.match(text)
        if match is None:
            return None
        return Opened(text[match.end() :], _tag(match[0]), time_of(match[0], clock))

    return opened


def _known(text: str) -> bool:
    """Whether one of the wrappings is there that a line proves."""
    return any(text[0] in one.first and one.open(text, _CLOCK) is not None for one in CERTAIN)


def _pattern(shape: str) -> re.Pattern[str]:
    return re.compile(
        r"\d+".join(map(re.escape, shape.rstrip().split("0")))
        + r"(?:\s{0,8}$|"
        + re.escape(shape[len(shape.rstrip()) :])
        + ")"
    )


def _explained(texts: Sequence[str]) -> bool:
    """Whether a guess that fits the lines finds lines behind what it takes off."""
    for guess in GUESSES:
        if texts[0][0] in guess.first:
            inner = [guess.open(text, _CLOCK) for text in texts]
            fitting = [one for one in inner if one is not None]
            if len(fitting) * 10 >= len(texts) * 9 and any(begins_line(one.text) for one in fitting):
                return True
    return False


def _writer(prefix: str) -> str:
    """Whose prefix it is, as far as it says so: nothing of a time."""
    return _TIME.sub("", prefix).strip(_EDGES)


@lru_cache(maxsize=4096)
def _tag(prefix: str) -> Tag:
    writer = _writer(prefix)
    return Tag(writer) if writer else NO_TAG
