"""Describe the wait of every thread of a process, again only when something about it changed.

Futex waits become resources with holders. Threads that glibc parked because the kernel found a cycle of PI mutexes
need more work:

The kernel answers EDEADLK to FUTEX_LOCK_PI when the owner of the wanted mutex waits, through other PI mutexes, for the
caller. The parked thread no longer shows which mutex it wanted. But its owner is at the far end of the threads that
wait behind the parked one, or, when several threads of one cycle were parked at once, behind another parked thread.
Often the mutex's address is still on the stack: it counts if its owner is the only thread left. The choice is always
marked as inferred.

Invariants:
    wait_reader.P1. Only waiters of PI mutexes wait behind a parked thread: the kernel follows no other lock.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Final

from livedbg.adapters.proc.futex import AROUND, FutexCall, FutexWait, classify
from livedbg.adapters.proc.syscall_waits import SLEEPS, SyscallWaits
from livedbg.adapters.proc.threads import ThreadSample
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import NO_WAIT, Holding, Wait, Waited, Wakers
from livedbg.linux import memory
from livedbg.linux.abi import MutexLayout
from livedbg.linux.maps import Mapping, find_mapping
from livedbg.linux.procfs import BlockedSyscall
from livedbg.model import Resource, ThreadState, WaitKind, ids
from livedbg.model.facts import LockFacts

PARKED: Final = "parked"
"""`Wait.waits_in` of a parked thread until it is resolved."""


def resolve_parked(host: str, pid: int, waits: dict[int, Wait]) -> None:
    """Replace the waits of parked threads in `waits` (by tid) by those for the mutexes that they most likely want."""
    parked = [tid for tid, wait in waits.items() if wait.waits_in == PARKED]
    if not parked:
        return
    waiters: defaultdict[str, list[str]] = defaultdict(list)
    for tid, wait in waits.items():
        if wait.waits_in != PARKED:
            for waited in wait.waited:
                for holding in waited.holders if _is_pi(waited) else ():
                    waiters[holding.entity].append(ids.thread(host, pid, tid))
    threads = {tid: ids.thread(host, pid, tid) for tid in parked}
    ends = {tid: _farthest(thread, waiters) for tid, thread in threads.items()}
    for tid, thread in threads.items():
        behind_others = {end for other in parked if other != tid for end in ends[other]}
        owners = (ends[tid] | behind_others) - {thread}
        waits[tid] = Wait("pthread_mutex_lock", False, _choose(waits[tid].waited, owners), kind=WaitKind.MUTEX)


def _is_pi(waited: Waited) -> bool:
    return waited.resource is not None and waited.resource.attributes.get("kind", "").startswith("PI")


def _farthest(thread: str, waiters: dict[str, list[str]]) -> set[str]:
    """Return the threads at the far end of the waiters of `thread`; `thread` itself if nobody waits for it."""
    seen = {thread}
    edge = {thread}
    while further := {w for t in edge for w in waiters.get(t, ())} - seen:
        seen |= further
        edge = further
    return edge


def _choose(possible: tuple[Waited, ...], owners: set[str]) -> tuple[Waited, ...]:
    """Return the fitting mutex from the stack, or else the owners of which one must hold the wanted mutex."""
    fitting = [waited for waited in possible if not owners or any(h.entity in owners for h in waited.holders)]
    if fitting and len(owners) <= 1:
        return (fitting[0],)
    names = ", ".join(sorted(entity.rpartition("/")[2] for entity in owners))
    evidence = f"the kernel found a cycle of PI mutexes (EDEADLK): it wants one that {names} holds"
    return tuple(Waited(entity, evidence, inferred=True) for entity in sorted(owners))


_MUTEX: Final = MutexLayout()
_STACK_BYTES: Final = 512
_PI: Final = 32
_KINDS: Final = {
    "mutex": WaitKind.MUTEX,
    "rwlock": WaitKind.RWLOCK,
    "cond": WaitKind.CONDITION,
    "sem": WaitKind.SEMAPHORE,
    "barrier": WaitKind.BARRIER,
}


class LockWaits:
    """Describes the futex waits of one process."""

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._pid = view.pid

    @staticmethod
    def read_around(pid: int, calls: Sequence[BlockedSyscall]) -> list[bytes | None]:
        """Read the memory that `describe` needs for each call, in one batch; raise OSError if it can't be read."""
        data = memory.read_many(pid, [(call.args[0] - AROUND, 2 * AROUND) for call in calls])
        for at, call in enumerate(calls):
            if data[at] is None:  # an object at the start of a mapping
                (behind,) = memory.read_many(pid, [(call.args[0], AROUND)])
                data[at] = bytes(AROUND) + behind if behind is not None else None
        return data

    def describe(self, call: BlockedSyscall, around: bytes | None, tid: int) -> Wait:
        """Return the wait of a thread in a futex call; `around` is the memory around the word, from `read_around`."""
        futex = FutexCall.of(call)
        found = self._classify(futex, around)
        if found.kind == "parked" and self._in_users_frame(call):
            found = self._classify(futex, around, parks=False)
        if found.kind == "parked":
            return Wait(PARKED, False, self._parked(call, found, tid), kind=WaitKind.MUTEX)
        if found.kind == "join":
            target = self._thread(found.owner, futex.shared)
            wakers = self._wakers(futex.address, futex.shared)
            waited = (Waited(target, found.evidence, wakers=wakers),) if target else ()
            return Wait(found.waits_in, futex.timed, waited, kind=WaitKind.JOIN)
        if found.kind in ("futex", "mutex") and found.owner is None and futex.value == 2:
            found = self._stdio(futex, found)  # half an address may look like the number of a thread that has ended
        kind = _KINDS.get(found.kind, WaitKind.FUTEX)
        return Wait(found.waits_in, futex.timed, (self._waited(found, futex.shared),), kind=kind)

    def _classify(self, futex: FutexCall, around: bytes | None, *, parks: bool = True) -> FutexWait:
        return classify(
            futex,
            around,
            lambda number: self._view.numbers.find(number, elsewhere=futex.shared) is not None,
            glibc=self._view.libc.layouts_known,
            parks=parks,
        )

    def _in_users_frame(self, call: BlockedSyscall) -> bool:
        """Return whether a word of the stack belongs to a user's frame.

        True if a return address into code outside the C library lies between the system call and the word, and always
        for a statically linked library.
        """
        if self._view.libc.static:
            return True
        try:
            data = memory.read(self._pid, call.sp, (call.args[0] - call.sp) // 8 * 8)
        except OSError:
            return False
        words = [word for (word,) in struct.iter_unpack("<Q", data)]
        if _leaves(words, call.pc, self._view.mappings_with(call.pc)):
            return True
        self._view.mappings = []  # code may have been loaded since they were read
        return _leaves(words, call.pc, self._view.mappings_with(call.pc))

    def _thread(self, number: int | None, shared: bool) -> str | None:
        where = self._view.numbers.find(number, elsewhere=shared) if number else None
        return ids.thread(self._view.scene.host, *where) if where else None

    def _waited(self, found: FutexWait, shared: bool, inferred: bool = False) -> Waited:
        pid, address = self._pid, found.address
        if shared:
            pid, address = self._view.scene.shared_identity(pid, address, self._view.mappings_with(address))
        target = ids.lock(found.kind, self._view.scene.host, pid, address)
        attributes = dict(found.attributes)
        if not self._view.libc.layouts_known:
            attributes["libc"] = f"{self._view.libc.label}: layouts not known"
        facts = LockFacts(ended_owner=found.ended_owner, contended=found.contended)
        resource = Resource(
            id=target,
            kind=found.kind,
            name=f"{found.kind} {address:#x}",
            state=found.state,
            facts=facts if facts != LockFacts() else None,
            attributes=attributes,
        )
        holder = self._thread(found.owner, shared)
        holders = (Holding(holder, found.evidence, inferred),) if holder else ()
        wakers = self._wakers(found.address, shared)
        return Waited(target, found.evidence, resource, holders, inferred or found.inferred, wakers)

    def _wakers(self, address: int, shared: bool) -> Wakers:
        """Return the wakers: for a private word, only threads of its process (futex(2), FUTEX_PRIVATE_FLAG)."""
        return Wakers(frozenset({self._pid}), address if shared else None)

    def _parked(self, call: BlockedSyscall, parked: FutexWait, tid: int) -> tuple[Waited, ...]:
        """Return the PI mutexes that a parked thread may have wanted: on its stack and held by another thread."""
        try:
            stack = memory.read(self._pid, call.sp, _STACK_BYTES)
        except OSError:
            return ()
        words = [word for (word,) in struct.iter_unpack("<Q", stack) if word % 8 == 0 and word > 4096]
        possible: list[Waited] = []
        candidates = list(dict.fromkeys(words))
        for address, data in zip(candidates, memory.read_many(self._pid, [(a, 24) for a in candidates]), strict=True):
            if data is None:
                continue
            lock, _, owner, users, kind = struct.unpack_from("<5I", data)
            holds = lock & 0x3FFFFFFF == owner and owner and users and kind < 1024 and kind & _PI
            where = self._view.numbers.find(owner, elsewhere=bool(kind & 128)) if holds else None
            if where is None or where[1] == tid:
                continue
            evidence = f"{parked.evidence}; PI mutex {address:#x} on its stack, owner {owner}"
            found = FutexWait("mutex", address, parked.waits_in, evidence, owner, "locked", {"kind": "PI"})
            possible.append(self._waited(found, bool(kind & 128), inferred=True))
        return tuple(possible)

    def _stdio(self, futex: FutexCall, plain: FutexWait) -> FutexWait:
        """Recognise the lock of a stdio stream: {int lock; int count; void *owner}.

        The owner is the holder's thread descriptor (glibc sysdeps/nptl/stdio-lock.h).
        """
        if self._view.abi.descriptor_tid is None or not self._view.libc.layouts_known:
            return plain
        try:
            owner = int.from_bytes(memory.read(self._pid, futex.address + 8, 8), "little")
            number = int.from_bytes(memory.read(self._pid, owner + self._view.abi.descriptor_tid, 4), "little")
        except (OSError, OverflowError):
            return plain
        if self._view.numbers.find(number, elsewhere=False) is None:
            return plain
        evidence = f"stream lock {futex.address:#x} owner = thread descriptor {owner:#x}, tid {number}"
        return FutexWait(
            "mutex", futex.address, "lock of a stdio stream", evidence, number, "locked", {"kind": "stdio stream"}, True
        )


def _leaves(words: Iterable[int], pc: int, mappings: Sequence[Mapping]) -> bool:
    """Return whether some word points into code of another file than that of `pc`."""
    here = find_mapping(mappings, pc)
    found = (find_mapping(mappings, word) for word in words)
    return here is not None and any(m is not None and "x" in m.permissions and m.path != here.path for m in found)


_STOPPED: Final = Wait("stopped (SIGCONT resumes it)", kind=WaitKind.STOP)
_TRACED: Final = Wait("stopped by its tracer", kind=WaitKind.STOP)
_FROZEN: Final = Wait("a freeze of its control group", kind=WaitKind.STOP)
_FAULT: Final = Wait("page fault", kind=WaitKind.FAULT)
_UNSEEN: Final = Wait("page fault or frozen (its control group can't be read)", kind=WaitKind.FAULT)
_UNNAMED: Final = Wait(None)


class WaitReader:
    """Describes the waits of one process and caches the descriptions.

    A futex wait is described again when the call, the memory around the word or the set of threads changed; a sleep
    when the thread has run; any other wait when the call or the scene's version changed.
    """

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._locks = LockWaits(view)
        self._calls = SyscallWaits(view)
        self._sleeps = {number for number, name in view.abi.syscalls.items() if name in SLEEPS}
        self._known: dict[int, tuple[Hashable, Wait]] = {}
        self._tids: frozenset[int] = frozenset()

    def sample(self, samples: Collection[ThreadSample]) -> dict[int, Wait]:
        """Return the wait of each thread; raise OSError if the memory can't be read."""
        tids = frozenset(sample.tid for sample in samples)
        if tids != self._tids:
            self._view.numbers.update(tids)
            self._tids = tids
            self._known = {tid: known for tid, known in self._known.items() if tid in tids}
        waits: dict[int, Wait] = {}
        futexes: list[tuple[ThreadSample, BlockedSyscall]] = []
        others: list[tuple[ThreadSample, BlockedSyscall]] = []
        for sample in samples:
            call = sample.call
            if not isinstance(call, BlockedSyscall) or sample.state in (ThreadState.STOPPED, ThreadState.TRACED):
                waits[sample.tid] = self._without_call(sample)
            elif call.number == self._view.abi.futex:
                futexes.append((sample, call))
            elif call.number < 0:
                waits[sample.tid] = self._outside_of_calls(sample)
            else:
                others.append((sample, call))
        self._read_futexes(futexes, waits)
        self._view.scene.renew(wanted=any(self._is_new(sample.tid, call) for sample, call in others))
        for sample, call in others:
            key = (call, sample.runs if call.number in self._sleeps else self._view.scene.version)
            known = self._known.get(sample.tid)
            if known is None or known[0] != key:
                name = self._view.abi.syscalls.get(call.number, f"system call {call.number}")
                known = (key, self._calls.describe(name, call))
                self._known[sample.tid] = known
            waits[sample.tid] = known[1]
        return waits

    def _without_call(self, sample: ThreadSample) -> Wait:
        if sample.state is ThreadState.STOPPED:
            return _STOPPED
        return _TRACED if sample.state is ThreadState.TRACED else NO_WAIT

    def _outside_of_calls(self, sample: ThreadSample) -> Wait:
        """Return the wait of a thread that sleeps in the kernel outside of a system call: frozen, or in a page fault.

        The freezer of cgroup version 1 leaves it in state D in `__refrigerator`, version 2 in state S in a
        kernel-dependent function.
        """
        groups = self._view.scene.groups
        if sample.wait_channel == "__refrigerator" or groups.frozen(self._view.pid):
            return _FROZEN
        if sample.state is ThreadState.DISK:
            return _FAULT
        return _UNNAMED if groups.readable(self._view.pid) else _UNSEEN

    def _is_new(self, tid: int, call: BlockedSyscall) -> bool:
        known = self._known.get(tid)
        return known is None or not isinstance(known[0], tuple) or known[0][0] != call

    def _read_futexes(self, futexes: list[tuple[ThreadSample, BlockedSyscall]], waits: dict[int, Wait]) -> None:
        if not futexes:
            return
        around = LockWaits.read_around(self._view.pid, [call for _, call in futexes])
        for (sample, call), data in zip(futexes, around, strict=True):
            key = (call, data, self._tids)
            known = self._known.get(sample.tid)
            if known is None or known[0] != key:
                known = (key, self._locks.describe(call, data, sample.tid))
                self._known[sample.tid] = known
            waits[sample.tid] = known[1]
        resolve_parked(self._view.scene.host, self._view.pid, waits)
