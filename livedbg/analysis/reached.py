"""Find the last progress in a log without an outcome: the step of a training or a build, or a started server.

Invariants:
    reached.R1. A number counts as progress only if it rose in one writer's lines. One that stays the same, or is
        printed once, does not.
    reached.R2. Without progress, the last server start is reported, unless a later line says that it shuts down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from livedbg.analysis.postmortem.lines import KnownLine, known_lines
from livedbg.logs.last_words import progress_of, serves_at
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import many

_NAMED: Final = 2


class _Reached(NamedTuple):
    said: str
    line: int


def reached_said(snapshot: Snapshot) -> str:
    """Return `It had reached iter 23, at train.log:25`; "" if no log shows progress."""
    logs = [
        (source.name, last)
        for source in snapshot.log_sources.values()
        if (last := _last(known_lines(source, snapshot))) is not None
    ]
    if not logs:
        return _served(snapshot)
    places = [f"{last.said}, at {name}:{last.line}" for name, last in logs[:_NAMED]]
    more = f" and {many(len(logs) - _NAMED, 'more log')}" if len(logs) > _NAMED else ""
    return f"It had reached {'; '.join(places)}{more}"


def _served(snapshot: Snapshot) -> str:
    """Return `A server had started on http://n4:80, at serve.log:6, and one ...` (R2); "" if none has."""
    for source in snapshot.log_sources.values():
        lines = known_lines(source, snapshot)
        starts = [(line.number, address) for line in lines if (address := serves_at(line.text))]
        if starts and not any(line.shuts_down and line.number > starts[-1][0] for line in lines):
            number, address = starts[-1]
            return f"A server had started on {address}, at {source.name}:{number}, and one that runs says no completion"
    return ""


def _last(lines: Sequence[KnownLine]) -> _Reached | None:
    """Return the last progress of a log that rose before (R1), or None."""
    reached: dict[tuple[str, str], float] = {}
    last = None
    for line, (unit, number, said) in _progress(lines):
        before = reached.setdefault((line.writer, unit), number)
        last = _Reached(said, line.number) if number > before else last
        reached[line.writer, unit] = max(before, number)
    return last


def _progress(lines: Sequence[KnownLine]) -> Iterator[tuple[KnownLine, tuple[str, float, str]]]:
    return ((line, found) for line in lines if (found := progress_of(line.text)) is not None)
