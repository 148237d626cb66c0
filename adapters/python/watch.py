"""Watch one Python process: publish samples of its memory and its stacks.

Edges (scope `python/<process id>`):
    thread  holds      gil        it is the GIL's last holder, and the GIL is locked
    thread  waits_for  gil        it sleeps on the GIL's condition variable
    thread  waits_for  pylock     threading.Lock, RLock
    thread  holds      pylock     if the owner is known
    thread  waits_for  cond       Condition.wait and what is built on it: waits to be notified
    thread  waits_for  thread     Thread.join
    sem, cond  part_of  pylock, cond, gil    the C object inside, which /proc shows
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import structs

from livedbg.adapters.python.forks import Inherited
from livedbg.adapters.python.givers import Given, ProcessGivers
from livedbg.adapters.python.loop_watch import LoopWatch
from livedbg.adapters.python.processes import PythonProcess
from livedbg.adapters.python.pyspy import PySpy, SpyThread, frames_of, given_name
from livedbg.adapters.python.samples import UNKNOWN, LockWait, Movement, NotifyWait, Sample
from livedbg.adapters.python.status import Statuses
from livedbg.model import Edge, EdgeKey, EdgeKind, Resource, Stack, ids
from livedbg.model.errors import LivedbgError
from livedbg.model.events import StacksSeen
from livedbg.model.facts import LockFacts, WaitedFacts
from livedbg.session.adapter import Context
from livedbg.session.pacing import ChangePace, timed
from livedbg.session.publisher import Publisher
from livedbg.session.sources import StackSources

_GIL_COND_AT: Final = 32  # struct _gil_runtime_state: cond (pycore_gil.h, glibc)


class PythonState:
    """Collects edges and resources of one process."""

    def __init__(self, host: str, pid: int) -> None:
        self._host = host
        self._pid = pid
        self.edges: dict[EdgeKey, Edge] = {}
        self.resources: dict[str, Resource] = {}

    def add(self, sample: Sample, inherited: Mapping[int, Inherited], given: Given, *, semaphores: bool) -> None:
        """Add everything of a sample.

        Args:
            inherited: locks that were inherited locked from a fork, by address.
            given: who gives what is waited for.
            semaphores: locks are made of semaphores (up to 3.13).
        """
        self._gils(sample)
        for wait in sample.lock_waits:
            self._lock(wait, inherited.get(wait.lock.address), semaphores)
        for notify in sample.notify_waits:
            self._notify(notify, given.givers.get(notify.address, ()))
        for thread, channels in given.into.items():
            for channel in channels:
                self._edge(EdgeKind.GIVES, thread, channel, "code ahead of its sleep writes into it", inferred=True)
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

    def _notify(self, wait: NotifyWait, givers: tuple[str, ...]) -> None:
        target = self._id("cond", wait.address)
        self.resources[target] = Resource(
            id=target,
            kind="cond",
            name=wait.label,
            state="waits to be notified",
            facts=WaitedFacts(givers=givers) if givers else None,
            attributes={"type": f"Python: {wait.label}", "called in": wait.where},
        )
        evidence = f"{wait.label} of {wait.address:#x}, called in {wait.where}"
        self._edge(EdgeKind.WAITS_FOR, self._thread(wait.tid), target, evidence, timed=wait.timed)
        self._part_of("sem", wait.word, target)

    def owner_by_py_spy(self, runtime: int, tid: int) -> None:
        """Add the GIL's holder if only py-spy knows it (Python up to 3.10); from 3.7 on `_PyRuntime` has the GIL."""
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


_MOVING_S: Final = 5.0  # longest pause while all that moved goes on moving
_MOVING_STACKS_S: Final = 20.0  # the same of stacks: py-spy takes some ten milliseconds
_CUT = "taken while the thread ran: it may be truncated or inconsistent"


def _pace() -> ChangePace:
    return ChangePace(share=0.001, burst_s=0.1, moving_most_s=_MOVING_S)


