"""Waits for locks and other objects in memory: from futex calls to resources and their holders."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.adapters.proc.futex import AROUND, FutexCall, FutexWait, classify
from livedbg.adapters.proc.pi_cycles import PARKED
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import Holding, Wait, Waited, Wakers
from livedbg.linux import memory
from livedbg.linux.abi import MutexLayout
from livedbg.linux.maps import Mapping, find_mapping
from livedbg.linux.procfs import BlockedSyscall
from livedbg.model import Resource, WaitKind, ids
from livedbg.model.facts import LockFacts

__all__ = ["LockWaits"]

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
        """The memory that `describe` needs of each call, in one batch.

        Raises:
            OSError: the process is gone or its memory may not be read.
        """
        data = memory.read_many(pid, [(call.args[0] - AROUND, 2 * AROUND) for call in calls])
        for at, call in enumerate(calls):
            if data[at] is None:  # an object at the start of a mapping
                (behind,) = memory.read_many(pid, [(call.args[0], AROUND)])
                data[at] = bytes(AROUND) + behind if behind is not None else None
        return data

    def describe(self, call: BlockedSyscall, around: bytes | None, tid: int) -> Wait:
        """The wait of one thread.

        Args:
            call: its futex call.
            around: the memory around the futex word, by `read_around`.
            tid: the thread.
        """
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
        """Whether a word of a thread's stack is of the user's code: a return address into other code than the C
        library's lies between the system call and it. Where the library is part of the executable, it may be."""
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
        resource = Resource(
            id=target,
            kind=found.kind,
            name=f"{found.kind} {address:#x}",
            state=found.state,
            facts=LockFacts(ended_owner=found.ended_owner) if found.ended_owner is not None else None,
            attributes=attributes,
        )
        holder = self._thread(found.owner, shared)
        holders = (Holding(holder, found.evidence, inferred),) if holder else ()
        wakers = self._wakers(found.address, shared)
        return Waited(target, found.evidence, resource, holders, inferred or found.inferred, wakers)

    def _wakers(self, address: int, shared: bool) -> Wakers:
        """A private word can be woken by the threads of its process alone (futex(2), FUTEX_PRIVATE_FLAG)."""
        return Wakers(frozenset({self._pid}), address if shared else None)

    def _parked(self, call: BlockedSyscall, parked: FutexWait, tid: int) -> tuple[Waited, ...]:
        """The PI mutexes that a parked thread may have wanted: their addresses stand on its stack, and
        somebody else holds them (livedbg.adapters.proc.pi_cycles chooses)."""
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
        """The lock of a stdio stream: {int lock; int count; void *owner}, owner being the holder's
        thread descriptor (glibc sysdeps/nptl/stdio-lock.h)."""
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
    """Whether some of the words lead into code of another file than `pc`."""
    here = find_mapping(mappings, pc)
    found = (find_mapping(mappings, word) for word in words)
    return here is not None and any(m is not None and "x" in m.permissions and m.path != here.path for m in found)
