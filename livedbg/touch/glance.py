"""Copies registers and stack tops of *running* threads, each stopped for a small part of a millisecond.

Blocked threads are copied without a stop (livedbg.unwind.capture) and never seized: a stop makes some system calls
return EINTR (signal(7), "interruption of system calls by stop signals": epoll_wait, semop, sigtimedwait, recv with a
time limit …), and a program may not expect that. A thread that enters such a call in the few microseconds between our
check and our stop can still see it.

Invariants:
    glance.L1. One thread at a time: no two threads of a target are stopped by us at the same moment.
    glance.L2. Nothing is left traced or stopped, however this ends: what can't be released by `detach` is released by
        the end of the OS thread that traced it, before the next one is seized (livedbg.linux.ptrace).
    glance.L3. No wait without an end: a thread that doesn't stop in time is released and skipped, with the reason.
    glance.L4. A guard watches while threads are stopped: also a livedbg that is stopped itself releases them.
    glance.L5. Every stop is measured and reported, also when the rest fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from livedbg.linux import memory, procfs, ptrace
from livedbg.linux.procfs import Running
from livedbg.linux.registers import SP
from livedbg.model import ThreadState
from livedbg.touch.guard_process import glance_guarded
from livedbg.unwind.capture import STACK_BYTES, Capture, Refusal, StackReader, ThreadCopy, refusal

_CHECKS: Final = 8  # at a thread that is neither blocked for long enough to be copied nor running
_STOP_NS: Final = 50_000_000  # how long a thread may take to stop
_CPU_NS: Final = 1_000_000_000  # the same where it waits for a CPU: it can stop only when it gets one
_SPIN_NS: Final = 300_000  # how long is checked without a rest
_REST_S: Final = 20e-6
_SOON_NS: Final = 5_000_000  # after this it waits for a CPU that others have: ours is not to be another
_LONG_REST_S: Final = 100e-6
_SWITCH_S: Final = 100e-6  # sys.setswitchinterval: how long another Python thread may keep us waiting meanwhile
_NICE: Final = -10
_GONE_S: Final = 10.0  # how long the end of an OS thread may take on a full machine, and with it the release

_one_at_a_time = threading.Lock()


class Glanced(Struct):
    """The result of a glance.

    Attributes:
        copies: of blocked and running threads.
        stops_ns: upper limit of each thread's stop: from our last check at which it still ran to its release, by
            CLOCK_MONOTONIC.
        skipped: threads without a copy, and why.
    """

    pid: int
    copies: list[ThreadCopy] = field(default_factory=list)
    stops_ns: dict[int, int] = field(default_factory=dict)
    skipped: dict[int, Refusal] = field(default_factory=dict)
    capture: Capture = field(default_factory=lambda: Capture(0, (), (), ()))


def glance(pid: int, tids: Sequence[int], enough: Callable[[], bool] = lambda: False, limit_s: float = 30.0) -> Glanced:
    """Copy the stacks of threads; those that run are stopped for it, one after the other.

    Args:
        enough: returns whether to end now; called between two threads.
        limit_s: time limit of the whole; the threads that are left then are skipped.

    Raises:
        OSError: the process is gone or its mappings may not be read. Nothing was stopped then.
    """
    work = _Work(StackReader(pid), Glanced(pid), time.monotonic() + limit_s, enough)
    left = deque(tid for tid in tids if not work.copied(tid))
    with _one_at_a_time, glance_guarded(pid) if left else contextlib.nullcontext(), _quick_switches():
        while left and not work.over():
            tracer = threading.Thread(target=work.trace, args=(left,), name="livedbg-glance", daemon=True)
            tracer.start()
            tracer.join()
            work.wait_released()
    for tid in left:
        work.glanced.skipped[tid] = Refusal("late", "no time was left for it")
    found = work.glanced
    found.capture = Capture(pid, tuple(found.copies), tuple(found.skipped), work.reader.mappings)
    return found


@contextlib.contextmanager
def _quick_switches() -> Iterator[None]:
    """Keep other Python threads from holding the interpreter for long while a target may be stopped."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_S))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _go_first() -> None:
    """Raise the priority of this OS thread as far as we may: on a full box a stop lasts until we get a CPU."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # 0: the calling thread
        return
    for nice in (_NICE, 0):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
            return


class _Work:
    def __init__(self, reader: StackReader, glanced: Glanced, end_s: float, enough: Callable[[], bool]) -> None:
        self.reader = reader
        self.glanced = glanced
        self._end_s = end_s
        self._enough = enough
        self._held: int | None = None  # what the tracing OS thread may not have released
        self._buffer = ctypes.create_string_buffer(STACK_BYTES + 4096)

    def over(self) -> bool:
        return self._enough() or time.monotonic() > self._end_s

    def copied(self, tid: int) -> bool:
        """Copy a thread without a stop; return False if it is not blocked."""
        copy = self.reader.blocked(tid)
        if copy is not None:
            self.glanced.copies.append(copy)
        return copy is not None

    def trace(self, left: deque[int]) -> None:
        """Go through the threads, on an OS thread of its own; ends early where only its end releases one (L2)."""
        _go_first()
        while left and not self.over():
            tid = left.popleft()
            if not self.copied(tid) and self._runs(tid) and not self._stop(tid):
                return

    def wait_released(self) -> None:
        """Wait until the kernel has released the threads that the tracing thread still held at its end."""
        end = time.monotonic() + _GONE_S
        with contextlib.suppress(OSError):
            while self._held is not None and time.monotonic() < end:
                if procfs.status_fields(self._held)["TracerPid"] == "0":
                    break
                time.sleep(_REST_S)
        self._held = None

    def _runs(self, tid: int) -> bool:
        """Return whether a thread runs and is to be stopped. Else it was copied, or is skipped with the reason."""
        pid = self.glanced.pid
        try:
            for _ in range(_CHECKS):
                if isinstance(procfs.blocked_syscall(pid, tid), Running):
                    return True
                self._wants_cpu(tid)  # raises when it has ended
                self.reader.refresh()
                if self.copied(tid):
                    return False
        except OSError as error:
            self.glanced.skipped[tid] = refusal(pid, tid, error)
            return False
        self.glanced.skipped[tid] = Refusal("moving", "it changed its state at every read, and was never running")
        return False

    def _stop(self, tid: int) -> bool:
        """Stop a thread, copy it, resume it; return whether it is certainly no longer traced."""
        try:
            ptrace.seize(tid)
        except OSError as error:
            self.glanced.skipped[tid] = refusal(self.glanced.pid, tid, error)
            return True
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._copy_stopped(tid)
        except OSError as error:  # it has ended, or lost its memory
            self._held = tid
            self.glanced.skipped[tid] = refusal(self.glanced.pid, tid, error)
            return False
        finally:
            if collecting:
                gc.enable()
        return self._held is None

    def _copy_stopped(self, tid: int) -> None:
        ptrace.interrupt(tid)
        waiting = self._wait(tid)
        if waiting is None:
            self._held = tid
            self.glanced.skipped[tid] = self._why_late(tid)
            return
        stop, ran_ns = waiting
        low = count = 0
        try:
            registers = ptrace.registers(tid)
            part = self.reader.part(registers[SP])
            if part is not None:
                low, size = part
                count = memory.read_into(self.glanced.pid, low, size, self._buffer)
        except ValueError:
            registers = ()
        finally:
            ptrace.detach(tid, stop.signal)
            self.glanced.stops_ns[tid] = time.monotonic_ns() - ran_ns
        if registers:
            self.glanced.copies.append(ThreadCopy(tid, registers, low, self._buffer.raw[:count]))
        else:
            self.glanced.skipped[tid] = Refusal("foreign-machine", "it runs 32-bit code")

    def _wait(self, tid: int) -> tuple[ptrace.Stop, int] | None:
        """Wait until a thread has stopped.

        Returns:
            How it stopped, and when it was last seen running; None if it took too long.
        """
        ran_ns = begun_ns = time.monotonic_ns()
        while True:
            now_ns = time.monotonic_ns()
            stop = ptrace.stopped(tid)
            if stop is not None:
                return stop, ran_ns
            ran_ns = now_ns
            waited_ns = now_ns - begun_ns
            if waited_ns > _SPIN_NS:
                wants_cpu = self._wants_cpu(tid)
                if waited_ns > (_CPU_NS if wants_cpu else _STOP_NS):
                    return None
                time.sleep(_REST_S if waited_ns < _SOON_NS else _LONG_REST_S)

    def _wants_cpu(self, tid: int) -> bool:
        """Return whether a thread will stop as soon as it gets a CPU, or has stopped; raise OSError if it has ended."""
        state = procfs.read_stat(self.glanced.pid, tid).state
        if state in (ThreadState.ZOMBIE, ThreadState.DEAD):
            raise ProcessLookupError(errno.ESRCH, "it has ended")
        return state in (ThreadState.RUNNING, ThreadState.TRACED)

    def _why_late(self, tid: int) -> Refusal:
        if self._wants_cpu(tid):
            return Refusal("no-cpu", "it got no CPU to stop on; it was released")
        return Refusal("uninterruptible", "it did not stop in time: it is in an uninterruptible call")
