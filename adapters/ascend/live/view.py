"""Merge a job's run in memory with its log: for the current state, memory wins.

Waits for a core are edges too. The scheduler gives a core a second task while it executes the first
(CoreExecState.pending_slot_state, simpler runtime/scheduler/scheduler_types.h); a further task stays in a ready queue
until a core of its type is free.

Invariants:
    live_view.V1. A task has the state of the newest sample, whatever the log says; log-only data (dispatch time and
        line) is kept.
    live_view.V2. A task that waits for an occupied core is behind the tasks on it, whatever dependencies it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from livedbg.adapters.ascend.diagnostics.run import statement
from livedbg.adapters.ascend.facts import CoreFacts
from livedbg.adapters.ascend.job import Job, MemoryView, Suspicion
from livedbg.adapters.ascend.live.scene import Unreturned
from livedbg.adapters.ascend.live.state import LiveTask, Sample
from livedbg.adapters.ascend.messages import Mark
from livedbg.adapters.ascend.names import Names, local_of, ring_of, task_name
from livedbg.adapters.ascend.run import Run
from livedbg.adapters.ascend.tasks import TaskRecord
from livedbg.adapters.ascend.trouble import Fatal
from livedbg.model import Diagnostic, Edge, EdgeKey, EdgeKind, EdgeState, TaskState
from livedbg.text.quantities import duration

_MOST: Final = 20_000  # edges; where there would be more, each ready task has one
_STILL_S: Final = 3.0


def _queued(sample: Sample, names: Names, source: str) -> Iterator[Edge]:
    """Yield the edges from queues for cores; `source` is named in the evidence."""

    def edge(waiter: int, holder: int, why: str, *, any_of: bool = False) -> Edge:
        target, evidence = names.task(holder), f"{source}: {why}"
        return Edge(kind=EdgeKind.WAITS_FOR, source=names.task(waiter), target=target, evidence=evidence, any_of=any_of)

    ready = [task for task in sample.tasks.values() if task.state is TaskState.READY and not task.deferred]
    for task in ready:
        core = sample.cores.get(task.queued) if task.queued is not None else None
        if core is not None and core.running is not None and core.running != task.raw:
            place = f"core {core.number}, which executes {task_name(core.running)}"
            yield edge(task.raw, core.running, f"it is queued on {place}")
    waiting = [task for task in ready if task.queued is None and not task.cores]
    holders = {kind: _holders(sample, kind) for kind in {_kind(task) for task in waiting}}
    whole = _MOST // max(1, max((len(found) for found in holders.values()), default=1))
    for number, task in enumerate(waiting):
        behind = holders[_kind(task)]
        if number >= whole and behind:
            behind = [behind[number % len(behind)]]
        for raw in behind:
            yield edge(task.raw, raw, "it is ready, and all cores of its type are taken", any_of=len(behind) > 1)


def _kind(task: LiveTask) -> str:
    """Return the core type that a task needs: `aic`, `aiv`; "" if it needs several, or unknown ones."""
    needs = {("aic", "aiv", "aiv")[index] for index, func in enumerate(task.kernels[:3]) if func >= 0}
    return needs.pop() if len(needs) == 1 else ""


def _holders(sample: Sample, kind: str) -> list[int]:
    """Return the tasks on the cores of a type if all of these are taken; [] if one is free."""
    cores = [core for core in sample.cores.values() if kind and core.subslot.startswith(kind)]
    if not cores or any(core.running is None for core in cores):
        return []
    return sorted({core.running for core in cores if core.running is not None})


class LiveView(MemoryView):
    """A job's run as seen in its process's memory."""

    def __init__(self, job: Job, pid: int) -> None:
        super().__init__()
        self._job = job
        self._source = f"memory of process {pid}"
        self._sample: Sample | None = None
        self._mark: Mark | None = None
        self._run: Run | None = None
        self._put: dict[EdgeKey, Edge] = {}
        self._drop: set[EdgeKey] = set()
        self._behind: dict[int, set[int]] = {}
        self._before: dict[int, set[int]] = {}
        self._turned: tuple[tuple[int, ...], int] | None = None
        self._queued: dict[EdgeKey, Edge] | None = None  # of the newest sample, until they are emitted
        self._drawn: set[EdgeKey] = set()
        self._unreturned: tuple[Unreturned, ...] = ()
        self.still_s = 0.0

    @property
    def speaks(self) -> bool:
        return self._sample is not None

    @property
    def open_tasks(self) -> Iterable[int]:
        return self._sample.tasks if self._sample is not None else ()

    # looks

    def take(self, sample: Sample | None, wall_ns: int) -> None:
        """Apply the newest sample; None if no run is set up."""
        job, former = self._job, self._sample
        if sample is None:
            if former is not None:
                self._ended(former, wall_ns)
            return
        if sample.fresh:
            self._begin(sample, wall_ns)
        self._sample = sample
        self._unreturned = ()
        moved = self.progress.take(sample, wall_ns)
        if moved or job.last_wall_ns is None:
            self._note_progress(wall_ns)
        run, errors = job.run, sample.errors
        again, self._run = self._run is not run, run  # the log has begun another run: all that is there is said again
        spoke, self._mark = again or self._mark is not job.last_mark, job.last_mark
        run.orchestrator = "done" if sample.submitted else "submitting"
        run.counts.completed, run.counts.total = sample.completed, sample.total
        mark = Mark(self._source, "", wall_ns, exact=former is not None, seen=True, kind="memory")
        if sample.over and not errors.scheduler and not errors.orchestrator and sample.completed == sample.total:
            self._link(sample)
            self._finish(mark)
            job.stale = True
            return
        job.runs()
        for raw in (*sample.gone, *(_reopened_late(run, sample) if spoke else ())):
            self._complete(run.task(raw), "its slot was given back", mark)
        for raw in sample.tasks if spoke else sample.changed:
            self._apply(sample.tasks[raw], mark, first=former is None)
        self._cores(sample)
        self._link(sample)
        if again:
            for producer, consumers in self._behind.items():
                for consumer in consumers:
                    self._draw(producer, consumer, sample)
        if sample.changed or sample.gone or spoke or former is None:
            states = [task.state for task in sample.tasks.values()]
            run.counts.running = states.count(TaskState.RUNNING)
            run.counts.ready = states.count(TaskState.READY)
            run.counts.waiting = states.count(TaskState.SUBMITTED)
            job.stale = True
        self._queued = {edge.key: edge for edge in _queued(sample, job.names, self._source)}
        self._turns(sample, wall_ns)
        self._latched(errors.orchestrator or errors.scheduler, wall_ns)

    def _latched(self, code: int, wall_ns: int) -> None:
        """Note a latched error code; 0 for none."""
        job = self._job
        if code and job.trouble.fatal is None and not job.trouble.status and job.stalls.stall is None:
            text = Mark(self._source, f"error code {code} is latched", wall_ns, seen=True, kind="memory")
            job.trouble.fatal = Fatal(code, "", "", text)
            job.stale = True

    def end(self) -> None:
        """Stop using memory: known state stays, and the log counts again."""
        self._sample = None
        self._unreturned = ()
        self.progress.clear()
        self._queued = {}
        self.still_s = 0.0

    def take_unreturned(self, cores: Sequence[Unreturned]) -> None:
        """Note the cores whose kernels have not returned after the run's end; () if all have."""
        if tuple(cores) == self._unreturned:
            return
        former, self._unreturned = self._unreturned, tuple(cores)
        run, still = self._job.run, {core.task for core in cores}
        if cores:
            run.phase = "failed"
        for core in cores:
            if core.task is not None:
                record = run.task(core.task)
                record.kernels = record.kernels or ((core.func,) if core.func is not None else ())
                record.cores[core.core] = ""
                run.core(core.core).running = core.task
                self._stays(record, TaskState.RUNNING, core.text)
        for core in former:
            if core.task is not None and core.task not in still:
                run.task(core.task).cores.clear()
                self._stays(run.task(core.task), TaskState.FAILED, "its kernel has returned after the run had ended")
        self._job.stale = True

    def _stays(self, record: TaskRecord, state: TaskState, text: str) -> None:
        self._job.run.set_state(record, state, Mark(self._source, text, kind="memory"))

    def _begin(self, sample: Sample, wall_ns: int) -> None:
        """Handle a run that is new to the reader; the log may know it, or a former one."""
        run = self._job.run
        other = any(
            record.state is TaskState.COMPLETED and raw in sample.tasks and sample.tasks[raw].open
            for raw, record in run.tasks.items()
        )
        ended = sample.over or any(sample.errors)  # what the log says of how it ended is of this run
        if not ended and (other or run.phase in {"completed", "failed"} or self._sample is not None):
            if self._sample is not None and run.phase == "running" and not any(self._sample.errors):
                self._finish(Mark(self._source, "the next run has begun", wall_ns, True, "memory", True))
            if run.tasks:
                self._job.run.phase = "completed" if run.phase == "completed" else "running"
                self._job.begin(on_device=True)
            self._put.clear()
        self._behind.clear()
        self._before.clear()
        self._turned = None
        self.progress.clear()
        self._queued = {}

    def _ended(self, former: Sample, wall_ns: int) -> None:
        run = self._job.run
        if not former.errors.scheduler and not former.errors.orchestrator and run.phase == "running":
            self._finish(Mark(self._source, "the scheduler has ended the run", wall_ns, True, "memory", True))
        self._job.stale = True
        self.end()

    def _finish(self, mark: Mark) -> None:
        """Complete the run since the last sample, with all running tasks."""
        run = self._job.run
        for record in run.in_flight():
            self._complete(record, "the run completed", mark)
        run.finish(mark)

    def _note_progress(self, wall_ns: int) -> None:
        """Note progress: it ends the log's silence and voids an earlier watchdog round."""
        job = self._job
        job.last_wall_ns = max(wall_ns, job.last_wall_ns or 0)
        stall = job.stalls.stall
        if stall is not None and not stall.exit:
            job.stalls.stall = None
        job.quiet = False
        job.stale = True

    # tasks and cores

    def _complete(self, record: TaskRecord, why: str, mark: Mark) -> None:
        run = self._job.run
        run.confirmed.discard(record.raw)
        run.complete(record, why, mark, timely=True)  # to a sample, where one was before it

    def _apply(self, task: LiveTask, mark: Mark, *, first: bool) -> None:
        run = self._job.run
        record = run.task(task.raw)
        if task.kernels and record.kernels != task.kernels:
            record.kernels = task.kernels
            run.changed.add(task.raw)
        record.blocks = task.blocks
        if task.missing is not None and (record.missing, record.fanin) != (task.missing, task.fanin):
            record.missing, record.fanin = task.missing, task.fanin
            run.changed.add(task.raw)
        if task.owner is not None:
            record.owner = task.owner
        if not task.open:
            self._complete(record, "", mark)
            return
        if record.state is TaskState.COMPLETED:
            run.confirm_open(task.raw)
        waits = "; ".join(condition.text for condition in task.conditions)
        if task.staged:
            waits = "its dependencies, on the core that it was given early"
        cores = dict(task.cores)
        same = record.cores == cores and record.deferred == task.deferred and record.waits == waits
        if record.state is task.state and same:
            return
        record.cores, record.deferred, record.waits = cores, task.deferred, waits
        inferred = f"queued behind another task on core {task.queued}" if task.queued is not None else ""
        text = Mark(mark.name, task.text, mark.wall_ns, mark.exact, kind="memory", seen=True)
        if record.state is not task.state:
            record.already = task.state if first else None
        run.set_state(record, task.state, text, inferred)

    def _cores(self, sample: Sample) -> None:
        run = self._job.run
        for live in sample.cores.values():
            record = run.core(live.number, live.subslot, live.thread)
            if (record.running, record.pending) != (live.running, live.pending):
                record.running, record.pending = live.running, live.pending
                record.condition = "" if live.running is None else record.condition
                run.changed_cores.add(live.number)

    # edges

    def _link(self, sample: Sample) -> None:
        for producer, consumers in sample.waiters.items():
            for consumer in consumers:
                if consumer not in self._behind.setdefault(producer, set()):
                    self._behind[producer].add(consumer)
                    self._before.setdefault(consumer, set()).add(producer)
                    self._draw(producer, consumer, sample)
        for raw in sample.changed | sample.gone:
            if raw not in sample.tasks or not sample.tasks[raw].open:
                for consumer in self._behind.get(raw, ()):
                    self._draw(raw, consumer, sample)
        for raw in sample.gone:
            self._behind.pop(raw, None)
            for producer in self._before.pop(raw, ()):
                self._put.pop(self._key(producer, raw), None)
                self._drop.add(self._key(producer, raw))

    def _key(self, producer: int, consumer: int) -> EdgeKey:
        names = self._job.names
        return EdgeKey(EdgeKind.DEPENDS_ON, names.task(consumer), names.task(producer))

    def _draw(self, producer: int, consumer: int, sample: Sample | None) -> None:
        """Draw an edge as of a sample; None if all tasks have completed."""
        task = sample.tasks.get(producer) if sample is not None else None
        done = task is None or not task.open
        key = self._key(producer, consumer)
        self._drop.discard(key)
        self._put[key] = Edge(
            kind=EdgeKind.DEPENDS_ON,
            source=key.source,
            target=key.target,
            state=EdgeState.SATISFIED if done else EdgeState.PENDING,
            evidence=f"{self._source}: {task_name(consumer)} hangs on the slot of {task_name(producer)}",
        )

    def edges(self) -> tuple[Iterable[Edge], Iterable[EdgeKey]]:
        """Return the edges changed since the last call, and the removed ones."""
        if self._job.run.phase == "completed":
            for producer, consumers in self._behind.items():
                for consumer in consumers:
                    self._draw(producer, consumer, None)
            self._behind.clear()
            self._before.clear()
        put: list[Edge] = []
        drop: set[EdgeKey] = set()
        if self._queued is not None:  # the graph does not declare who waits for a core
            put, drop = list(self._queued.values()), self._drawn - self._queued.keys()
            self._drawn, self._queued = set(self._queued), None
        if self._job.run.graph is None:
            put, drop = [*put, *self._put.values()], drop | self._drop
            self._put, self._drop = {}, set()
        return put, drop

    # what follows

    def suspicion(self) -> Suspicion:
        """Return the blocking tasks: running or deferred ones, or else those that could run."""
        assert self._sample is not None
        tasks = self._sample.tasks.values()
        active = sorted(t.raw for t in tasks if t.state is TaskState.RUNNING or (t.open and t.deferred))
        if active:
            return Suspicion(tuple(active), True, "the scheduler's memory says that it is under way")
        ready = sorted(t.raw for t in tasks if t.state is TaskState.READY)
        return Suspicion(tuple(ready), True, "the scheduler's memory says that it is ready and on no core")

    def statements(self) -> Iterator[Diagnostic]:
        for core in self._unreturned:
            facts = CoreFacts(core=core.core, tid=core.tid, func=core.func, task=core.task)
            memory, values = Mark(self._source, "", kind="memory", seen=True), {"said": core.text}
            yield statement(self._job, "core-unreturned", values, facts=facts, shown_by=memory, detail=core.core)
        if self.still_s >= _STILL_S:
            yield statement(self._job, "scheduler-still", {"still": duration(self.still_s * 1e9)})

    def _turns(self, sample: Sample, wall_ns: int) -> None:
        """Track how long the scheduler's threads have not turned."""
        if not any(sample.turns):
            return
        if self._turned is None or self._turned[0] != sample.turns:
            self._turned = (sample.turns, wall_ns)
        before, self.still_s = self.still_s, (wall_ns - self._turned[1]) / 1e9
        self._job.stale |= before >= _STILL_S or self.still_s >= _STILL_S


def _reopened_late(run: Run, sample: Sample) -> list[int]:
    """Return tasks that a late log line reopened after their slots were freed."""
    open_tasks = [raw for raw, record in run.tasks.items() if record.open and raw not in sample.tasks]
    return [raw for raw in open_tasks if local_of(raw) < sample.tails.get(ring_of(raw), 0)]
