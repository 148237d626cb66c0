"""Searching logs whose lines are wrapped: what is found is what is shown of a line, not what stands in the file.

Invariants:
    search_shown.Q1. A line is found if and only if the pattern is found in it as a reader shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from livedbg.logs.lines import Line, line_text
from livedbg.logs.search import FOLD, Matcher, folds, is_literal
from livedbg.logs.wrapping.door import FrontDoor
from livedbg.logs.wrapping.escapes import with_escaped

__all__ = ["ShownMatcher"]

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
        words = with_escaped([pattern.encode()]) if is_literal(pattern) and not door.rewrites else ()
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
        text = self._shown("\n".join(plain.text for plain in plains))
        return self._matcher(text.encode("utf-8", "replace"), False) is not None

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
