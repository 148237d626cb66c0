"""What was logged about a thread or a process, and around a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from livedbg.model import LogRecord, ids
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.logfold import Said
from livedbg.panels.records import concerns

_NEAR_NS: Final = 10_000_000_000
"""So much before or after a moment is around it."""


def is_of(context: DrawContext, record: LogRecord, entity: str) -> bool:
    """Whether a record speaks of a thread or process, or was written by it."""
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
    """Find what a thread logged around a time; where it logged nothing, its process, or anybody.

    Args:
        context: gives names.
        entity: a thread or a process.
        at_wall_ns: the time.
        narrow: shows only the rows of an entity (None: all), and gives them.

    Returns:
        The row nearest to that time, or None; and what is shown, in a sentence.
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
