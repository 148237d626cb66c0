"""Chooses the entities that a report names, and describes each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET, structs

from livedbg.analysis.diagnosis import Diagnosis
from livedbg.model import Frame, Process, Resource, Task, TaskState, Thread, ids
from livedbg.model.snapshot import Snapshot
from livedbg.report.document import EntityOut, FrameOut
from livedbg.text.quantities import timestamp

_MOST: Final = 5_000
"""How many entities a report names at most, apart from those of its findings."""


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
    return FrameOut(
        function=frame.function, file=frame.file, line=frame.line, module=frame.module, language=frame.language
    )


def entity_out(entity: str, snapshot: Snapshot, diagnosis: Diagnosis, *, stack_of: str = "") -> EntityOut:
    """Describe an entity; `stack_of` is a thread that has the same stack, or ""."""
    thread = snapshot.threads.get(entity)
    if thread is not None:
        known = _thread(thread, snapshot, diagnosis)
        return structs.replace(known, stack=(), stack_of=stack_of) if stack_of else known
    process = snapshot.processes.get(entity)
    if process is not None:
        return _process(process, diagnosis)
    task = snapshot.tasks.get(entity)
    if task is not None:
        return _task(task, snapshot, diagnosis)
    resource = snapshot.resources.get(entity)
    if resource is not None:
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
