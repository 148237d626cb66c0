"""Which lines of a log belong to severe records, when the log is read one record a line.

Invariants:
    grouping.W1. A line is given if the record that it is part of has at least the severity asked for, and else not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from livedbg.logs.lines import Line
from livedbg.logs.records import RecordAssembler
from livedbg.logs.shapes import split_prefix
from livedbg.model import LogRecord, Severity

__all__ = ["SevereLines"]


class SevereLines:
    """Puts lines together to records, and gives the numbers of the lines of severe ones.

    Args:
        assembler: of the log, with nothing in it.
        least: the least severity.
        first: number (from 0) of the first line that will come.
    """

    def __init__(self, assembler: RecordAssembler, least: Severity, first: int = 0) -> None:
        self._assembler = assembler
        self._least = least
        self._next = first
        self._waiting: dict[str, deque[int]] = {}  # numbers of lines that are in no finished record, by rank

    def feed(self, lines: Iterable[LogRecord]) -> list[int]:
        """Take more lines, each as a record of its own.

        Returns:
            Numbers of lines of severe records that ended.
        """
        found: list[int] = []
        for line in lines:
            writer, body = split_prefix(line.text)
            if body and not body.isspace():
                self._waiting.setdefault(writer.rstrip(), deque()).append(self._next)
            self._next += 1
            found.extend(self._ended(self._assembler.feed([Line(line.text, line.offset or 0, self._next)])))
        return found

    def flush(self) -> list[int]:
        """End all records."""
        return list(self._ended(self._assembler.flush()))

    def _ended(self, records: Iterable[LogRecord]) -> Iterator[int]:
        for record in records:
            severe = record.severity.rank >= self._least.rank
            for text in record.text.split("\n"):
                writer, body = split_prefix(text)
                if body and not body.isspace():
                    number = self._waiting[writer.rstrip()].popleft()  # records end in the order of their lines
                    if severe:
                        yield number
