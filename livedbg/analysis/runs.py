"""Which logs of a folder are of an older run than the newest one.

Invariants:
    runs.N1. A log is older only if a number in its path says so (`attempt_0` beside `attempt_1`), or if another log of
        the same name but for its numbers begins a minute after its last line. Logs of ranks and workers are of one run.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.model import LogSource
from livedbg.model.snapshot import Snapshot

__all__ = ["older_logs"]

_ATTEMPT: Final = re.compile(r"(?:^|[/_.-])(?:attempt|restart|retry)[_-]?(\d{1,6})(?=[/_.-]|$)", re.IGNORECASE)
_PART: Final = re.compile(r"(?:rank|worker|local|node|host|gpu|npu|device|task|std(?:out|err))[_-]?\d*", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"\d+")
_APART_NS: Final = 60_000_000_000


def older_logs(snapshot: Snapshot) -> dict[str, str]:
    """By id, the logs of older runs, and what says so."""
    sources = [source for source in snapshot.log_sources.values() if source.path]
    if len(sources) < 2:
        return {}
    return {**_by_time(sources, snapshot), **_by_attempt(sources)}


def _by_attempt(sources: list[LogSource]) -> dict[str, str]:
    newest: dict[str, int] = {}
    found: list[tuple[LogSource, str, int]] = []
    for source in sources:
        match = _ATTEMPT.search(source.path or "")
        if match is not None:
            job, number = (source.path or "")[: match.start(1)], int(match[1])
            newest[job] = max(number, newest.get(job, number))
            found.append((source, job, number))
    return {
        source.id: f"attempt {number}, and there is attempt {newest[job]}"
        for source, job, number in found
        if number < newest[job]
    }


def _by_time(sources: list[LogSource], snapshot: Snapshot) -> dict[str, str]:
    alike: dict[str, list[LogSource]] = {}
    for source in sources:
        if _PART.search((source.path or "").rpartition("/")[2]) is None:
            alike.setdefault(_NUMBERS.sub("#", source.path or ""), []).append(source)
    groups = [group for group in alike.values() if len(group) > 1]
    if not groups:
        return {}
    begins: dict[str, int] = {}
    for record in snapshot.recent_logs:
        if record.wall_ns is not None:
            begins[record.source] = min(record.wall_ns, begins.get(record.source, record.wall_ns))
    found = {}
    for group in groups:
        newest = max(group, key=lambda source: begins.get(source.id, 0))
        begin_ns = begins.get(newest.id)
        for source in group:
            last_ns = source.last_wall_ns
            if begin_ns is not None and last_ns is not None and last_ns + _APART_NS < begin_ns:
                found[source.id] = f"{newest.name} begins after its end"
    return found
