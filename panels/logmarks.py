"""Where in whole logs lines call themselves errors, for the marks on the scroll bar."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from livedbg.logs.reader import LogReader
from livedbg.panels.logfind import Places

_ERRORS: Final = (
    r"Traceback \(most recent call|\b(?:ERROR|FATAL|CRITICAL|PANIC)\b|(?:Error|Exception|error|fatal): "
    r"|^[EF]\d{4} |terminate called|Segmentation fault|\bXid \("
)
"""What such lines hold: much quicker to find than to decode every record."""
_MOST: Final = 100_000
_LOGS: Final = 8
_BYTES: Final = 256 * 1024 * 1024
"""A log that is bigger is not searched for marks: it would take seconds of CPU time."""
_GROWN: Final = 200
"""So many lines, and a hundredth of the log, have to come before it is searched on."""


@dataclass(slots=True)
class _Marked:
    places: Places
    lines: int


class ErrorMarks:
    """The errors of the logs that were shown last.

    Args:
        changed: called from another thread when more are known.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._of: OrderedDict[str, _Marked] = OrderedDict()

    def of(self, source: str) -> Places | None:
        """What is known of a log."""
        marked = self._of.get(source)
        return marked.places if marked is not None else None

    def look(self, reader: LogReader, source: str, lines: int, size: int | None) -> None:
        """Search a log, or what has come since.

        Args:
            reader: where it comes from.
            source: the log.
            lines: how many it has, as far as is known.
            size: bytes, where known.
        """
        marked = self._of.get(source)
        if marked is None:
            if size is None or size <= _BYTES:
                self._of[source] = _Marked(Places(reader, self._changed, _MOST).matching(_ERRORS, [source]), lines)
                if len(self._of) > _LOGS:
                    self._of.popitem(last=False)[1].places.cancel()
            return
        self._of.move_to_end(source)
        if marked.places.done and lines - marked.lines >= max(_GROWN, marked.lines // 100):
            start, marked.lines = marked.lines, lines
            marked.places.matching(_ERRORS, [source], start)
