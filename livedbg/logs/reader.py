"""Random access to log records for the log screen: the protocol, and the reader of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from livedbg.logs.search import Progress, compile_pattern
from livedbg.model import LogRecord, Severity
from livedbg.model.snapshot import Snapshot


class LogReader(Protocol):
    """Reads records by number; thread-safe; memory does not grow with the size of a log."""

    def count(self, source: str) -> tuple[int, bool]:
        """Return how many lines `source` is known to have so far, and whether that is all of it."""
        ...

    def read(self, source: str, start: int, count: int) -> Sequence[LogRecord]:
        """Return up to `count` lines from line `start` (from 0; negative counts from the end), one record a line."""
        ...

    def search(
        self,
        source: str,
        pattern: str,
        start: int = 0,
        *,
        backwards: bool = False,
        progress: Callable[[float], bool] | None = None,
    ) -> int | None:
        """Find the next line that matches `pattern`; return its number from 0, or None: not found or given up.

        Args:
            pattern: regular expression, case-insensitive if it is all lower case.
            start: line to begin at; negative counts from the end.
            progress: called with the share done (0 to 1) now and then; returns False to give up.

        Raises:
            ValueError: `pattern` is no regular expression.
        """
        ...

    def matches(self, source: str, pattern: str, found: Callable[[list[int], float], bool], start: int = 0) -> None:
        """Find all lines that match `pattern`. Raises as `search` does.

        `found` is called with line numbers, in order, and the share done (0 to 1); it returns False to give up.
        """
        ...

    def severe(self, source: str, least: Severity, found: Callable[[list[int], float], bool]) -> None:
        """Find all lines of records of at least the severity `least`, so all lines of a traceback.

        For `found` see `matches`; the lines of one rank come in order.
        """
        ...


class RecordedLogReader:
    """A livedbg.logs.reader.LogReader over `snapshot.recent_logs`.

    A line's number here counts from the oldest record that the state has kept.
    """

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        self._of: Sequence[LogRecord] | None = None
        self._lines: dict[str, list[LogRecord]] = {}

    def count(self, source: str) -> tuple[int, bool]:
        return len(self._of_source(source)), True

    def read(self, source: str, start: int, count: int) -> Sequence[LogRecord]:
        lines = self._of_source(source)
        begin = max(0, len(lines) + start) if start < 0 else start
        return lines[begin : begin + max(0, count)]

    def search(
        self,
        source: str,
        pattern: str,
        start: int = 0,
        *,
        backwards: bool = False,
        progress: Progress | None = None,
    ) -> int | None:
        matcher = compile_pattern(pattern)
        lines = self._of_source(source)
        start = max(0, len(lines) + start) if start < 0 else start
        numbers = range(min(start, len(lines) - 1), -1, -1) if backwards else range(start, len(lines))
        return next((n for n in numbers if matcher(lines[n].text.encode("utf-8", "replace"), False) is not None), None)

    def matches(self, source: str, pattern: str, found: Callable[[list[int], float], bool], start: int = 0) -> None:
        matcher = compile_pattern(pattern)
        texts = (line.text.encode("utf-8", "replace") for line in self._of_source(source)[start:])
        found([start + n for n, text in enumerate(texts) if matcher(text, False) is not None], 1.0)

    def severe(self, source: str, least: Severity, found: Callable[[list[int], float], bool]) -> None:
        lines = self._of_source(source)  # of one record each has the severity
        found([n for n, line in enumerate(lines) if line.severity.rank >= least.rank], 1.0)

    def _of_source(self, source: str) -> list[LogRecord]:
        """Return one record a line, cached for each state."""
        recent = self._snapshot().recent_logs
        if recent is not self._of:
            self._of = recent
            self._lines = {}
        if source not in self._lines:
            self._lines[source] = [
                msgspec.structs.replace(record, text=text, line=record.line_at(number), lines=())
                for record in recent
                if record.source == source
                for number, text in enumerate(record.text.split("\n"))
            ]
        return self._lines[source]
