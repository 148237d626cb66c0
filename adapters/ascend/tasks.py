"""Mutable records of the tasks and cores of a run."""

from __future__ import annotations

from msgspec import Struct, field

from livedbg.adapters.ascend.facts import TaskFacts
from livedbg.adapters.ascend.messages import NOWHERE, Mark
from livedbg.adapters.ascend.names import KernelNames, Names, core_name, core_type, local_of, ring_of, task_name
from livedbg.model import Edge, EdgeKind, EdgeState, Resource, Task, TaskState


class TaskRecord(Struct):
    """One task.

    Attributes:
        since_wall_ns: when it entered its state, as well as the log tells.
        since_exact: that time is of its own line, not of the nearest line with a time.
        kernels: func ids (aic, aiv0, aiv1); -1 for none; () while unknown.
        cores: cores that it runs on now, with the subslot.
        owner: scheduler thread that drives it.
        dispatched: number of (block, subslot) pairs given to cores.
        finished: how many of them are known to have ended.
        fanin: number of dependencies.
        missing: number of unmet ones.
        deferred: its kernel has returned and it waits for an asynchronous completion.
        waits: what it waits for, according to the scheduler's memory.
        already: the state in which it was first seen in memory, at `since_wall_ns`.
        buffered: it is ready, and the log, which shows others' dispatches, shows none of it.
        inferred: evidence for its state, if no line states it.
        said: the newest line about it, without text if its completion is only concluded.
        entered: the line that gave it to a core, while it runs.
    """

    raw: int
    state: TaskState = TaskState.UNKNOWN
    since_wall_ns: int | None = None
    since_exact: bool = False
    kernels: tuple[int, ...] = ()
    cores: dict[int, str] = field(default_factory=dict)
    owner: int | None = None
    blocks: int = 1
    dispatched: int = 0
    finished: int = 0
    fanin: int | None = None
    missing: int | None = None
    deferred: bool = False
    buffered: bool = False
    waits: str = ""
    already: TaskState | None = None
    inferred: str = ""
    said: Mark = NOWHERE
    entered: Mark = NOWHERE

    @property
    def open(self) -> bool:
        """Return whether it has not completed, as far as known."""
        return self.state not in {TaskState.COMPLETED, TaskState.FAILED}

    @property
    def needed(self) -> int:
        """Return the number of (block, subslot) pairs that must end before it completes."""
        return max(1, self.blocks) * max(1, sum(1 for func in self.kernels if func >= 0))

    def to_task(self, names: Names, kernels: KernelNames) -> Task:
        return Task(
            id=names.task(self.raw),
            system="ascend",
            name=task_name(self.raw),
            kernel=kernels.of(self.kernels),
            state=self.state,
            since_wall_ns=self.since_wall_ns,
            fanin_left=0 if self.state is TaskState.COMPLETED else self.missing,
            fanin_total=self.fanin,
            where=tuple(names.core(core) for core in sorted(self.cores)),
            owner=f"scheduler thread {self.owner}" if self.owner is not None else None,
            facts=self._facts(),
        )

    def abandoned(self, names: Names) -> Task:
        """Return the model value of a task whose run ended before it completed; its kernel is kept."""
        ring, local = ring_of(self.raw), local_of(self.raw)
        inferred = "its run ended before it completed"
        facts = TaskFacts(
            ring=ring, local=local, task_id=self.raw, func=self.funcs, blocks=self.blocks, inferred=inferred
        )
        name, state = task_name(self.raw), TaskState.FAILED
        return Task(id=names.task(self.raw), system="ascend", name=name, state=state, facts=facts)

    @property
    def funcs(self) -> str:
        """Return the func ids of its kernels: `0,2`."""
        return ",".join(dict.fromkeys(str(func) for func in self.kernels if func >= 0))

    def _facts(self) -> TaskFacts:
        said, entered = self.said, self.entered if self.entered.source != self.said.source else NOWHERE
        seen = "not after" if self.already is self.state else "not before"
        return TaskFacts(
            ring=ring_of(self.raw),
            local=local_of(self.raw),
            task_id=self.raw,
            func=self.funcs,
            blocks=self.blocks,
            inferred=self.inferred,
            deferred=self.deferred,
            buffered=self.buffered and self.open,
            waits_for=self.waits if self.open else "",
            since="exact" if self.since_exact else seen,
            evidence=said.source,
            evidence_text=said.text,
            evidence_wall_ns=said.evidence().at_wall_ns,
            entered=entered.source,
            entered_text=entered.text,
            entered_wall_ns=entered.evidence().at_wall_ns,
        )

    def runs_on(self, names: Names) -> list[Edge]:
        """Return its edges to the cores that it runs on."""
        return [
            Edge(
                kind=EdgeKind.RUNS_ON,
                source=names.task(self.raw),
                target=names.core(core),
                state=EdgeState.PENDING,
                evidence=self.said.source,
                inferred=bool(self.inferred),
            )
            for core in self.cores
        ]


class CoreRecord(Struct):
    """One AI core.

    Attributes:
        subslot: `aic`, `aiv0` or `aiv1`, or "".
        pending: task queued after `running`.
        condition: `ack` (still executing) or `fin` (done, not collected), from a CLUSTER line.
        stuck: it did not answer the request to exit.
    """

    number: int
    subslot: str = ""
    cluster: int | None = None
    thread: int | None = None
    running: int | None = None
    pending: int | None = None
    condition: str = ""
    stuck: bool = False

    @property
    def label(self) -> str:
        """Return `core 8 (AIV0)`."""
        return core_name(self.number, self.subslot)

    def to_resource(self, names: Names) -> Resource:
        known = {
            "type": core_type(self.subslot),
            "cluster": self.cluster,
            "scheduler_thread": self.thread,
            "task": names.task(self.running) if self.running is not None else None,
            "condition": self.condition,
        }
        attributes = {name: str(value) for name, value in known.items() if value not in (None, "")}
        state = "stuck" if self.stuck else "busy" if self.running is not None else "idle"
        return Resource(id=names.core(self.number), kind="core", name=self.label, state=state, attributes=attributes)
