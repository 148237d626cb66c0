"""Find the last progress in a log without an outcome: the step of a training or a build, or a started server.

Invariants:
    reached.R1. A number counts as progress only if it rose in one writer's lines. One that stays the same, or is
        printed once, does not.
    reached.R3. Figures of a whole run (the best, the total, the average) that the log has once, behind progress that
        rose three times, and with which it ends, are its results: it seems to have completed. What is printed after
        each epoch came before, too.
    reached.R2. Without progress, the last server start is reported, unless a later line says that it shuts down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from livedbg.analysis.postmortem.lines import KnownLine, known_lines
from livedbg.logs.last_words import gives_result, progress_of, serves_at, without_numbers
from livedbg.model.snapshot import Snapshot
from livedbg.text.shortening import shortened
from livedbg.text.wording import many

_NAMED: Final = 2
_ROSE: Final = 3
_CLOSING: Final = 40  # lines of results at most
_NEAR_END: Final = 12
_TEXT: Final = 160


class _Reached(NamedTuple):
    said: str
    line: int
    times: int  # how often it rose


def _behind(last: _Reached, lines: Sequence[KnownLine], log: str) -> str:
    """Return `, and its results, at train.log:27: Best epoch 6, acc: 0.89. It seems to have completed` (R3), or ""."""
    texts = [(one.number + n, text) for one in lines for n, text in enumerate(one.text.split("\n")) if text.strip()]
    forms = Counter(without_numbers(text) for _, text in texts)
    behind = [(number, text.strip()) for number, text in texts if number > last.line]
    if last.times < _ROSE or len(behind) > _CLOSING or any(one.begins for one in lines if one.number > last.line):
        return ""
    told = [one for one in behind[-_NEAR_END:] if gives_result(one[1]) and forms[without_numbers(one[1])] == 1]
    if not told:
        return ""
    number, text = told[0]
    return (
        f", and its results, at {log}:{number}: {shortened(' '.join(text.split()), _TEXT)}. It seems to have completed"
    )


def reached_said(snapshot: Snapshot) -> str:
    """Return `It had reached iter 23, at train.log:25`; "" if no log shows progress."""
    logs = [
        (source.name, last, lines)
        for source in snapshot.log_sources.values()
        if (last := _last(lines := known_lines(source, snapshot))) is not None
    ]
    if not logs:
        return _served(snapshot)
    places = [f"{last.said}, at {name}:{last.line}" for name, last, _ in logs[:_NAMED]]
    if len(logs) == 1:
        places[0] += _behind(logs[0][1], logs[0][2], logs[0][0])
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
    last, times = None, 0
    for line, (unit, number, said) in _progress(lines):
        before = reached.setdefault((line.writer, unit), number)
        if number > before:
            times += 1
            last = _Reached(said, line.number, times)
        reached[line.writer, unit] = max(before, number)
    return last


def _progress(lines: Sequence[KnownLine]) -> Iterator[tuple[KnownLine, tuple[str, float, str]]]:
    return ((line, found) for line in lines if (found := progress_of(line.text)) is not None)
