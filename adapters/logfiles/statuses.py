"""What is said of logs that can't be read, or hold nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from livedbg.model import NO_LOG, OUT_OF_TIME, LogSource, SourceHealth, SourceStatus
from livedbg.model.events import Event, Stamp, StatusSeen
from livedbg.text.quantities import byte_size
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many

__all__ = ["damaged", "empty_logs", "holds_no_file", "no_logs", "not_opened", "not_read", "status_event"]

_MANY: Final = 1_000  # entries of a folder that are looked at for a file
_NAMED: Final = 5


def damaged(source: LogSource, problem: str, size: int, stamp: Stamp) -> Event:
    """A packed log ends before its end.

    Args:
        source: the log.
        problem: see `Unpacked.problem`.
        size: bytes that were unpacked.
        stamp: of now.
    """
    much = f"it was read up to there ({byte_size(size)})" if size else "nothing of it can be read"
    sentence = f"{source.name} {problem}: {much}."
    return status_event(source, SourceHealth.DEGRADED, stamp, sentence, code="damaged")


def empty_logs(names: Sequence[str], paths: Sequence[str], stamp: Stamp) -> Event:
    """Some logs hold nothing, beside others that do."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    status = SourceStatus(
        source="logs",
        target=clean_line(", ".join(paths)),
        health=SourceHealth.DEGRADED,
        code="empty",
        sentence=clean_line(f"{many(len(names), 'log')} without a line: {', '.join(names[:_NAMED])}{more}."),
    )
    return StatusSeen(status=status, **stamp)


def holds_no_file(paths: Sequence[str]) -> bool:
    """Whether no file of any kind is below some folders: other adapters read what is no log."""
    return not any(found.is_file() for path in paths for found in islice(Path(path).rglob("*"), _MANY))


def no_logs(paths: Sequence[str], stamp: Stamp) -> Event:
    """Nothing that was named holds a log."""
    where = clean_line(", ".join(paths))
    status = SourceStatus(
        source="logs",
        target=where,
        health=SourceHealth.DEGRADED,
        code=NO_LOG,
        sentence=f"No log was found in {where}.",
        remedy="name the log files themselves: --logs FILE",
    )
    return StatusSeen(status=status, **stamp)


def not_read(source: LogSource, end_known: bool, stamp: Stamp) -> Event:
    """A time limit came before a log was read to its end.

    Args:
        source: the log.
        end_known: its last lines were read.
        stamp: of now.
    """
    much = byte_size(source.pending) if source.pending > 1 else "a part"
    whole = f" of {byte_size(source.size)}" if source.size and source.pending > 1 else ""
    end = ", but for its last lines" if end_known else ""
    sentence = f"{source.name} was not read to its end in time: {much}{whole} is missing{end}."
    return status_event(source, SourceHealth.DEGRADED, stamp, sentence, "--timeout SECONDS", code=OUT_OF_TIME)


def not_opened(names: Sequence[str], stamp: Stamp) -> Event:
    """A time limit came before some logs were opened."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    status = SourceStatus(
        source="logs",
        target="",
        health=SourceHealth.DEGRADED,
        code=OUT_OF_TIME,
        sentence=clean_line(f"{many(len(names), 'log')} not opened in time: {', '.join(names[:_NAMED])}{more}."),
        remedy="--timeout SECONDS",
    )
    return StatusSeen(status=status, **stamp)


def status_event(
    source: LogSource,
    health: SourceHealth,
    stamp: Stamp,
    sentence: str = "",
    remedy: str = "",
    *,
    code: str = "unreadable",
) -> Event:
    status = SourceStatus(
        source="logs",
        target=source.path or source.id,
        health=health,
        code=code,
        sentence=clean_line(sentence),
        remedy=clean_line(remedy),
    )
    return StatusSeen(status=status, **stamp)
