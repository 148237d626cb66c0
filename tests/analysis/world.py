"""Builds states by events, as adapters would, in few words."""

from __future__ import annotations

from typing import Any

from livedbg.analysis import Diagnosis, Finding
from livedbg.model import (
    Edge,
    EdgeKind,
    EdgeState,
    ExceptionHit,
    Process,
    Resource,
    SourceHealth,
    SourceStatus,
    Task,
    TaskState,
    Thread,
    ThreadState,
)
from livedbg.model import events as ev
from livedbg.model.snapshot import Snapshot
from livedbg.recording.file import sleeps_s, wait_kind
from livedbg.session.rulebook import diagnose
from livedbg.state.store import Store

SECOND = 1_000_000_000
LOOK = 300_000_000


_FIELDS = ("outside", "idle", "lost", "listening", "wakes_itself", "facts")


class World:
    """A host `box` whose state is built step by step; every look is 0.3 s after the last one."""

    def __init__(self) -> None:
        self.store = Store()
        self.now_ns = 100 * SECOND
        self.threads: dict[str, Thread] = {}

    def stamp(self) -> ev.Stamp:
        return {"host": "box", "mono_ns": self.now_ns, "wall_ns": 10**18 + self.now_ns}

    def process(
        self,
        pid: int,
        state: ThreadState = ThreadState.WAITING,
        ppid: int | None = None,
        notes: tuple[str, ...] = (),
        *,
        target: bool = True,
        threads: int | None = None,
        outside: str | None = None,
        exe: str | None = None,
        command: tuple[str, ...] = (),
    ) -> str:
        process = Process(
            id=f"process:box/{pid}",
            host="box",
            pid=pid,
            ppid=ppid,
            state=state,
            command=command or (f"prog{pid}",),
            notes=notes,
            target=target,
            thread_count=threads,
            outside=outside,
            exe=exe,
        )
        self.store.apply(ev.ProcessSeen(process=process, **self.stamp()))
        return process.id

    def thread(
        self,
        tid: int,
        name: str = "",
        *,
        pid: int = 1,
        state: ThreadState = ThreadState.WAITING,
        waits_in: str | None = "pthread_mutex_lock",
        timed: bool | None = None,
        cpu_ns: int = 0,
        queued_ns: int = 0,
        wakers: tuple[str, ...] = (),
        outside: str = "",
        switches: int | None = None,
        moved: int | None = None,
    ) -> str:
        running = state is ThreadState.RUNNING
        thread = Thread(
            id=f"thread:box/{pid}/{tid}",
            process=f"process:box/{pid}",
            tid=tid,
            name=name,
            state=state,
            syscall=None if running else "futex",
            waits_in=None if running else waits_in,
            wait=None if running else wait_kind(waits_in),
            sleeps_s=sleeps_s(waits_in),
            timed=timed,
            cpu_ns=cpu_ns,
            queued_ns=queued_ns,
            wakers=wakers,
            outside=outside,
            switches=switches,
            moved=moved,
        )
        self.threads[thread.id] = thread
        self.store.apply(ev.ThreadsSeen(threads=(thread,), **self.stamp()))
        return thread.id

    def resource(self, entity: str, state: str = "", **more: Any) -> str:
        """A resource with fields of it and other attributes."""
        kind = entity.partition(":")[0]
        name = f"{kind} {entity.rpartition('/')[2]}"
        fields = {field: more.pop(field) for field in _FIELDS if field in more}
        resource = Resource(id=entity, kind=kind, name=name, state=state or None, **({"attributes": more} | fields))
        self.store.apply(ev.ResourcesSeen(resources=(resource,), **self.stamp()))
        return entity

    def edge(
        self,
        kind: EdgeKind,
        source: str,
        target: str,
        *,
        any_of: bool = False,
        timed: bool = False,
        state: EdgeState = EdgeState.PENDING,
        evidence: str = "",
    ) -> None:
        edge = Edge(
            kind=kind,
            source=source,
            target=target,
            any_of=any_of,
            timed=timed,
            state=state,
            evidence=evidence or f"{source} {kind} {target}",
        )
        self.store.apply(ev.EdgesAdded(scope="test", edges=(edge,), **self.stamp()))

    def waits(self, source: str, *targets: str, timed: bool = False) -> None:
        for target in targets:
            self.edge(EdgeKind.WAITS_FOR, source, target, any_of=len(targets) > 1, timed=timed)

    def holds(self, target: str, *holders: str) -> None:
        for holder in holders:
            self.edge(EdgeKind.HOLDS, holder, target, any_of=len(holders) > 1)

    def lock(self, number: int, kind: str = "mutex", pid: int = 1, **more: Any) -> str:
        return self.resource(f"{kind}:box/{pid}/{number:#x}", "locked", **more)

    def task(
        self, name: str, state: TaskState, since_ns: int | None, kernel: str = "K", system: str = "nvfuser"
    ) -> str:
        task = Task(
            id=f"task:{system}/{name}", system=system, name=name, kernel=kernel, state=state, since_mono_ns=since_ns
        )
        self.store.apply(ev.TasksSeen(tasks=(task,), **self.stamp()))
        return task.id

    def counter(self, entity: str, value: float, total: float) -> None:
        self.store.apply(ev.CounterSeen(entity=entity, name="completed", value=value, total=total, **self.stamp()))

    def exception(self, kind: str, process: str | None = None) -> None:
        hit = ExceptionHit(id="x", type="app::Error", message="boom\nmore", process=process, catchpoint=f"log: {kind}")
        self.store.apply(ev.ExceptionSeen(hit=hit, **self.stamp()))

    def exits(self, process: str, status: int | None = None) -> None:
        self.store.apply(ev.ProcessExited(id=process, status=status, **self.stamp()))

    def status(self, sentence: str, health: SourceHealth = SourceHealth.DEGRADED, code: str = "c") -> None:
        status = SourceStatus(
            source="native", target="process:box/1", health=health, code=code, sentence=sentence, remedy="mend it"
        )
        self.store.apply(ev.StatusSeen(status=status, **self.stamp()))

    def later(self, nanoseconds: int = LOOK) -> World:
        """A second look: nothing changed but the time."""
        self.now_ns += nanoseconds
        if self.threads:
            self.store.apply(ev.ThreadsSeen(threads=tuple(self.threads.values()), **self.stamp()))
        self.store.apply(ev.Tick(**self.stamp()))
        return self

    def snapshot(self) -> Snapshot:
        return self.store.snapshot()

    def diagnosis(self) -> Diagnosis:
        return diagnose(self.snapshot())

    def finding(self, rule: str) -> Finding | None:
        return next((f for f in self.diagnosis().findings.values() if f.rule == rule), None)

    def found(self, rule: str) -> Finding:
        finding = self.finding(rule)
        assert finding is not None, list(self.diagnosis().findings.values())
        return finding


def two_locks() -> World:
    """Threads 11 and 12 wait crosswise, 13 waits behind them, 1 does something else."""
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="pause")
    a, b, c = world.thread(11, "alpha"), world.thread(12, "beta"), world.thread(13, "gamma")
    m, n = world.lock(0x10), world.lock(0x20)
    world.holds(m, a)
    world.holds(n, b)
    world.waits(a, n)
    world.waits(b, m)
    world.waits(c, m)
    return world.later()
