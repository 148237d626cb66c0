"""Values of one sample of the scheduler's memory, and the time since samples are equal."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.ascend.names import task_name
from livedbg.model import TaskState


class Condition(NamedTuple):
    """The counter in memory that a deferred task waits for.

    Attributes:
        engine: who should signal it, in the runtime's words.
        address: of the counter.
        expected: the awaited value.
        value: the current value; None if it can't be read.
    """

    engine: str
    address: int
    expected: int
    value: int | None

    @property
    def text(self) -> str:
        """Return `counter 0x7f… is 0, waits for 1 (SDMA)`."""
        now = "can't be read" if self.value is None else f"is {self.value}"
        return f"counter {self.address:#x} {now}, waits for {self.expected} ({self.engine})"


class LiveTask(NamedTuple):
    """One task in memory.

    Attributes:
        missing: unmet dependencies, of `fanin`.
        cores: cores that it runs on, with the subslot.
        queued: core on which it is queued after another task.
        deferred: its kernel has returned and it waits for an asynchronous completion.
        staged: it was put on its cores before its dependencies were met, and waits there.
    """

    raw: int
    state: TaskState
    kernels: tuple[int, ...] = ()
    blocks: int = 1
    missing: int | None = None
    fanin: int | None = None
    cores: tuple[tuple[int, str], ...] = ()
    owner: int | None = None
    queued: int | None = None
    deferred: bool = False
    staged: bool = False
    conditions: tuple[Condition, ...] = ()

    @property
    def open(self) -> bool:
        return self.state is not TaskState.COMPLETED

    @property
    def text(self) -> str:
        """Return its state as evidence."""
        words = [f"{task_name(self.raw)} {self.state.value.upper()}"]
        if self.fanin is not None and self.missing is not None:
            words.append(f"{self.fanin - self.missing} of {self.fanin} dependencies met")
        words += [f"on core {core} ({subslot})" if subslot else f"on core {core}" for core, subslot in self.cores]
        if self.deferred:
            words.append("its kernel has returned, its completion is deferred")
        words += [condition.text for condition in self.conditions]
        return ", ".join(words)


class LiveCore(NamedTuple):
    """One AI core.

    Attributes:
        subslot: its place in its cluster: `aic`, `aiv0`, `aiv1`; "" if not known.
        thread: scheduler thread that drives it.
        pending: task queued after `running`.
        dispatches: number of dispatches to it.
    """

    number: int
    subslot: str = ""
    thread: int | None = None
    running: int | None = None
    pending: int | None = None
    dispatches: int = 0


class Errors(NamedTuple):
    """Latched error codes; 0 for none."""

    orchestrator: int = 0
    scheduler: int = 0


NO_ERRORS: Final = Errors()


class Sample(Struct):
    """One sample.

    Attributes:
        fresh: a run began since the last sample: earlier state is of another run.
        changed: tasks that are new or changed since the last sample.
        gone: tasks of the last sample whose slots were freed: they have completed.
        tasks: all tasks that have a slot.
        waiters: by task, its dependents; only new or changed ones.
        cores: all steady cores.
        completed: number of done tasks.
        total: number of all tasks, once all are submitted.
        submitted: the orchestrator is done; None if not known.
        over: the scheduler has ended the run.
        queued: number of tasks in the ready queues.
        turns: loop turns of each scheduler thread.
        began_mono_ns: when the scheduler's threads began the run (CLOCK_MONOTONIC); None if not known.
        tails: by ring, the first task whose slot has not been freed: all before it have completed.
    """

    fresh: bool = False
    changed: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    tasks: dict[int, LiveTask] = field(default_factory=dict)
    waiters: dict[int, tuple[int, ...]] = field(default_factory=dict)
    cores: dict[int, LiveCore] = field(default_factory=dict)
    completed: int | None = None
    total: int | None = None
    submitted: bool | None = None
    over: bool = False
    queued: int | None = None
    turns: tuple[int, ...] = ()
    began_mono_ns: int | None = None
    tails: dict[int, int] = field(default_factory=dict)
    errors: Errors = NO_ERRORS

    @property
    def progress(self) -> tuple[object, ...]:
        """Return a value that changes when the run progresses (not merely turns)."""
        dispatches = tuple(core.dispatches for core in self.cores.values())
        return self.completed, self.total, self.submitted, self.over, dispatches, len(self.tasks)


class Progress:
    """The clock of one run.

    Attributes:
        began_wall_ns: None if memory doesn't tell.
        still_since_wall_ns: time of its last change, or of the first sample.
        moved: it has changed since the first sample.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.began_wall_ns: int | None = None
        self.still_since_wall_ns: int | None = None
        self.moved = False
        self._last: tuple[object, ...] | None = None

    def take(self, sample: Sample, wall_ns: int) -> bool:
        """Add a sample; return whether the run has moved since the one before."""
        if sample.began_mono_ns is not None:
            self.began_wall_ns = wall_ns - max(0, time.monotonic_ns() - sample.began_mono_ns)
        moved = self._last is not None and sample.progress != self._last
        self._last = sample.progress
        self.moved |= moved
        if moved or self.still_since_wall_ns is None:
            self.still_since_wall_ns = wall_ns
        return moved
