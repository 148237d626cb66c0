"""Equal lines of several ranks as one row: `ranks 0,1,3-7` said it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from livedbg.model import LogRecord, Severity
from livedbg.panels.logtext import message_of
from livedbg.text.wording import spans

_NEAR: Final = 256
"""Rows within which equal lines are one: what a rank says again much later is a row of its own."""


@dataclass(slots=True)
class Said:
    """One row.

    Attributes:
        record: the first of those that are equal.
        ranks: of all of them, where there are several.
    """

    record: LogRecord
    ranks: set[int] = field(default_factory=set)

    @property
    def who(self) -> str:
        """`ranks 0,1,3-7`; "" if only one said it."""
        return f"ranks {spans(self.ranks)}" if len(self.ranks) > 1 else ""


def by_time(records: Sequence[LogRecord]) -> Sequence[LogRecord]:
    """Records of several logs in the order of their times; each log keeps its own order.

    A record without a time comes right after the one before it in its log.
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
    """Rows for records in their order.

    Args:
        records: of one or several logs.
        rank_of: the rank that wrote a record, or None.
    """
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
