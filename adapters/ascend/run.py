"""One run of an Ascend task graph: its tasks and cores, as its log and files show them.

Invariants:
    ascend_run.R1. The runtime logs no completion of a task. Completion is concluded from the next dispatch on
        the same core, from a successor's dispatch, from counts, from a watchdog dump, or from the
        end of the run; `TaskRecord.inferred` has the evidence.
    ascend_run.R2. A watchdog dump is cut (8 RUNNING, 8 READY, 4 WAIT): its counts are right, its lines are a
        part. Nothing is concluded from a line that may have been cut.
    ascend_run.R3. A task id names one task for the length of a run; a new run starts from nothing.
"""

from __future__ import annotations

from collections import Counter as Tally
from typing import Final

from msgspec import Struct, field, structs

from livedbg.adapters.ascend.messages import NOWHERE, Mark
from livedbg.adapters.ascend.names import KernelNames, Names, raw_id
from livedbg.adapters.ascend.tasks import CoreRecord, TaskRecord
from livedbg.graphs.declared import TaskGraph
from livedbg.model import TaskState

ENTITY_LIMIT: Final = 20_000
"""Tasks that nothing but a count speaks of become entities only up to this many per ring."""


class Counts(Struct):
    """Newest counts of the runtime; None if not reported."""

    completed: int | None = None
    total: int | None = None
    running: int | None = None
    ready: int | None = None
    waiting: int | None = None


