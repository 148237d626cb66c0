"""The commands of a command buffer: which may run now, how far they are, and what is shown of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from livedbg.adapters.iree.facts import DispatchFacts, dispatch_facts
from livedbg.adapters.iree.live.loops import Loop
from livedbg.adapters.iree.live.recordings import Command, Progress, Recording
from livedbg.adapters.iree.live.running import OnStack
from livedbg.model import Task, TaskState

_TOLD: Final = 8
_LINES: Final = 4


def with_loops(task: Task, looping: Mapping[str, Loop]) -> Task:
    """A running dispatch says in how many samples its workers repeated themselves, if all do."""
    threads = [place for place in task.where if place.startswith("thread:")]
    loops = [looping[thread] for thread in threads if thread in looping]
    if task.state is not TaskState.RUNNING or not loops or len(loops) < len(threads):
        return task
    if any(loop.dispatch != task.kernel for loop in loops):
        return task
    return structs.replace(task, facts=structs.replace(dispatch_facts(task), loops=sum(loop.samples for loop in loops)))


def mark_of(recording: Recording | None) -> tuple[int, ...]:
    """Changes when a worker begins or finishes workgroups."""
    progress = recording.progress if recording is not None else None
    return (progress.epoch, progress.left, *progress.taken) if progress is not None else ()


def begun(recording: Recording) -> tuple[int, int] | None:
    """Workgroups that workers have taken, and all; None where these aren't known."""
    progress, commands = recording.progress, [one for one in recording.commands if one.dispatch is not None]
    if progress is None or not all(one.tiles for one in commands) or len(commands) < len(recording.commands):
        return None
    before = sum(one.tiles for one in commands if one.region < progress.region)
    return before + sum(progress.taken), sum(one.tiles for one in commands)


def active_in(recording: Recording, running: Sequence[OnStack], *, alone: bool) -> list[Command]:
    """The commands of a recording that may run now; none where that isn't known.

    Args:
        recording: of an operation that has begun.
        running: which threads run which dispatch.
        alone: no other operation of its device has begun.
    """
    dispatches = [command for command in recording.commands if command.dispatch is not None]
    if recording.progress is not None:
        return [command for command in dispatches if command.region == recording.progress.region]
    if alone and len(recording.commands) == len(dispatches) == 1:
        return dispatches  # it has nothing else
    on = {one.dispatch.address for one in running}
    found = [one for one in dispatches if one.dispatch is not None and one.dispatch.address in on]
    return found if len(found) == 1 else []  # its stack tells, if it can mean one only


def one_of(recording: Recording) -> str:
    """What may run of a recording, in its order: dispatches by name, and other commands by kind."""
    counts = Counter(one.dispatch.name if one.dispatch is not None else one.kind for one in recording.commands)
    told = [f"{name} ({count} times)" if count > 1 else name for name, count in counts.items()]
    more = len(told) - _TOLD
    return ", ".join([*told[:_TOLD], *([f"{more} more"] if more > 0 else [])])


def state_of(command: Command, progress: Progress | None) -> TaskState:
    if progress is None or (command.slot < len(progress.taken) and progress.taken[command.slot]):
        return TaskState.RUNNING
    return TaskState.READY


def facts_of_command(command: Command, progress: Progress | None, device: str, *, waits: bool) -> DispatchFacts:
    assert command.dispatch is not None
    counted = progress is not None and not waits and command.slot < len(progress.taken)
    return DispatchFacts(
        dispatch=command.dispatch.name,
        source=command.dispatch.source,
        device=device,
        workgroups=command.tiles or None,
        begun=progress.taken[command.slot] if progress is not None and counted else None,
    )


def lines_of(running: Sequence[OnStack]) -> str:
    """The lines at which threads of a dispatch were found, `FILE:LINE, LINE`; "" for none."""
    files: dict[str, set[int]] = {}
    for line in (line for one in running for line in one.lines):
        file, _, number = line.rpartition(":")
        files.setdefault(file, set()).add(int(number))
    told = [f"{file}:{', '.join(map(str, sorted(numbers)[:_LINES]))}" for file, numbers in files.items()]
    return "; ".join(told)
