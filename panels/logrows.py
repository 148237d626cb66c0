"""Rows of the Logs screen: newest records of all logs, lines of one log, or chosen lines.

Equal lines of several ranks are one row: `ranks 0,1,3-7`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from livedbg.model import LogRecord, Severity, ids
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.log import concerns, message_of
from livedbg.panels.logsearch import LogPages, Places
from livedbg.text.wording import spans

_NEAR: Final = 256
"""Rows within which equal lines are one: what a rank says again much later is a row of its own."""


@dataclass(slots=True)
class Said:
    """One row: the first of several equal records, and the ranks of all."""

    record: LogRecord
    ranks: set[int] = field(default_factory=set)

    @property
    def who(self) -> str:
        """Return `ranks 0,1,3-7`; "" for a single one."""
        return f"ranks {spans(self.ranks)}" if len(self.ranks) > 1 else ""


def by_time(records: Sequence[LogRecord]) -> Sequence[LogRecord]:
    """Return the records of several logs in time order; each log keeps its own order.

    A record without a time follows the one before it in its log.
    """
    newest: dict[str, int] = {}
    times: list[int] = []
    for record in records:
        time = max(record.wall_ns or 0, newest.get(record.source, 0))
        newest[record.source] = time
        times.append(time)
    if len(newest) < 2 or times == sorted(times):
        return records
    return [records[at] for at in sorted(range(len(times)), key=times.__getitem__)]


def folded(records: Iterable[LogRecord], rank_of: Callable[[LogRecord], int | None]) -> list[Said]:
    """Merge records into rows, keeping their order; `rank_of` returns the rank that wrote a record, or None."""
    rows: list[Said] = []
    newest: dict[tuple[Severity, str], int] = {}
    for record in records:
        rank = rank_of(record)
        if rank is None:
            rows.append(Said(record))
            continue
        key = (record.severity, message_of(record))
        row = newest.get(key)
        if row is not None and len(rows) - row <= _NEAR and rank not in rows[row].ranks:
            rows[row].ranks.add(rank)
        else:
            newest[key] = len(rows)
            rows.append(Said(record, {rank}))
    return rows


_NOTHING: Final[Sequence[int]] = ()


class LogRows(ABC):
    @abstractmethod
    def count(self) -> int: ...

    @abstractmethod
    def record(self, row: int) -> LogRecord | None:
        """Return the record of a row; None while it is being read, or if there is no such row."""

    def ranks(self, row: int) -> str:
        """Return the ranks of a row if there are several: `ranks 0,1,3-7`."""
        return ""

    def errors(self) -> Iterable[int]:
        """Return the rows that are errors, as far as known."""
        return _NOTHING


class NewestRecords(LogRows):
    """Records of the state; equal ones of several ranks are one row."""

    def __init__(self, said: Sequence[Said]) -> None:
        self.said = said

    def count(self) -> int:
        return len(self.said)

    def record(self, row: int) -> LogRecord | None:
        return self.said[row].record if 0 <= row < len(self.said) else None

    def ranks(self, row: int) -> str:
        return self.said[row].who if 0 <= row < len(self.said) else ""

    def errors(self) -> Iterable[int]:
        return (row for row, one in enumerate(self.said) if one.record.severity.rank >= Severity.ERROR.rank)


class LogLines(LogRows):
    """All lines of one log."""

    def __init__(self, pages: LogPages | None, source: str, errors: Places | None) -> None:
        self.pages = pages
        self.source = source
        self.marks = errors

    def count(self) -> int:
        return self.pages.count(self.source)[0] if self.pages is not None else 0

    def record(self, row: int) -> LogRecord | None:
        return self.pages.line(self.source, row) if self.pages is not None else None

    def errors(self) -> Iterable[int]:
        return (line for _source, line in self.marks.found) if self.marks is not None else _NOTHING


class ChosenLines(LogRows):
    """Lines of one or several logs: matches, or lines of severe records."""

    def __init__(self, pages: LogPages | None, places: Places) -> None:
        self.pages = pages
        self.places = places

    def count(self) -> int:
        return self.places.count

    def record(self, row: int) -> LogRecord | None:
        if self.pages is None or not 0 <= row < self.places.count:
            return None
        source, line = self.places.found[row]
        return self.pages.line(source, line)


_NEAR_NS: Final = 10_000_000_000
"""So much before or after a moment is around it."""


def is_of(context: DrawContext, record: LogRecord, entity: str) -> bool:
    """Return whether a record is about a thread or process, or was written by it."""
    if concerns(record, entity):
        return True
    log = context.snapshot.log_sources.get(record.source)
    if log is not None and log.process == entity:
        return True
    process = context.snapshot.processes.get(entity)
    return process is not None and record.pid == process.pid


def rows_about(
    context: DrawContext, entity: str, at_wall_ns: int | None, narrow: Callable[[str | None], Sequence[Said]]
) -> tuple[int | None, str]:
    """Find the records of a thread around a time; if there are none, those of its process, or all.

    Args:
        entity: a thread or a process.
        narrow: shows and returns only the rows of an entity (None: all).

    Returns:
        The row nearest to that time, or None; and a sentence on what is shown.
    """
    parts = ids.parse(entity).parts if entity.startswith("thread:") else ()
    whose = [entity, ids.process(parts[0], int(parts[1]))] if parts else [entity]
    for only in (*whose, None):
        row = _nearest(narrow(only), at_wall_ns)
        if row is not None:
            return row, f"Records around that time: {'all logs' if only is None else context.names.label(only)}"
    for only in whose:
        said = narrow(only)
        if said:
            timed = any(one.record.wall_ns is not None for one in said)
            why = "none are from around that time" if timed else "without time stamps"
            return None, f"Newest records of {context.names.label(only)}: {why}"
    narrow(None)
    return None, "No records around that time; these are the newest of all logs"


def _nearest(said: Sequence[Said], at_wall_ns: int | None) -> int | None:
    if at_wall_ns is None:
        return None
    away = [
        (abs(one.record.wall_ns - at_wall_ns), row) for row, one in enumerate(said) if one.record.wall_ns is not None
    ]
    distance, row = min(away, default=(_NEAR_NS + 1, 0))
    return row if distance <= _NEAR_NS else None
