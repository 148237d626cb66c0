"""Convert changes of a job to events, and what is known of it to diagnostics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from livedbg.adapters.ascend.diagnostics.failures import failures, stall_diagnostics, time_limits
from livedbg.adapters.ascend.diagnostics.run import flag_cycles, lost_orders, run_complete, run_state, shared_log
from livedbg.adapters.ascend.job import NO_MEMORY, Job
from livedbg.adapters.ascend.messages import NOWHERE
from livedbg.adapters.ascend.run import Run
from livedbg.adapters.ascend.waits import suspects, wait_edges
from livedbg.graphs.declared import LostOrder, TaskGraph
from livedbg.model import Diagnostic, Edge, EdgeKey, EdgeKind, EdgeState, Resource, Task, TaskState
from livedbg.model.events import Event, Stamp
from livedbg.session.publisher import Publisher

_ORCHESTRATOR: Final = {"done": TaskState.COMPLETED, "failed": TaskState.FAILED}
_MISSING: Final = 1_000  # missing edges that are drawn


class Emitter:
    """Emits the changes of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        job.run_ended = self.forget
        self._shown = Publisher(job.names.scope, dated=False)
        self._edges = self._shown.edges
        self._inferred: dict[EdgeKey, Edge] = {}
        self._running_edges: dict[int, list[EdgeKey]] = {}
        self._orchestrator_seen = ""
        self._former: set[int] = set()
        self._finished: list[Task] = []

    def forget(self, former: Run) -> None:
        """Prepare for a new run: drop the former run's edges, and close its open tasks."""
        live = set(self._job.live.open_tasks)
        names, kernels = self._job.names, self._job.kernels
        self._former.update(former.tasks)
        ended = (former.tasks[raw] for raw in sorted(former.changed) if former.phase == "completed")
        self._finished += [record.to_task(names, kernels) for record in ended if not record.open]
        tasks = sorted(former.tasks.items())
        self._finished += [record.abandoned(names) for raw, record in tasks if record.open and raw not in live]
        self._edges.clear()
        self._inferred.clear()
        self._running_edges.clear()

    def conclude(self) -> None:
        """Update suspects, inferred waits and the graph, after all available lines were read."""
        if not self._job.stale:
            return
        self._job.stale = False
        dropped, names = self._job.drop_contradicted_graph(), self._job.names
        for edge in dropped.dependencies if dropped is not None else ():
            self._edges.drop([EdgeKey(EdgeKind.DEPENDS_ON, names.task(edge.succ), names.task(edge.pred))])
        live, in_log = self._job.live, suspects(self._job)
        self._job.suspicion = live.suspicion() if live.speaks else in_log
        found = {edge.key: edge for edge in wait_edges(self._job)}
        self._edges.drop([key for key in self._inferred if key not in found])
        self._edges.put(found.values())
        self._inferred = found

    def collect(self, stamp: Stamp, *, whole: bool = False) -> list[Event]:
        """Return the events since the last call; if `whole`, all input was read: update the conclusions too."""
        if whole:
            self.conclude()
        finished, self._finished = self._finished, []
        events = self._shown.add(stamp, tasks=finished)  # of a former run, whose tasks had the same names
        tasks = self._tasks()
        put, drop = self._job.live.edges()
        self._edges.drop(drop)
        self._edges.put(put)
        events += self._shown.add(stamp, tasks=tasks, resources=self._resources(), counters=self._counters())
        return events + self._shown.show(stamp, diagnostics=_diagnostics(self._job)) if whole else events

    def _tasks(self) -> list[Task]:
        """Return the changed tasks; updates their edges."""
        changed, self._job.run.changed = sorted(self._job.run.changed), set()
        tasks = []
        for raw in changed:
            record = self._job.run.tasks[raw]
            task = record.to_task(self._job.names, self._job.kernels)
            if task.kernel is None and raw in self._former:
                task = structs.replace(task, kernel="")  # the stream still has what the former run's task ran
            tasks.append(task)
            runs_on = record.runs_on(self._job.names) if record.state is TaskState.RUNNING else []
            keys = [edge.key for edge in runs_on]
            self._edges.drop([key for key in self._running_edges.get(raw, ()) if key not in keys])
            self._running_edges[raw] = keys
            self._edges.put(runs_on)
            if self._job.run.graph is not None:
                self._edges.put(self._declared_edges(raw, self._job.run.graph))
        if changed:
            self._edges.put(self._missing_edge(lost) for lost in self._job.lost.sure[:_MISSING])
        waits = any(key.source == self._job.names.orchestrator for key in self._inferred)
        fatal = self._job.trouble.fatal
        failed = fatal is not None and 0 < fatal.code < 100 and not waits
        state = "waiting" if waits else "failed" if failed else self._job.run.orchestrator
        if state != self._orchestrator_seen and (waits or failed or self._orchestrator_seen):
            self._orchestrator_seen = state
            tasks.append(self._orchestrator_task(state))
        return tasks

    def _orchestrator_task(self, state: str) -> Task:
        return Task(
            id=self._job.names.orchestrator,
            system="ascend",
            name="orchestrator",
            state=_ORCHESTRATOR.get(state, TaskState.RUNNING),
            owner="AICPU thread",
            attributes={"role": "submits the tasks", "waiting": "yes" if state == "waiting" else "no"},
        )

    def _declared_edges(self, raw: int, graph: TaskGraph) -> list[Edge]:
        run, alone = self._job.run, self._job.last_mark is NOWHERE and self._job.live is NO_MEMORY
        pairs = [(raw, after) for after in graph.successors.get(raw, ())]
        pairs += [(before, raw) for before in graph.predecessors.get(raw, ())]
        # without a log, nothing shows that anything waits
        return [self._depends(before, after, alone or not run.task(before).open) for before, after in pairs]

    def _missing_edge(self, lost: LostOrder) -> Edge:
        names = self._job.names
        return Edge(
            kind=EdgeKind.DEPENDS_ON,
            source=names.task(lost.second),
            target=names.task(lost.first),
            state=EdgeState.MISSING,
            evidence=f"{self._job.graph_mark.source}: {lost.hazard} of tensor {lost.tensor}, {lost.region}; no path",
            inferred=True,
        )

    def _depends(self, predecessor: int, successor: int, done: bool) -> Edge:
        return Edge(
            kind=EdgeKind.DEPENDS_ON,
            source=self._job.names.task(successor),
            target=self._job.names.task(predecessor),
            state=EdgeState.SATISFIED if done else EdgeState.PENDING,
            evidence=f"{self._job.graph_mark.source}: pred {predecessor}, succ {successor}",
        )

    def _resources(self) -> Iterator[Resource]:
        changed, self._job.run.changed_cores = sorted(self._job.run.changed_cores), set()
        for core in changed:
            yield self._job.run.cores[core].to_resource(self._job.names)
        ring = self._job.trouble.ring
        if ring is not None and ring.ring is not None:
            how = "too small" if ring.never_fits else "full"
            state = f"{how}, {ring.level}" if ring.level else how
            name = ring.name.removeprefix("the ")
            yield Resource(id=self._job.names.ring(ring.ring), kind="ring", name=name, state=state)

    def _counters(self) -> dict[tuple[str, str], tuple[float, float | None]]:
        counts = self._job.run.counts
        if not (self._job.run.tasks or counts.total):
            return {}
        seen = self._job.run.done if counts.completed is None else counts.completed
        return {(self._job.names.run, "completed"): (seen, counts.total)}


def _diagnostics(job: Job) -> Iterator[Diagnostic]:
    """Yield all diagnostics of a job as it is now; each id once."""
    if job.run.phase != "unknown" or job.run.tasks or job.trouble.crash is not None:
        yield from _of_the_run(job)
    yield from time_limits(job)


def _of_the_run(job: Job) -> Iterator[Diagnostic]:
    run, stall = job.run, job.stalls.stall
    yield run_state(job)
    yield from job.live.statements()
    if run.phase == "completed":
        yield run_complete(job)
    elif stall is not None:
        yield from stall_diagnostics(job, stall)
    yield from failures(job)
    yield from lost_orders(job)
    if run.phase != "completed":
        yield from flag_cycles(job)
    if job.shared:
        yield shared_log(job)
