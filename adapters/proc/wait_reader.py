"""What every thread of one process waits for, described anew only when something about it changed."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Final

from livedbg.adapters.proc.lock_waits import LockWaits
from livedbg.adapters.proc.pi_cycles import resolve_parked
from livedbg.adapters.proc.syscall_waits import SyscallWaits
from livedbg.adapters.proc.threads import ThreadSample
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import NO_WAIT, Wait
from livedbg.linux.procfs import BlockedSyscall
from livedbg.model import ThreadState, WaitKind

__all__ = ["WaitReader"]

_STOPPED: Final = Wait("stopped (SIGCONT resumes it)", kind=WaitKind.STOP)
_TRACED: Final = Wait("stopped by its tracer", kind=WaitKind.STOP)
_FROZEN: Final = Wait("a freeze of its control group", kind=WaitKind.STOP)
_FAULT: Final = Wait("page fault", kind=WaitKind.FAULT)
_UNSEEN: Final = Wait("page fault or frozen (its control group can't be read)", kind=WaitKind.FAULT)
_UNNAMED: Final = Wait(None)


class WaitReader:
    """Describes the waits of one process and remembers the descriptions.

    A futex wait is described anew when the call, the memory around the word or the set of threads
    changed; any other wait when the call or the scene's version did.
    """

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._locks = LockWaits(view)
        self._calls = SyscallWaits(view)
        self._known: dict[int, tuple[Hashable, Wait]] = {}
        self._tids: frozenset[int] = frozenset()

    def sample(self, samples: Collection[ThreadSample]) -> dict[int, Wait]:
        """The wait of each thread.

        Raises:
            OSError: the memory can't be read: the process is gone or protected.
        """
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
            key = (call, self._view.scene.version)
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
        """The wait of a thread that sleeps in the kernel in no system call: a frozen one, or a page fault.

        Version 1 freezes in state D in `__refrigerator`, version 2 in state S in a function that depends on the kernel.
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
