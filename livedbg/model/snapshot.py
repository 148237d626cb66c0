"""The immutable state that analyses, panels and reports read.

Invariants:
    snapshot.S1. A snapshot never changes; two snapshots share what didn't change between them.
    snapshot.S2. `EMPTY` is a valid snapshot: every reader works on it.
    snapshot.S3. Verdicts are about the state as of the last scan (`as_of_looks`), never about the present: scans may be
        seconds apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from livedbg.model import (
    Diagnostic,
    Edge,
    EdgeKey,
    EdgeKind,
    ExceptionHit,
    Intrusion,
    LogRecord,
    LogSource,
    Process,
    Resource,
    SourceStatus,
    Stack,
    Task,
    Thread,
    WaitKind,
)
from livedbg.model.catchpoints import Catchpoint
from livedbg.model.claims import Claim
from livedbg.model.devices import DeviceState
from livedbg.model.dumps import ValueComparison, ValueDump, ValuePreview
from livedbg.model.launches import LaunchTrail, ProfileSlice
from livedbg.model.tables import FrozenTable, Numbering

_TOGETHER_NS = 10_000_000_000
"""Threads that end with their process are seen to end so long before it, at most, on a busy machine."""


class Clock(NamedTuple):
    """The newest stamp seen from a host."""

    mono_ns: int
    wall_ns: int


class LookKey(NamedTuple):
    """Key of a source's scans."""

    host: str
    source: str


class CounterKey(NamedTuple):
    """Key of a counter."""

    entity: str
    name: str


class StatusKey(NamedTuple):
    """Key of a status."""

    source: str
    target: str
    code: str


class Touches(Struct, frozen=True):
    """Totals of intrusive actions."""

    count: int = 0
    stops: int = 0
    paused_ns: int = 0

    @classmethod
    def of(cls, touch: Intrusion) -> Touches:
        return cls(1, touch.stops, touch.paused_ns)

    def plus(self, other: Touches) -> Touches:
        return Touches(self.count + other.count, self.stops + other.stops, self.paused_ns + other.paused_ns)


class Counter(Struct, frozen=True):
    """A progress counter and when it last changed.

    Attributes:
        per_s: how much it rises in a second, if its source measured that.
    """

    value: float
    total: float | None
    first_mono_ns: int
    changed_mono_ns: int
    changes: int = 0
    per_s: float | None = None


class Activity(Struct, frozen=True):
    """Observed progress of a thread.

    Attributes:
        changed_mono_ns: last sample in which anything had changed (CPU used, state, system call, context switches).
        cpu_ns: CPU time between the last two samples that differed.
        cpu_total_ns: CPU time since the first sample.
        queued_total_ns: time since then in which it was runnable and waited for a CPU.
        runs: how often it was put on a CPU since the first sample, as far as the kernel counts that.
        waiting_since_mono_ns: since when it has been in the same system call with no CPU used; None while it makes
            progress.
        steps: samples that show progress: a call, a wait, a page fault, another stack. Code that only computes, or
            spins, shows none.
        step_mono_ns: the last of these samples, else the first sample.
        moved: bytes read and written since the first sample; None if not known.
        rests: its last wait; None if none was seen, as of a thread that waits for a CPU whenever it is looked at.
        rests_since_mono_ns: since when each of its waits has been of that kind; 0 for as long as it is known.
        limited: that wait has a time limit.
        stack_since_mono_ns: since when all its stacks are in the same functions; None without a stack.
    """

    first_mono_ns: int
    changed_mono_ns: int
    cpu_ns: int = 0
    window_ns: int = 0
    cpu_total_ns: int = 0
    queued_total_ns: int = 0
    runs: int = 0
    waiting_since_mono_ns: int | None = None
    steps: int = 0
    step_mono_ns: int = 0
    stack_since_mono_ns: int | None = None
    stack_samples: int = 0
    moved: int | None = None
    rests: WaitKind | None = None
    rests_since_mono_ns: int = 0
    limited: bool = False


class Durations(Struct, frozen=True):
    """Run times of a kernel's completed runs."""

    count: int
    total_ns: int
    longest_ns: int

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.count if self.count else 0.0


def _empty() -> Mapping[Any, Any]:
    return MappingProxyType({})


