"""The stacks of a report: equal ones once, those of the culprits first.

Invariants:
    report_stacks.K1. Each thread of the report that has a stack is in one group, and the stack of a group is that of
        each of its threads, by functions, modules and lines.
    report_stacks.K2. Groups with a root of the verdict come first, then those with an entity of its findings, then the
        others, each part by the number of threads.
    report_stacks.K3. The frames of a stack are given once, apart from those of the verdict's roots and of what a
        finding names, if it names few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from livedbg.analysis.diagnosis import Diagnosis
from livedbg.analysis.place_names import Placed, plain_name
from livedbg.analysis.user_code import NO_FRAMEWORKS, Inside
from livedbg.model import ids
from livedbg.model.snapshot import Snapshot
from livedbg.report.document import FrameOut, ReportDocument, StackOut
from livedbg.report.entities import frames_out
from livedbg.state.stacks import StackGroup, group_stacks
from livedbg.text.demangling import short_symbol
from livedbg.text.wording import many

_NAMES: Final = 6
_FRAMES: Final = 16
_LONGEST: Final = 120
"""Letters of a function's name in text; JSON has all of them."""

_FEW: Final = 16
"""Entities of a finding up to which each of them has its own stack in the report."""


def stack_groups(entities: Iterable[str], snapshot: Snapshot, diagnosis: Diagnosis) -> tuple[StackOut, ...]:
    """Return the merged stacks of some entities."""
    stacks = [stack for entity in entities if (stack := snapshot.stacks.get(entity)) is not None and stack.frames]
    verdict = diagnosis.verdict
    chief = [one for one in diagnosis.findings.values() if one.state is verdict.state]
    roots = {name: place for place, name in enumerate(verdict.roots)}
    named = {name for finding in chief for name in finding.entities}

    def order(group: StackGroup) -> tuple[int, int, int]:
        first = min((roots[thread] for thread in group.threads if thread in roots), default=len(roots))
        return (first, 0 if named.intersection(group.threads) else 1, -len(group.threads))

    return tuple(
        StackOut(
            threads=tuple(sorted(group.threads, key=lambda name: (roots.get(name, len(roots)), name not in named))),
            frames=frames_out(group.frames),
        )
        for group in sorted(group_stacks(stacks), key=order)
    )


def stacks_of_others(groups: Iterable[StackOut], diagnosis: Diagnosis) -> dict[str, str]:
    """Return thread -> first thread of its group, for threads whose frames need not be repeated."""
    own = set(diagnosis.verdict.roots)
    for finding in diagnosis.findings.values():
        if len(finding.entities) <= _FEW:
            own.update(finding.entities)
    return {name: group.threads[0] for group in groups for name in group.threads[1:] if name not in own}


def group_lines(groups: Sequence[StackOut], report: ReportDocument) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the heading of each group, and its frames as lines, innermost first."""
    for group in groups:
        yield _heading(group, report), [f"#{number} {frame_line(frame)}" for number, frame in enumerate(group.frames)]


def folded_lines(groups: Sequence[StackOut], report: ReportDocument) -> Iterator[tuple[str, Sequence[str]]]:
    """Like `group_lines`, but frames inside of libraries are only counted, except the innermost."""
    for group in groups:
        lines: list[str] = []
        last = -1
        for number in [*kept_frames(group.frames), len(group.frames)]:
            if number > last + 1:
                lines.append(f"… {many(number - last - 1, 'frame')}")
            if number < len(group.frames):
                lines.append(f"#{number} {frame_line(group.frames[number])}")
            last = number
        yield _heading(group, report), lines


def kept_frames(frames: Sequence[Placed]) -> list[int]:
    """Return the numbers of the frames that a text shows: the innermost, and those that are not inside of libraries."""
    kept = [n for n, frame in enumerate(frames) if not n or NO_FRAMEWORKS.inside(frame) < Inside.LIBRARY]
    return (kept if len(kept) > 1 else list(range(len(frames))))[:_FRAMES]


def frame_line(frame: FrameOut) -> str:
    """Return `serve(int) at /src/server.cpp:31`; a very long name is shortened."""
    name = short_symbol(frame.function) if frame.language == "native" else frame.function
    if len(name) > _LONGEST:
        name = f"{plain_name(name)[:_LONGEST]}…" if frame.language == "native" else f"{name[:_LONGEST]}…"
    place = f"{frame.file}:{frame.line}" if frame.file and frame.line else frame.file or frame.module or ""
    return f"{name}{f' at {place}' if place else ''}".replace("\n", " ")


def _heading(group: StackOut, report: ReportDocument) -> str:
    names = [_name(thread, report) for thread in group.threads[:_NAMES]]
    more = f", and {len(group.threads) - _NAMES:,} more" if len(group.threads) > _NAMES else ""
    count = f"{many(len(group.threads), 'thread')} at one place: " if len(group.threads) > 1 else ""
    return f"{count}{', '.join(names)}{more}"


def _name(thread: str, report: ReportDocument) -> str:
    known = report.entities.get(thread)
    name = f" ({known.name})" if known is not None and known.name else ""
    return f"thread {ids.parse(thread).parts[-1]}{name}"
