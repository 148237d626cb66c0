"""Which lines of a log belong to severe records.

Invariants:
    grouping.W1. A line is given if the record that it is part of has at least the severity asked for, and else not.
"""

from __future__ import annotations

from collections.abc import Iterable

from livedbg.logs.clock import SourceClock
from livedbg.logs.formats import LogFormats
from livedbg.logs.lines import Line
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogRecord, Severity

__all__ = ["SevereLines"]


class SevereLines:
    """Puts lines together to records, and gives the numbers of the lines of severe ones.

    Args:
        source: id of the log.
        clock: of the log.
        formats: the shapes to recognise, and more.
        least: the least severity.
    """

    def __init__(self, source: str, clock: SourceClock, formats: LogFormats, least: Severity) -> None:
        self._assembler = RecordAssembler(source, clock, formats, self._end)
        self._least = least
        self._found: list[int] = []

    def feed(self, lines: Iterable[Line]) -> list[int]:
        """Take more lines.

        Returns:
            Numbers (from 0) of lines of severe records that ended.
        """
        self._assembler.feed(lines)
        return self._taken()

    def flush(self) -> list[int]:
        """End all records."""
        self._assembler.flush()
        return self._taken()

    def _end(self, record: LogRecord, numbers: list[int | None]) -> None:
        if record.severity.rank >= self._least.rank:
            self._found += (number - 1 for number in dict.fromkeys(numbers) if number is not None)

    def _taken(self) -> list[int]:
        found, self._found = self._found, []
        return found