def _empty_table() -> FrozenTable[Any, Any]:
    return FrozenTable(({},), str)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after `revision` events.

    Attributes:
        clocks: host -> newest stamp.
        looks: when each source's newest scan of all that it watches began.
        stacks: by thread id.
        edges: by (kind, source, target).
        dependencies: the pending `depends_on` edges that block now (between tasks, not on a process): the numbers of
            both ends. There can be millions.
        recent_logs: the newest records, oldest first (bounded; the whole log is read through the session's log reader).
        kernels: (system, kernel) -> durations of its completed runs.
        intrusions: the newest ones (bounded), oldest first.
        older_touches: target -> totals of its older ones; "": of targets that were forgotten.
        devices: last sample, by process identifier or `file:PATH`.
        profiles: by thread id, samples of the last minute in which it was sampled, oldest first.
        value_previews: the newest previews of tensors, by path and number.
        claims: confirmed claims by key; None if nobody reads claims again.
    """

    revision: int = 0
    clocks: Mapping[str, Clock] = field(default_factory=_empty)
    looks: Mapping[LookKey, Clock] = field(default_factory=_empty)
    processes: Mapping[str, Process] = field(default_factory=_empty)
    threads: Mapping[str, Thread] = field(default_factory=_empty)
    stacks: Mapping[str, Stack] = field(default_factory=_empty)
    tasks: FrozenTable[str, Task] = field(default_factory=_empty_table)
    resources: FrozenTable[str, Resource] = field(default_factory=_empty_table)
    edges: FrozenTable[EdgeKey, Edge] = field(default_factory=_empty_table)
    dependencies: FrozenTable[EdgeKey, tuple[int, int]] = field(default_factory=_empty_table, compare=False)
    waits: FrozenTable[EdgeKey, Edge] = field(default_factory=_empty_table)
    names: Numbering = field(default_factory=Numbering, compare=False)
    log_sources: Mapping[str, LogSource] = field(default_factory=_empty)
    recent_logs: Sequence[LogRecord] = ()
    log_count: int = 0
    counters: Mapping[CounterKey, Counter] = field(default_factory=_empty)
    diagnostics: Mapping[str, Diagnostic] = field(default_factory=_empty)
    exceptions: Mapping[str, ExceptionHit] = field(default_factory=_empty)
    catchpoints: Mapping[str, Catchpoint] = field(default_factory=_empty)
    intrusions: Sequence[Intrusion] = ()
    older_touches: Mapping[str, Touches] = field(default_factory=_empty)
    forgotten_processes: int = 0
    statuses: Mapping[StatusKey, SourceStatus] = field(default_factory=_empty)
    activity: Mapping[str, Activity] = field(default_factory=_empty)
    kernels: Mapping[tuple[str, str], Durations] = field(default_factory=_empty)
    devices: Mapping[str, DeviceState] = field(default_factory=_empty)
    launches: Mapping[str, LaunchTrail] = field(default_factory=_empty)
    profiles: Mapping[str, tuple[ProfileSlice, ...]] = field(default_factory=_empty)
    dumps: Mapping[str, ValueDump] = field(default_factory=_empty)
    value_previews: Mapping[tuple[str, int], ValuePreview] = field(default_factory=_empty)
    comparisons: Mapping[str, ValueComparison] = field(default_factory=_empty)
    claims: Mapping[str, Claim] | None = None

    def now(self, host: str | None = None) -> Clock:
        """Return the newest stamp of `host`, or of the host with the newest event."""
        if host is not None:
            return self.clocks.get(host, Clock(0, 0))
        return max(self.clocks.values(), key=lambda clock: clock.wall_ns, default=Clock(0, 0))

    def as_of_looks(self) -> Snapshot:
        """Return the same state with clocks set back to the last scan of all sources."""
        clocks = dict(self.clocks)
        for key, look in self.looks.items():
            if key.host in clocks and look.mono_ns < clocks[key.host].mono_ns:
                clocks[key.host] = look
        return replace(self, clocks=MappingProxyType(clocks)) if clocks != self.clocks else self

    @property
    def touches(self) -> Touches:
        return reduce(Touches.plus, chain(self.older_touches.values(), map(Touches.of, self.intrusions)), Touches())

    def touches_of(self, target: str) -> Touches:
        newest = (Touches.of(touch) for touch in self.intrusions if touch.target == target)
        return reduce(Touches.plus, newest, self.older_touches.get(target, Touches()))

    @property
    def paused_ns(self) -> int:
        return self.touches.paused_ns

    def threads_of(self, process: str) -> list[Thread]:
        """Return the living threads of a process, by tid."""
        found = [t for t in self.threads.values() if t.process == process and not t.exited]
        return sorted(found, key=lambda thread: thread.tid)

    def players(self, state: str = "") -> list[Thread]:
        """Return the threads that simulate a core of a chip; with `state` (`busy`) only those whose core has that
        state.
        """
        known = [thread for thread in self.threads.values() if thread.role and not thread.exited]
        if not known:
            return []
        cores = [one.id for one in self.resources.values() if one.kind == "core" and (not state or one.state == state)]
        plays = [any(EdgeKey(EdgeKind.RUNS_ON, core, one.id) in self.edges for core in cores) for one in known]
        return [one for one, does in zip(known, plays, strict=True) if does]

    def last_threads(self) -> list[Thread]:
        """Return the living threads; for ended processes, those that were alive until the end.

        While a target lives, only processes that the user named are shown after their end: a job may start thousands.
        """
        ended = {process.id: process.named for process in self.processes.values() if process.exited and process.target}
        over = len(ended) == sum(process.target for process in self.processes.values())
        until: dict[str, int] = {}
        for thread in self.threads.values():
            if thread.process in ended:
                until[thread.process] = max(until.get(thread.process, 0), thread.ended_mono_ns or 0)
        return [
            thread
            for thread in self.threads.values()
            if not thread.exited
            or ((over or ended.get(thread.process)) and _with_process(thread, until.get(thread.process)))
        ]


def _with_process(thread: Thread, until_mono_ns: int | None) -> bool:
    """Return whether a thread ended together with its process, whose last thread ended at `until_mono_ns`."""
    if until_mono_ns is None:
        return False
    return thread.ended_mono_ns is None or until_mono_ns - thread.ended_mono_ns <= _TOGETHER_NS


EMPTY = Snapshot()
"""The state before the first event."""
