"""How a sample of a Python process appears in the state: resources and edges.

Edges (scope `python/<process id>`):
    thread  holds      gil        it is the GIL's last holder, and the GIL is locked
    thread  waits_for  gil        it sleeps on the GIL's condition variable
    thread  waits_for  pylock     threading.Lock, RLock
    thread  holds      pylock     where the owner is known
    thread  waits_for  cond       Condition.wait and what is built on it: waits to be notified
    thread  waits_for  thread     Thread.join
    sem, cond  part_of  pylock, cond, gil    the C object inside, which is what /proc shows
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from livedbg.adapters.python.forks import Inherited
from livedbg.adapters.python.samples import LockWait, NotifyWait, Sample
from livedbg.model import Edge, EdgeKey, EdgeKind, Resource, ids
from livedbg.model.facts import LockFacts

__all__ = ["PythonState"]

_GIL_COND_AT: Final = 32  # struct _gil_runtime_state: cond (pycore_gil.h, glibc)


class PythonState:
    """Edges and resources of one process, as they are put together.

    Args:
        host: the host's name.
        pid: the process.
    """

    def __init__(self, host: str, pid: int) -> None:
        self._host = host
        self._pid = pid
        self.edges: dict[EdgeKey, Edge] = {}
        self.resources: dict[str, Resource] = {}

    def add(self, sample: Sample, inherited: Mapping[int, Inherited], *, semaphores: bool) -> None:
        """Add everything that a sample found.

        Args:
            sample: the sample.
            inherited: locks that came locked out of a fork, by address.
            semaphores: locks are made of semaphores (up to 3.13).
        """
        self._gils(sample)
        for wait in sample.lock_waits:
            self._lock(wait, inherited.get(wait.lock.address), semaphores)
        for notify in sample.notify_waits:
            self._notify(notify)
        for join in sample.join_waits:
            evidence = f"Thread.join in {join.where}"
            self._edge(
                EdgeKind.WAITS_FOR, self._thread(join.tid), self._thread(join.target), evidence, timed=join.timed
            )

    def _gils(self, sample: Sample) -> None:
        for address, holder in sample.holders.items():
            gil = self._id("gil", address)
            waiters = [wait.tid for wait in sample.gil_waits if wait.gil.address == address]
            count = len(waiters)
            state = f"held, {count} thread{'s' * (count != 1)} wait{'s' * (count == 1)}" if count else "held"
            self.resources[gil] = Resource(id=gil, kind="gil", name="GIL", state=state)
            evidence = f"GIL {address:#x}: locked, last_holder is the thread state of {holder}"
            self._edge(EdgeKind.HOLDS, self._thread(holder), gil, evidence)
            for tid in waiters:
                evidence = f"sleeps on the condition variable of GIL {address:#x}"
                self._edge(EdgeKind.WAITS_FOR, self._thread(tid), gil, evidence)
            if waiters:
                self._part_of("cond", address + _GIL_COND_AT, gil)
        for address in sample.gils.keys() - sample.holders.keys():
            gil = self._id("gil", address)
            self.resources[gil] = Resource(id=gil, kind="gil", name="GIL", state="free, or changing hands")

    def _lock(self, wait: LockWait, inherited: Inherited | None, semaphores: bool) -> None:
        lock = wait.lock
        target = self._id("pylock", lock.address)
        attributes, facts = {"type": lock.type_name}, None
        owner = "owner word" if lock.recursive else "a `with` block"
        if wait.owner is not None:
            state = f"held by thread {wait.owner.tid}"
            attributes["held in"] = wait.owner.where
            how = f"held in {wait.owner.where}, by {owner}"
            if lock.recursive:
                how = f"owner word {lock.owner:#x} is thread {wait.owner.tid}, now in {wait.owner.where}"
            evidence = f"{lock.address:#x} {how}"
            self._edge(EdgeKind.HOLDS, self._thread(wait.owner.tid), target, evidence, inferred=wait.owner.inferred)
        elif inherited is not None:
            state = inherited.state
            facts = LockFacts(forked=inherited.forked, inherited=inherited.evidence)
        else:
            state = "locked; Python keeps no owner of a Lock, and no `with` block has it"
        self.resources[target] = Resource(
            id=target,
            kind="pylock",
            name=f"{lock.type_name} {lock.address:#x}",
            state=state,
            facts=facts,
            attributes=attributes,
        )
        evidence = f"{lock.address:#x}, in {wait.where}"
        if inherited is not None:
            evidence += f"; {inherited.evidence}"
        self._edge(EdgeKind.WAITS_FOR, self._thread(wait.tid), target, evidence, timed=wait.timed)
        if semaphores:
            self._part_of("sem", lock.word, target)

    def _notify(self, wait: NotifyWait) -> None:
        target = self._id("cond", wait.address)
        self.resources[target] = Resource(
            id=target,
            kind="cond",
            name=wait.label,
            state="waits to be notified",
            attributes={"type": f"Python: {wait.label}", "called in": wait.where},
        )
        evidence = f"{wait.label} of {wait.address:#x}, called in {wait.where}"
        self._edge(EdgeKind.WAITS_FOR, self._thread(wait.tid), target, evidence, timed=wait.timed)
        self._part_of("sem", wait.word, target)

    def owner_by_py_spy(self, runtime: int, tid: int) -> None:
        """The GIL's holder where only py-spy knows it (Python up to 3.10).

        Args:
            runtime: address of `_PyRuntime`, which holds the GIL from 3.7 on.
            tid: the thread that py-spy says owns the GIL.
        """
        gil = self._id("gil", runtime)
        self.resources[gil] = Resource(
            id=gil, kind="gil", name="GIL", state="held", attributes={"waiters": "not known for this Python version"}
        )
        self._edge(EdgeKind.HOLDS, self._thread(tid), gil, "py-spy: owns_gil", inferred=True)

    def _part_of(self, kind: str, address: int, whole: str) -> None:
        evidence = f"{kind} {address:#x} is the C object inside"
        self._edge(EdgeKind.PART_OF, self._id(kind, address), whole, evidence)

    def _edge(
        self, kind: EdgeKind, source: str, target: str, evidence: str, *, inferred: bool = False, timed: bool = False
    ) -> None:
        edge = Edge(kind=kind, source=source, target=target, evidence=evidence, inferred=inferred, timed=timed)
        self.edges.setdefault(edge.key, edge)

    def _thread(self, tid: int) -> str:
        return ids.thread(self._host, self._pid, tid)

    def _id(self, kind: str, address: int) -> str:
        return ids.lock(kind, self._host, self._pid, address)
