"""The events that follow from what a job's log and files said: only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from livedbg.adapters.ascend.edges import EdgeBook
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.run import Run
from livedbg.adapters.ascend.statements import statements
from livedbg.adapters.ascend.statements_ends import end_statements
from livedbg.adapters.ascend.waits import suspects, wait_edges
from livedbg.graphs.declared import TaskGraph
from livedbg.graphs.orders import LostOrder
from livedbg.model import (
    Diagnostic,
    Edge,
    EdgeKey,
    EdgeKind,
    EdgeState,
    Resource,
    Severity,
    Task,
    TaskState,
)
from livedbg.model.events import CounterSeen, DiagnosticSeen, Event, ResourcesSeen, Stamp, TasksSeen

if TYPE_CHECKING:
    from livedbg.adapters.ascend.world import World

__all__ = ["Emitter"]

_ORCHESTRATOR: Final = {"done": TaskState.COMPLETED, "failed": TaskState.FAILED}
_BATCH: Final = 5_000  # tasks in one event
_MISSING: Final = 1_000  # missing edges that are drawn


class Emitter:
    """Emits one job.

    Args:
        world: the job.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._edges = EdgeBook(world.names.scope)
        self._inferred: dict[EdgeKey, Edge] = {}
        self._running_edges: dict[int, list[EdgeKey]] = {}
        self._said: dict[str, Diagnostic] = {}
        self._counted: tuple[float, float | None] | None = None
        self._orchestrator_seen = ""
        self._rings_seen: dict[int, str] = {}
        self._former: set[int] = set()
        self._abandoned: set[int] = set()

    def forget(self, former: Run) -> None:
        """A new run begins: its edges are others, and what the former one left open will never complete.

        Args:
            former: the run that ended.
        """
        live = self._world.live.tasks if self._world.live is not None else {}
        self._abandoned.update(raw for raw, record in former.tasks.items() if record.open and raw not in live)
        self._former.update(former.tasks)
        self._edges.clear()
        self._inferred.clear()
        self._running_edges.clear()

    def conclude(self) -> None:
        """All lines that are there have been taken: who holds the run up, who waits?"""
        if not self._world.stale:
            return
        self._world.stale = False
        self._world.check_graph()
        live = self._world.live if self._world.live is not None and self._world.live.speaks else None
        found_in_log = suspects(self._world.run, self._world.stalls.stall, self._world.trouble)
        self._world.suspicion = live.suspicion() if live is not None else found_in_log
        found = {
            edge.key: edge
            for edge in wait_edges(
                self._world.run,
                self._world.suspicion,
                self._world.stalls.stall,
                self._world.trouble,
                self._world.quiet,
                linked=live is not None,
            )
        }
        self._edges.drop([key for key in self._inferred if key not in found])
        self._edges.put(found.values())
        self._inferred = found

    def drop_graph(self, graph: TaskGraph) -> None:
        """The graph turned out to be another run's."""
        names = self._world.names
        self._edges.drop(
            EdgeKey(EdgeKind.DEPENDS_ON, names.task(edge.successor), names.task(edge.predecessor))
            for edge in graph.dependencies
        )

    def collect(self, stamp: Stamp, *, whole: bool = False) -> list[Event]:
        """The events that follow from what was taken since the last call.

        Args:
            stamp: stamp of the events.
            whole: all that is there has been read: conclude too.
        """
        if whole:
            self.conclude()
        events = self._task_events(stamp)
        events += self._resource_events(stamp)
        if self._world.live is not None and self._world.run.graph is None:
            put, drop = self._world.live.edges()
            self._edges.drop(drop)
            self._edges.put(put)
        events += self._edges.events(stamp)
        events += self._counter_events(stamp)
        if whole:
            events += self._diagnostic_events(stamp)
        return events

    def _task_events(self, stamp: Stamp) -> list[Event]:
        changed, self._world.run.changed = sorted(self._world.run.changed), set()
        tasks = [self._abandoned_task(raw) for raw in sorted(self._abandoned)]
        self._abandoned.clear()
        for raw in changed:
            record = self._world.run.tasks[raw]
            task = record.to_task(self._world.names, self._world.kernels)
            if task.kernel is None and raw in self._former:
                task = structs.replace(task, kernel="")  # the stream still has what the former run's task ran
            tasks.append(task)
            runs_on = record.runs_on(self._world.names) if record.state is TaskState.RUNNING else []
            keys = [edge.key for edge in runs_on]
            self._edges.drop([key for key in self._running_edges.get(raw, ()) if key not in keys])
            self._running_edges[raw] = keys
            self._edges.put(runs_on)
            if self._world.run.graph is not None:
                self._edges.put(self._declared_edges(raw))
        if changed:
            self._edges.put(self._missing_edge(lost) for lost in self._world.lost.sure[:_MISSING])
        waits = any(key.source == self._world.names.orchestrator for key in self._inferred)
        fatal = self._world.trouble.fatal
        failed = fatal is not None and 0 < fatal.code < 100 and not waits
        state = "waiting" if waits else "failed" if failed else self._world.run.orchestrator
        if state != self._orchestrator_seen and (waits or failed or self._orchestrator_seen):
            self._orchestrator_seen = state
            tasks.append(self._orchestrator_task(state))
        return [TasksSeen(tasks=tuple(tasks[i : i + _BATCH]), **stamp) for i in range(0, len(tasks), _BATCH)]

    def _abandoned_task(self, raw: int) -> Task:
        attributes = {"inferred": "its run ended before it completed", "deferred": "", "entered": "", "evidence": ""}
        return Task(
            id=self._world.names.task(raw),
            system="ascend",
            name=task_name(raw),
            state=TaskState.FAILED,
            attributes=attributes,
        )

    def _orchestrator_task(self, state: str) -> Task:
        return Task(
            id=self._world.names.orchestrator,
            system="ascend",
            name="orchestrator",
            state=_ORCHESTRATOR.get(state, TaskState.RUNNING),
            owner="AICPU thread",
            attributes={"role": "submits the tasks", "waiting": "yes" if state == "waiting" else "no"},
        )

    def _declared_edges(self, raw: int) -> list[Edge]:
        graph = self._world.run.graph
        if graph is None:
            return []
        done = not self._world.run.tasks[raw].open
        found = [self._depends(raw, succ, done) for succ in graph.successors.get(raw, ())]
        tasks = self._world.run
        found += [self._depends(pred, raw, not tasks.task(pred).open) for pred in graph.predecessors.get(raw, ())]
        return found

    def _missing_edge(self, lost: LostOrder) -> Edge:
        names = self._world.names
        return Edge(
            kind=EdgeKind.DEPENDS_ON,
            source=names.task(lost.second),
            target=names.task(lost.first),
            state=EdgeState.MISSING,
            evidence=f"{self._world.graph_mark.source}: {lost.hazard} of tensor {lost.tensor}, {lost.region}; no path",
            inferred=True,
        )

    def _depends(self, predecessor: int, successor: int, done: bool) -> Edge:
        return Edge(
            kind=EdgeKind.DEPENDS_ON,
            source=self._world.names.task(successor),
            target=self._world.names.task(predecessor),
            state=EdgeState.SATISFIED if done else EdgeState.PENDING,
            evidence=f"{self._world.graph_mark.source}: pred {predecessor}, succ {successor}",
        )

    def _resource_events(self, stamp: Stamp) -> list[Event]:
        changed, self._world.run.changed_cores = sorted(self._world.run.changed_cores), set()
        resources = [self._world.run.cores[core].to_resource(self._world.names) for core in changed]
        ring = self._world.trouble.ring
        if ring is not None and ring.ring is not None and self._rings_seen.get(ring.ring) != ring.active:
            self._rings_seen[ring.ring] = ring.active
            state = f"full, {ring.active} slots" if ring.active else "full"
            resources.append(
                Resource(id=self._world.names.ring(ring.ring), kind="ring", name=f"task ring {ring.ring}", state=state)
            )
        return [ResourcesSeen(resources=tuple(resources), **stamp)] if resources else []

    def _counter_events(self, stamp: Stamp) -> list[Event]:
        counts = self._world.run.counts
        seen = self._world.run.done if counts.completed is None else counts.completed
        now = (float(seen), float(counts.total) if counts.total is not None else None)
        if now == self._counted or not (self._world.run.tasks or counts.total):
            return []
        self._counted = now
        return [CounterSeen(entity=self._world.names.run, name="completed", value=now[0], total=now[1], **stamp)]

    def _diagnostic_events(self, stamp: Stamp) -> list[Event]:
        events: list[Event] = []
        current = (*statements(self._world), *end_statements(self._world))
        for diagnostic in current:
            if self._said.get(diagnostic.id) != diagnostic:
                self._said[diagnostic.id] = diagnostic
                events.append(DiagnosticSeen(diagnostic=diagnostic, **stamp))
        now = {diagnostic.id for diagnostic in current}
        for gone in [d for d in self._said.values() if d.id not in now]:
            if gone.attributes.get("resolved") != "yes":
                attributes = {**gone.attributes, "resolved": "yes"}
                over = structs.replace(gone, severity=Severity.DEBUG, attributes=attributes)
                self._said[gone.id] = over
                events.append(DiagnosticSeen(diagnostic=over, **stamp))
        return events
