"""Searching logs whose lines are wrapped: what is found is what is shown of a line, not what stands in the file.

Invariants:
    search_shown.Q1. A line is found if and only if the pattern is found in it as a reader shows it, or in who wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from livedbg.logs.lines import Line, line_text
from livedbg.logs.search import FOLD, Matcher, folds, is_literal
from livedbg.logs.wrapping.door import FrontDoor
from livedbg.logs.wrapping.escapes import with_escaped
from livedbg.logs.writers import WORDS, written_by

__all__ = ["ShownMatcher"]

_OF_NAMES: Final = re.compile(r"[\w.,:/@\[\] -]*", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z\d]+")
_COLOUR: Final = re.compile(rb"\\u001[bB]\[[0-9;?]*[ -/]*[@-~]")


class ShownMatcher:
    """Finds lines in a block by what is shown of them; see `Matcher`.

    Args:
        pattern: what is searched for.
        matcher: finds that.
        door: knows how the log's lines are wrapped.
        shown: makes of the text of a line what may be shown of it.
    """

    def __init__(self, pattern: str, matcher: Matcher, door: FrontDoor, shown: Callable[[str], str]) -> None:
        self._matcher = matcher
        self._door = door
        self._shown = shown
        self._fold = folds(pattern)
        words: Iterable[bytes] = ()
        if is_literal(pattern) and not door.rewrites:
            word = _in_writers(pattern)
            words = with_escaped([pattern.encode()]) if word is None else [word.encode()] if word else ()
        self._words = tuple(dict.fromkeys(word.translate(FOLD) if self._fold else word for word in words))

    def __call__(self, block: bytes, last: bool) -> int | None:
        """See Matcher."""
        lines = self._lines(block)
        chosen = reversed(list(lines)) if last else lines
        return next((number for number, line in chosen if self._in(line)), None)

    def every(self, block: bytes) -> Iterator[int]:
        """See Matcher."""
        return (number for number, line in self._lines(block) if self._in(line))

    def _in(self, line: bytes) -> bool:
        plains = self._door.alone(Line(line_text(line), 0, None))
        tag = plains[-1].tag
        texts = ("\n".join(plain.text for plain in plains), written_by(tag.writer, tag.host, tag.pid))
        return any(self._matcher(self._shown(text).encode("utf-8", "replace"), False) is not None for text in texts)

    def _lines(self, block: bytes) -> Iterator[tuple[int, bytes]]:
        """The lines that may hold it, with their numbers."""
        if b"\\u001" in block:
            block = _COLOUR.sub(b"", block)
        lines = block.split(b"\n")
        if not self._words:
            yield from enumerate(lines)
            return
        searched = block.translate(FOLD) if self._fold else block
        if not any(word in searched for word in self._words):
            return
        for number, line in enumerate(lines):
            folded = line.translate(FOLD) if self._fold else line
            if any(word in folded for word in self._words):
                yield number, line


def _in_writers(pattern: str) -> str | None:
    """What stands in every line of which the writer's name holds a pattern, or its text does.

    Returns:
        A word of the pattern; "" if there is none; None if no name of a writer can hold the pattern.
    """
    if _OF_NAMES.fullmatch(pattern) is None:
        return None
    known = [word for word in _WORD.findall(pattern) if word.lower() not in WORDS]
    return max(known, key=len, default="")
