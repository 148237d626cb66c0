"""Chooses the entities that a report names, and describes each; and its stacks, equal ones once, the culprits' first.

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
from typing import Final, TypeVar

from msgspec import UNSET, Struct, structs

from livedbg.analysis.diagnosis import Diagnosis
from livedbg.analysis.place_names import Placed, plain_name
from livedbg.analysis.user_code import NO_FRAMEWORKS, Inside
from livedbg.model import Frame, Process, Resource, Task, TaskState, Thread, ids
from livedbg.model.snapshot import Snapshot
from livedbg.report.document import EntityOut, FrameOut, ReportDocument, StackOut
from livedbg.state.stacks import StackGroup, group_stacks
from livedbg.text.demangling import short_symbol
from livedbg.text.quantities import timestamp
from livedbg.text.wording import many

_MOST: Final = 5_000
"""How many entities a report names at most, apart from those of its findings."""


Out = TypeVar("Out", bound=Struct)


def out_of(kind: type[Out], source: object, /, **other: object) -> Out:
    """Return a part of the report: the attributes of a value that have the names of its keys, and others."""
    same = {name: getattr(source, name) for name in kind.__struct_fields__ if name not in other}
    return kind(**same, **other)


def chosen_entities(snapshot: Snapshot, diagnosis: Diagnosis) -> tuple[list[str], int]:
    """Return the entities that a report names, and how many were left out.

    Entities of findings come first, then processes and threads, tasks that aren't done, resources.
    """
    first: dict[str, None] = dict.fromkeys(diagnosis.verdict.roots)
    for finding in diagnosis.findings.values():
        first.update(dict.fromkeys(finding.entities))
    rest: dict[str, None] = dict.fromkeys(snapshot.processes)
    rest.update(dict.fromkeys(thread.id for thread in snapshot.last_threads()))
    rest.update(dict.fromkeys(task.id for task in snapshot.tasks.values() if task.state is not TaskState.COMPLETED))
    rest.update(dict.fromkeys(snapshot.resources))
    others = [entity for entity in rest if entity not in first]
    return [*first, *others[:_MOST]], max(0, len(others) - _MOST)


def frames_out(frames: Iterable[Frame], *, source: bool = True) -> tuple[FrameOut, ...]:
    """Return frames in the form of a report, with or without the lines of source."""
    return tuple(
        FrameOut(
            function=f.function,
            file=f.file,
            line=f.line,
            module=f.module,
            language=f.language,
            locals=f.local_variables,
            source=f.source if source else (),
            source_from=f.source_from if source else 0,
            source_note=f.source_note if source else "",
        )
        for f in frames
    )


def place_out(frame: Frame) -> FrameOut:
    """Return a frame without variables and source."""
    return out_of(FrameOut, frame, locals=(), source=(), source_from=0, source_note="")


def entity_out(entity: str, snapshot: Snapshot, diagnosis: Diagnosis, *, stack_of: str = "") -> EntityOut:
    """Describe an entity; `stack_of` is a thread that has the same stack, or ""."""
    if (thread := snapshot.threads.get(entity)) is not None:
        known = _thread(thread, snapshot, diagnosis)
        return structs.replace(known, stack=(), stack_of=stack_of) if stack_of else known
    if (process := snapshot.processes.get(entity)) is not None:
        return _process(process, diagnosis)
    if (task := snapshot.tasks.get(entity)) is not None:
        return _task(task, snapshot, diagnosis)
    if (resource := snapshot.resources.get(entity)) is not None:
        return _resource(resource, diagnosis)
    kind, _, path = entity.partition(":")
    return EntityOut(kind=kind, name=path, state=None, waits_for=_waits(entity, diagnosis), waiters=0)


def _waits(entity: str, diagnosis: Diagnosis) -> str | tuple[str, ...] | None:
    found = tuple(dict.fromkeys(e.target for e in diagnosis.graph.waits_of(entity) if e.source == entity))
    if len(found) > 1:
        return found
    return found[0] if found else None


def _thread(thread: Thread, snapshot: Snapshot, diagnosis: Diagnosis) -> EntityOut:
    stack = snapshot.stacks.get(thread.id)
    place = diagnosis.code.frame(stack)
    note = ""
    if stack is not None and (stack.partial or stack.note):
        note = stack.note or "partial: outer frames may be missing"
    activity = snapshot.activity.get(thread.id)
    since = None
    if activity is not None and activity.waiting_since_mono_ns is not None:
        clock = snapshot.now(ids.parse(thread.id).parts[0])
        since = clock.wall_ns - (clock.mono_ns - activity.waiting_since_mono_ns)
    does, reason = diagnosis.doing(thread)
    return EntityOut(
        kind="thread",
        name=thread.title,
        state="exited" if thread.exited else thread.state.value,
        waits_for=_waits(thread.id, diagnosis),
        waiters=diagnosis.graph.behind(thread.id),
        stack=frames_out(stack.frames, source=False) if stack is not None else (),
        stack_note=note or UNSET,
        at=place_out(place) if place is not None else UNSET,
        process=thread.process,
        tid=thread.tid,
        waits_in=thread.waits_in or thread.syscall or UNSET,
        called=diagnosis.code.call(stack) or UNSET,
        since=timestamp(since) if since is not None else UNSET,
        cpu_ms=thread.cpu_ns / 1e6 if thread.cpu_ns is not None else UNSET,
        behaviour=does or UNSET,
        behaviour_reason=reason or UNSET,
    )


def _process(process: Process, diagnosis: Diagnosis) -> EntityOut:
    return EntityOut(
        kind="process",
        name=process.command[0].rpartition("/")[2] if process.command else "",
        state="exited" if process.exited else process.state.value,
        waits_for=_waits(process.id, diagnosis),
        waiters=diagnosis.graph.behind(process.id),
        pid=process.pid,
        rank=process.rank if process.rank is not None else UNSET,
        attributes={"notes": ", ".join(process.notes)} if process.notes else UNSET,
    )


def _task(task: Task, snapshot: Snapshot, diagnosis: Diagnosis) -> EntityOut:
    since = task.since_wall_ns
    if since is None and task.since_mono_ns is not None:
        clock = snapshot.now()
        since = clock.wall_ns - (clock.mono_ns - task.since_mono_ns)
    attributes = task.shown()
    if task.owner:
        attributes["owner"] = task.owner
    if task.fanin_left is not None:
        attributes["fanin_left"] = str(task.fanin_left)
    stack = snapshot.stacks.get(task.id)
    return EntityOut(
        kind="task",
        name=task.name,
        state=task.state.value,
        waits_for=_waits(task.id, diagnosis),
        waiters=diagnosis.graph.behind(task.id),
        stack=frames_out(stack.frames, source=False) if stack is not None else UNSET,
        kernel=task.kernel or UNSET,
        where=task.where or UNSET,
        since=timestamp(since) if since is not None else UNSET,
        attributes=attributes or UNSET,
    )


def _resource(resource: Resource, diagnosis: Diagnosis) -> EntityOut:
    return EntityOut(
        kind=resource.kind,
        name=resource.name,
        state=resource.state,
        waits_for=None,
        waiters=diagnosis.graph.behind(resource.id),
        attributes=resource.shown() or UNSET,
    )


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
        shown = [f"#{number} {frame_line(frame)}" for number, frame in enumerate(group.frames)]
        yield _heading(group, report), list(folded_frames(group.frames, shown))


def folded_frames(frames: Sequence[Placed], shown: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a stack; frames inside of libraries are only counted, except the innermost.

    Args:
        shown: the line of each frame.
    """
    last = -1
    for number in [*kept_frames(frames), len(frames)]:
        if number > last + 1:
            yield f"… {many(number - last - 1, 'frame')}"
        yield from shown[number : number + 1]
        last = number


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
