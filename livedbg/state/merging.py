"""What one more sample adds to what is known of a task or a thread: pure functions of both and of the time."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from livedbg.model import SAMPLED, Stack, Task, TaskState, Thread
from livedbg.model.profiles import ProfileSlice
from livedbg.model.snapshot import Activity
from livedbg.state.stacks import place_of

PROFILE_NS: Final = 60_000_000_000
"""How long before its last sample a thread's samples are kept."""

PROFILE_SLICES: Final = 240
"""How many of them are kept, whenever they were taken."""


def merge_task(known: Task, new: Task) -> Task:
    """What is known of a task after one more statement about it: `None` and UNKNOWN don't overwrite (model.Task)."""
    changed: dict[str, Any] = {}
    for name in ("kernel", "since_mono_ns", "since_wall_ns", "ends_wall_ns", "fanin_left", "fanin_total", "owner"):
        value = getattr(new, name)
        if value is not None and value != getattr(known, name):
            changed[name] = value
    if new.state is not TaskState.UNKNOWN and new.state is not known.state:
        changed["state"] = new.state
        changed["since_mono_ns"] = new.since_mono_ns
        changed["since_wall_ns"] = new.since_wall_ns
    if new.where and new.where != known.where:
        changed["where"] = new.where
    if new.facts is not None and new.facts != known.facts:
        changed["facts"] = new.facts
    if new.attributes:
        changed["attributes"] = {**known.attributes, **new.attributes}
    return msgspec.structs.replace(known, **changed) if changed else known


def activity_after(old: Activity | None, before: Thread | None, after: Thread, mono_ns: int) -> Activity:
    """The activity of a thread after one more sample of it.

    Args:
        old: until now; None for a thread that is new.
        before: the thread in the last sample.
        after: the thread now.
        mono_ns: when it was sampled.
    """
    waits = after.syscall is not None
    if old is None or before is None or before.exited:
        began = mono_ns if after.last_ran_mono_ns is None else min(mono_ns, after.last_ran_mono_ns)
        moved = None if after.moved is None else 0
        return Activity(
            mono_ns, mono_ns, waiting_since_mono_ns=began if waits else None, step_mono_ns=mono_ns, moved=moved
        )
    used = max(0, (after.cpu_ns or 0) - (before.cpu_ns or 0))
    same_wait = (
        waits
        and used == 0
        and before.syscall == after.syscall
        and before.waits_in == after.waits_in
        and (after.switches is None or before.switches == after.switches)
    )
    since = old.waiting_since_mono_ns if same_wait else (mono_ns if waits else None)
    steps = not same_wait and (after.marks is None or after.marks != before.marks)
    return replace(
        old,
        first_mono_ns=old.first_mono_ns,
        changed_mono_ns=old.changed_mono_ns if same_wait else mono_ns,
        cpu_ns=used,
        window_ns=mono_ns - old.changed_mono_ns,
        cpu_total_ns=old.cpu_total_ns + used,
        queued_total_ns=old.queued_total_ns + max(0, (after.queued_ns or 0) - (before.queued_ns or 0)),
        runs=old.runs + max(0, (after.switches or 0) - (before.switches or 0)),
        waiting_since_mono_ns=since,
        steps=old.steps + steps,
        step_mono_ns=mono_ns if steps else old.step_mono_ns,
        moved=_moved(old, before, after),
    )


def _moved(old: Activity, before: Thread, after: Thread) -> int | None:
    if after.moved is None:
        return old.moved
    return (old.moved or 0) + max(0, after.moved - (after.moved if before.moved is None else before.moved))


def activity_with_stack(old: Activity, before: Stack | None, after: Stack) -> Activity:
    """The activity of a thread after one more stack of it.

    A sample of a running thread is no progress: what a loop that polls calls is another function each time. Since when
    it is in one place is in the frames (Frame.held_mono_ns).

    Args:
        old: until now.
        before: the last stack of the same layer.
        after: the new one.
    """
    if after.source == SAMPLED:
        return old
    if before is not None and before.source == SAMPLED:
        before = None
    same = before is not None and place_of(before) == place_of(after)
    since = old.stack_since_mono_ns
    if same and since is not None:
        return replace(old, stack_samples=old.stack_samples + 1)
    if before is None:
        return old if since is not None else replace(old, stack_since_mono_ns=after.taken_mono_ns, stack_samples=1)
    return replace(
        old,
        stack_since_mono_ns=after.taken_mono_ns,
        stack_samples=1,
        steps=old.steps + 1,
        step_mono_ns=after.taken_mono_ns,
    )


def profile_after(old: tuple[ProfileSlice, ...], new: ProfileSlice) -> tuple[ProfileSlice, ...]:
    """What is kept of a thread's samples after some more: the last minute, at most `PROFILE_SLICES` of them."""
    since = new.end_mono_ns - PROFILE_NS
    return (*(one for one in old[1 - PROFILE_SLICES :] if one.end_mono_ns >= since), new)
