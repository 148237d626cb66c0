"""Access to the logs of a recording: what the state kept of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from livedbg.logs.search import Progress, compile_pattern
from livedbg.model import LogRecord, Severity
from livedbg.model.snapshot import Snapshot

__all__ = ["RecordedLogReader"]


class RecordedLogReader:
    """Implements livedbg.logs.reader.LogReader over `snapshot.recent_logs`.

    A line's number here counts from the oldest record that the state has kept.

    Args:
        snapshot: gives the state at the moment that is shown.
    """

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        self._of: Sequence[LogRecord] | None = None
        self._lines: dict[str, list[LogRecord]] = {}

    def count(self, source: str) -> tuple[int, bool]:
        """See LogReader."""
        return len(self._of_source(source)), True

    def read(self, source: str, start: int, count: int) -> Sequence[LogRecord]:
        """See LogReader."""
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
        """See LogReader."""
        matcher = compile_pattern(pattern)
        lines = self._of_source(source)
        start = max(0, len(lines) + start) if start < 0 else start
        numbers = range(min(start, len(lines) - 1), -1, -1) if backwards else range(start, len(lines))
        return next((n for n in numbers if matcher(lines[n].text.encode("utf-8", "replace"), False) is not None), None)

    def matches(self, source: str, pattern: str, found: Callable[[list[int], float], bool], start: int = 0) -> None:
        """See LogReader."""
        matcher = compile_pattern(pattern)
        texts = (line.text.encode("utf-8", "replace") for line in self._of_source(source)[start:])
        found([start + n for n, text in enumerate(texts) if matcher(text, False) is not None], 1.0)

    def severe(self, source: str, least: Severity, found: Callable[[list[int], float], bool]) -> None:
        """See LogReader."""
        lines = self._of_source(source)  # of one record each has the severity
        found([n for n, line in enumerate(lines) if line.severity.rank >= least.rank], 1.0)

    def _of_source(self, source: str) -> list[LogRecord]:
        """One record a line, made once for each state."""
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