class Watch:
    """Watches one Python process."""

    def __init__(self, process: PythonProcess, spy: PySpy, context: Context, statuses: Statuses) -> None:
        self.process = process
        self.id = ids.process(context.request.host, process.pid)
        self._spy = spy
        self._context = context
        self._statuses = statuses
        self._memory_pace = _pace()
        self._stack_pace = ChangePace(share=0.001, burst_s=0.1, moving_most_s=_MOVING_STACKS_S)
        self._loop_pace = _pace()
        self._givers = ProcessGivers(context.request.host, process.pid, process.reader)
        self._loops = LoopWatch(process, context, statuses, self._givers)
        self._spy_owner: int | None = None
        self._shown = Publisher(f"python/{self.id}")
        self._stacks: dict[str, Stack] = {}
        self._sources = StackSources()
        self._lock = asyncio.Lock()

    async def turn(self, moved: Movement) -> None:
        """Sample whatever changed and is due."""
        async with self._lock:
            if self._memory_pace.due(*moved):
                await self._sample(moved)
            if self.process.readable and self._loop_pace.due(*moved):
                await self._sample_loops(moved)
            if self._context.request.stacks != "none" and self._stack_pace.due(*moved):
                try:
                    await self._take_stacks(moved, local_variables=self._context.request.local_variables)
                except LivedbgError as error:
                    self._statuses.failed(self.process.pid, error)
                else:
                    self._statuses.recovered(self.process.pid)

    async def reread(self, moved: Movement) -> None:
        """Sample its memory now, changed or not; raise OSError if it is gone or changes too fast."""
        async with self._lock:
            await self._sample(moved)
            if self.process.readable:
                await self._sample_loops(moved)

    async def take_stacks(self, *, local_variables: bool) -> None:
        """Take the stacks now, on request; raise LivedbgError on failure."""
        async with self._lock:
            await self._sample(UNKNOWN)
            if self.process.readable:
                await self._sample_loops(UNKNOWN)
            await self._take_stacks(UNKNOWN, local_variables=local_variables, everything=True)

    def forget(self) -> None:
        """Remove the edges of an ended process from the graph."""
        self._loops.forget()
        self._context.emit(*self._shown.show(self._context.stamp(), edges=()))

    def take_back(self) -> None:
        """Withdraw all that was known until the next turn has read the process again."""
        self.forget()
        self._memory_pace, self._loop_pace = _pace(), _pace()

    async def _sample(self, moved: Movement) -> None:
        if not self.process.readable:
            return
        began_ns = self._context.stamp()["mono_ns"]
        (sample, given), cost = await asyncio.to_thread(timed, self._sampled)
        _, ours = timed(partial(self._emit_state, sample, began_ns, given))
        self._memory_pace.sampled(moved.signature, cost.cpu_s + ours.cpu_s, moved.still)

    def _sampled(self) -> tuple[Sample, Given]:
        sample = self.process.sample()
        givers = self._givers.of_threads(sample)
        return sample, Given(givers, self._givers.into())

    async def _sample_loops(self, moved: Movement) -> None:
        try:
            reading, cost = await asyncio.to_thread(timed, self._loops.sample)
        except (PermissionError, ProcessLookupError):
            raise
        except OSError:
            self._loops.unreadable()
            raise
        await self._loops.add_sources(reading, self._sources)
        _, ours = timed(self._loops.emit, reading)
        self._loop_pace.sampled(moved.signature, cost.cpu_s + ours.cpu_s, moved.still)

    async def _take_stacks(self, moved: Movement, *, local_variables: bool, everything: bool = False) -> None:
        try:
            threads = await self._spy.dump(self.process.pid, local_variables=local_variables)
        finally:
            self._stack_pace.sampled(moved.signature, self._spy.cost_s, moved.still)
        await self._emit_stacks(threads, everything)
        if not self.process.readable:
            owner = next((thread for thread in threads if thread.owns_gil), None)
            self._spy_owner = self._tid(owner) if owner is not None else None
            self._emit_state(Sample(), self._context.stamp()["mono_ns"], Given())

    def _tid(self, thread: SpyThread) -> int | None:
        known = self.process.our_tid(thread.os_thread_id)
        return known if known is not None else self.process.tid_of(thread.thread_id)

    async def _emit_stacks(self, threads: list[SpyThread], everything: bool) -> None:
        """Publish stacks of running threads and those that changed since last published (or all)."""
        stamp = self._context.stamp()
        sample = self.process.last
        waiters = {wait.tid for wait in sample.gil_waits}
        has_gil = not self.process.interpreter.free_threaded
        changed = []
        for thread in threads:
            tid = self._tid(thread)
            if tid is None:
                continue
            ran = thread.active and thread.os_thread_id is not None  # without a tid it only means: not known
            stack = Stack(
                thread=ids.thread(self._context.request.host, self.process.pid, tid),
                frames=frames_of(thread),
                taken_mono_ns=stamp["mono_ns"],
                source="py-spy",
                layer="python",
                partial=ran,
                note=_CUT if ran else None,
                thread_name=given_name(thread),
                holds_gil=thread.owns_gil if has_gil else None,
                waits_gil=tid in waiters if self.process.readable and has_gil else None,
            )
            known = self._stacks.get(stack.thread)
            if everything or ran or known is None or structs.replace(known, taken_mono_ns=stamp["mono_ns"]) != stack:
                changed.append(stack)
            self._stacks[stack.thread] = stack
        if changed:
            stacks = await self._sources.added(self.process.pid, changed)
            self._context.emit(StacksSeen(stacks=stacks, **stamp))

    def _emit_state(self, sample: Sample, began_ns: int, given: Given) -> None:
        """Publish changed edges and resources; new edges hold since the sample began."""
        state = PythonState(self._context.request.host, self.process.pid)
        layout = self.process.interpreter.layout
        semaphores = layout is not None and not layout.lock_word
        state.add(sample, self.process.inherited, given, semaphores=semaphores)
        runtime = self.process.interpreter.runtime
        if self._spy_owner is not None and runtime is not None and not self.process.interpreter.free_threaded:
            state.owner_by_py_spy(runtime, self._spy_owner)
        stamp, resources = self._context.stamp(), state.resources.values()
        self._context.emit(*self._shown.show(stamp, resources=resources, edges=state.edges.values(), since_ns=began_ns))