class Run(Struct):
    """The tasks and cores of one run.

    Attributes:
        phase: `unknown`, `starting`, `running`, `completed`, `failed`.
        orchestrator: `unknown`, `submitting`, `done`.
        building: the orchestration code has begun on the host (host_build_graph), and has not ended as far as known.
        confirmed: tasks that a line says have not completed.
        done: number of tasks known to have completed.
        history: known completions for each combination of kernels.
        ring_totals: tasks submitted to each ring, once the orchestrator is done.
        progress_wall_ns: time of the last dispatch or completion.
        progress_exact: that time is of its own line.
        progress_counted: it comes from the runtime's counter (`Mark.counted`).
        changed: tasks to emit.
        changed_cores: cores to emit.
    """

    names: Names
    kernels: KernelNames
    graph: TaskGraph | None = None
    phase: str = "unknown"
    orchestrator: str = "unknown"
    building: bool = False
    counts: Counts = field(default_factory=Counts)
    tasks: dict[int, TaskRecord] = field(default_factory=dict)
    cores: dict[int, CoreRecord] = field(default_factory=dict)
    clusters: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    history: Tally[tuple[int, ...]] = field(default_factory=Tally)
    by_thread: dict[int, set[int]] = field(default_factory=dict)
    executed: dict[int, int] = field(default_factory=dict)
    ring_totals: dict[int, int] = field(default_factory=dict)
    progress_wall_ns: int | None = None
    progress_exact: bool = False
    progress_counted: bool = False
    dispatches: int = 0
    done: int = 0
    changed: set[int] = field(default_factory=set)
    changed_cores: set[int] = field(default_factory=set)

    # tasks

    def task(self, raw: int) -> TaskRecord:
        """Return the record of a task, created if needed."""
        record = self.tasks.get(raw)
        if record is None:
            record = self.tasks[raw] = TaskRecord(raw)
            declared = self.graph.tasks.get(raw) if self.graph else None
            if declared is not None:
                record.kernels = declared.kernels
                record.blocks = declared.blocks
            self.changed.add(raw)
        return record

    def set_state(
        self, record: TaskRecord, state: TaskState, mark: Mark, inferred: str = "", *, earlier: bool = False
    ) -> None:
        """Set a task's state; an unchanged state keeps its start time.

        Args:
            mark: the evidence line.
            inferred: what it is concluded from, if the line doesn't state it.
            earlier: the task entered it before that line was written, but not before the run's last progress.
        """
        if state is not record.state:
            self.done += (state is TaskState.COMPLETED) - (record.state is TaskState.COMPLETED)
            record.state = state
            record.since_wall_ns = self.progress_wall_ns if earlier else mark.wall_ns
            record.since_exact = mark.exact and not earlier
            record.entered = mark if state is TaskState.RUNNING and not earlier else NOWHERE
        record.inferred = inferred
        if mark.source:
            record.said = mark
        self.changed.add(record.raw)

    def complete(self, record: TaskRecord, why: str, mark: Mark, *, timely: bool = False) -> None:
        """Conclude that a task has completed (R1); `timely` if shortly before the line."""
        if record.state is TaskState.COMPLETED or record.raw in self.confirmed:
            return
        at = structs.replace(mark, text="")
        if not (mark.exact and timely):
            at = Mark(mark.name, "", log=mark.log, line=mark.line)
        self.leave_cores(record)
        record.missing = 0
        record.deferred = False
        self.set_state(record, TaskState.COMPLETED, at, why)
        if record.kernels:
            self.history[record.kernels] += 1

    def confirm_open(self, raw: int) -> None:
        """Note that a line says that a task has not completed; revokes an opposite conclusion."""
        self.confirmed.add(raw)
        record = self.task(raw)
        if record.state is TaskState.COMPLETED:
            record.state = TaskState.UNKNOWN
            self.done -= 1
            self.history[record.kernels] -= 1
            self.changed.add(raw)

    def declare(self, ring: int, total: int) -> None:
        """Note that the orchestrator submitted `total` tasks to a ring."""
        self.ring_totals[ring] = total
        self.counts.total = sum(self.ring_totals.values())
        for local in range(min(total, ENTITY_LIMIT)):
            record = self.task(raw_id(ring, local))
            if record.state is TaskState.UNKNOWN:
                self.set_state(record, TaskState.SUBMITTED, NOWHERE, "its ring's total")

    def use_graph(self, graph: TaskGraph) -> None:
        """Add the declared graph."""
        self.graph = graph
        for declared in graph.tasks.values():
            record = self.task(declared.raw)
            if declared.kernels and not record.kernels:
                record.kernels = declared.kernels
            record.blocks = max(record.blocks, declared.blocks)
            if record.state is TaskState.UNKNOWN:
                done = self.phase == "completed"
                self.set_state(record, TaskState.COMPLETED if done else TaskState.SUBMITTED, NOWHERE, "the task graph")
            self.changed.add(declared.raw)

    def fits(self, graph: TaskGraph) -> bool:
        """Return whether a graph can be this run's: no task contradicts it."""
        for raw, record in self.tasks.items():
            declared = graph.tasks.get(raw)
            if declared is None:
                if record.state is not TaskState.UNKNOWN or record.dispatched:
                    return False
            elif declared.kernels and record.kernels and declared.kernels != record.kernels:
                return False
        return True

    # cores

    def core(self, number: int, subslot: str = "", thread: int | None = None) -> CoreRecord:
        """Return the record of a core, created if needed; `subslot` is its place in its cluster."""
        record = self.cores.get(number)
        if record is None:
            record = self.cores[number] = CoreRecord(number)
            self.changed_cores.add(number)
        if subslot and subslot != record.subslot:
            record.subslot = subslot
            self.changed_cores.add(number)
        if thread is not None and record.thread != thread:
            record.thread = thread
            self.changed_cores.add(number)
        return record

    def leave_cores(self, record: TaskRecord) -> None:
        """Take a task off the cores that it is on."""
        for number in record.cores:
            core = self.cores.get(number)
            if core is not None and core.running == record.raw:
                core.running = None
                self.changed_cores.add(number)
        record.cores.clear()

    def dispatch(
        self, raw: int, number: int | None, mark: Mark, *, slot: str, subslot: str, place: str, thread: int
    ) -> None:
        """Note that a scheduler thread gave (a block of) a task to a core: `idle` runs at once, `pending` queues."""
        record = self.task(raw)
        record.dispatched += 1
        record.owner = thread
        self.by_thread.setdefault(thread, set()).add(raw)
        self.dispatches += 1
        self.progressed(mark)
        if self.graph is not None:
            for predecessor in self.graph.predecessors.get(raw, ()):
                self.complete(self.task(predecessor), "a task that depends on it was dispatched", mark)
        if number is None:
            self.set_state(record, TaskState.RUNNING, mark)
            return
        core = self.core(number, place, thread)
        self.changed_cores.add(number)
        if slot == "pending" and core.running is not None:
            if core.pending is not None:
                self._finish(core, mark)
                self._start(core, core.pending, subslot, mark)
            core.pending = raw
            if record.state is not TaskState.RUNNING:
                self.set_state(record, TaskState.READY, mark, f"queued behind another task on {core.label}")
            return
        self._finish(core, mark)
        if core.pending is not None:
            core.running, core.pending = core.pending, None
            self._finish(core, mark)
        self._start(core, raw, subslot, mark)

    def _start(self, core: CoreRecord, raw: int, subslot: str, mark: Mark) -> None:
        core.running = raw
        core.condition = ""
        record = self.task(raw)
        record.cores[core.number] = subslot
        self.set_state(record, TaskState.RUNNING, mark)

    def _finish(self, core: CoreRecord, mark: Mark) -> None:
        """Note that a core's former task ended, since the core was given another one."""
        raw, core.running = core.running, None
        if raw is None:
            return
        record = self.task(raw)
        record.cores.pop(core.number, None)
        record.finished += 1
        self.changed.add(raw)
        if not record.cores and record.finished >= record.needed:
            self.complete(record, f"{core.label} was given its next task", mark, timely=True)

    def core_at(self, thread: int, offset: int) -> int | None:
        """Return the core at a scheduler thread's offset, if the log listed the clusters (before 2026-05-12)."""
        clusters = self.clusters.get(thread, [])
        index, subslot = divmod(offset, 3)
        return clusters[index][subslot] if index < len(clusters) else None

    @property
    def shows_dispatches(self) -> bool:
        """Return whether the log has a line for each dispatch, and begins before the first one."""
        return self.dispatches > 0 and self.orchestrator != "unknown"

    # time

    def progressed(self, mark: Mark) -> None:
        """Note the time of a dispatch or completion."""
        self.progress_wall_ns, self.progress_exact = mark.wall_ns, mark.exact
        self.progress_counted = mark.counted

    def idle_s(self, mark: Mark) -> float | None:
        """Return the time without progress when a line was written; None if not known.

        Times of different clocks can't be compared: a container's log dates a line when it is collected.
        """
        if self.progress_wall_ns is None or mark.wall_ns is None or not (mark.exact and self.progress_exact):
            return None
        if mark.counted is not self.progress_counted:
            return None
        return max(0.0, (mark.wall_ns - self.progress_wall_ns) / 1e9)

    # the end

    def finish(self, mark: Mark) -> None:
        self.phase = "completed"
        self.confirmed.clear()
        for record in self.tasks.values():
            if record.open:
                self.complete(record, "the run completed", mark)
        for core in self.cores.values():
            if core.running is not None or core.pending is not None:
                core.running = core.pending = None
                self.changed_cores.add(core.number)
        if self.counts.total is None:
            self.counts.total = len(self.tasks)
        self.counts.completed = self.counts.total
        self.counts.running = self.counts.ready = self.counts.waiting = 0

    def settle_executed(self) -> None:
        """Apply the per-thread counts that schedulers print at their end.

        If as many tasks of a thread are known to be open as its count leaves out, all its others completed.
        """
        for thread, count in self.executed.items():
            handed = self.by_thread.get(thread, set())
            left_open = {raw for raw in handed if raw in self.confirmed}
            ended = [raw for raw in handed - left_open if self.task(raw).open]
            if self.counts.completed is not None and self.done + len(ended) > self.counts.completed:
                continue  # it counts a kernel that has returned, also where the task's completion is deferred
            if handed and len(handed) - count == len(left_open):
                for raw in handed - left_open:
                    self.complete(self.task(raw), f"scheduler thread {thread} counted it", NOWHERE)

    def in_flight(self) -> list[TaskRecord]:
        """Return the running tasks as far as the log tells, ordered by id."""
        return sorted((t for t in self.tasks.values() if t.state is TaskState.RUNNING), key=lambda t: t.raw)
