"""The threads of one process: their numbers in its PID namespace, and cheap samples of them.

Invariants:
    threads.T1. A thread that was blocked and whose `schedstat` shows no run since then is still in the same system
        call: a thread must run to leave one. So a quiet thread costs one read of a file that is kept open.
    threads.T2. At most FILES_SHARE of the file descriptor limit is kept open.
"""

from __future__ import annotations

import os
import resource
import time
from typing import ClassVar, Final

from msgspec import Struct

from livedbg.linux import procfs
from livedbg.linux.last_ran import LEAST_NS, last_ran_mono_ns
from livedbg.linux.procfs import BlockedSyscall, Running
from livedbg.linux.pthreads import inner_tids, owner_elsewhere, pid_namespace, same_namespace
from livedbg.model import ThreadState

FILES_SHARE: Final = 0.5

_FULL_EVERY: Final = 32
"""Each thread is read in full at least every so many samples: its name may be changed by others."""


class ThreadSample(Struct):
    """One sample of a thread.

    Attributes:
        runs: times it was put on a CPU; None if the kernel doesn't count.
        call: the system call it is in; None if not permitted.
        marks: for a running thread, how many reads, writes, voluntary waits and page faults it has made so far; None
            if not known.
        queued_ns: time spent runnable, waiting for a CPU; None if the kernel doesn't count.
        last_ran_ns: when it last ran (CLOCK_MONOTONIC), if it was blocked at the first sample and the kernel tells.
        start_ticks: start time, in clock ticks since boot.
        moved: for the main thread, bytes read and written so far.
    """

    tid: int
    name: str
    state: ThreadState
    cpu_ns: int
    runs: int | None
    call: BlockedSyscall | Running | None
    wait_channel: str | None
    last_ran_ns: int | None = None
    marks: int | None = None
    queued_ns: int | None = None
    start_ticks: int | None = None
    moved: int | None = None


class ThreadNumbers:
    """Maps thread numbers of a process's PID namespace to ours."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._same = same_namespace(pid)
        self._namespace = None if self._same else pid_namespace(pid)
        self._tids: frozenset[int] = frozenset()
        self._inner: dict[int, int] = {}
        self._elsewhere: dict[int, tuple[int, int] | None] = {}

    def update(self, tids: frozenset[int]) -> None:
        """Set the current threads."""
        self._elsewhere.clear()
        if tids != self._tids:
            self._tids = tids
            self._inner = {} if self._same else inner_tids(self._pid, tids)

    @property
    def inner_pid(self) -> int | None:
        """Return the process's pid in its own PID namespace, if that isn't ours."""
        return next((inner for inner, tid in self._inner.items() if tid == self._pid), None)

    def child(self, number: int) -> int:
        """Return our pid of a child that the process calls `number`."""
        if self._same:
            return number
        return next((pid for pid in procfs.child_pids(self._pid) if number in inner_tids(pid, [pid])), number)

    def find(self, number: int, *, elsewhere: bool) -> tuple[int, int] | None:
        """Return (pid, tid) of the live thread with a number as stored in a lock; `elsewhere`: of any process."""
        tid = (number if number in self._tids else None) if self._same else self._inner.get(number)
        if tid is not None:
            return self._pid, tid
        if not elsewhere or number <= 0:
            return None
        if number not in self._elsewhere:
            self._elsewhere[number] = owner_elsewhere(number, self._namespace)
        return self._elsewhere[number]


class ThreadReader:
    """Reads the threads of one process repeatedly.

    Attributes:
        kept: number of files that all readers together keep open.
        most_files: limit of `kept` up to which this reader opens more.
    """

    kept: ClassVar[int] = 0

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._files: dict[int, int] = {}
        self._raw: dict[int, bytes] = {}
        self._samples: dict[int, ThreadSample] = {}
        self._turn = 0
        self._blocked_at_first: dict[int, int] = {}
        self._counts = procfs.counts_runs()
        self.most_files = int(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * FILES_SHARE)

    def close(self) -> None:
        for tid in list(self._files):
            self._drop(tid)

    def sample(self) -> tuple[list[ThreadSample], list[ThreadSample]]:
        """Return all threads, and those that may have changed since the last sample; OSError if the process is gone."""
        self._turn += 1
        tids = procfs.thread_ids(self._pid)
        for tid in self._samples.keys() - set(tids):
            self._forget(tid)
        changed = []
        for tid in tids:
            try:
                sample = self._changed(tid)
            except OSError:  # ended in between
                self._forget(tid)
                continue
            if sample is not None:
                self._samples[tid] = sample
                changed.append(sample)
        if self._blocked_at_first:
            ran = last_ran_mono_ns(self._pid, self._blocked_at_first)
            for tid, at_ns in ran.items():
                self._samples[tid].last_ran_ns = at_ns
            self._blocked_at_first.clear()
        return list(self._samples.values()), changed

    def _changed(self, tid: int) -> ThreadSample | None:
        """Return a new sample of a thread; None if it can't have changed (T1)."""
        known = self._samples.get(tid)
        raw = self._schedstat(tid) if self._counts else b""
        quiet = known is not None and raw and raw == self._raw.get(tid) and isinstance(known.call, BlockedSyscall)
        if quiet and (self._turn + tid) % _FULL_EVERY:
            return None
        self._raw[tid] = raw
        try:
            call: BlockedSyscall | Running | None = procfs.blocked_syscall(self._pid, tid)
        except PermissionError:
            call = None
        stat = procfs.read_stat(self._pid, tid)
        if known is not None and known.start_ticks != stat.start_ticks:
            known = None  # its number is another thread's now
        if stat.state is ThreadState.RUNNING:
            call = Running()  # woken since, or it was denied
        cpu_ns, runs, queued_ns = (
            procfs.parse_schedstat(raw) if raw else (stat.cpu_ticks * procfs.CLOCK_TICK_NS, None, None)
        )
        blocked = not isinstance(call, Running)
        same = known is not None and known.call == call and blocked
        channel = known.wait_channel if same and known else procfs.wait_channel(self._pid, tid) if blocked else None
        age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - stat.start_ticks * procfs.CLOCK_TICK_NS
        if blocked and known is None and age_ns >= LEAST_NS:
            self._blocked_at_first[tid] = stat.cpu
        ran_ns = None if known is None else known.last_ran_ns
        calls = None if blocked else procfs.calls_and_waits(self._pid, tid)
        marks = calls + stat.faults if calls is not None else None
        sample = ThreadSample(
            tid, stat.name, stat.state, cpu_ns, runs, call, channel, ran_ns, marks, queued_ns, stat.start_ticks
        )
        if tid == self._pid:  # by whom a process is judged
            sample.moved = procfs.bytes_moved(self._pid, tid)
        return None if sample == known else sample

    def _schedstat(self, tid: int) -> bytes:
        file = self._files.get(tid)
        if file is not None:
            return os.pread(file, 128, 0)
        file = os.open(f"/proc/{self._pid}/task/{tid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(file, 128, 0)
        except OSError:
            os.close(file)
            raise
        if ThreadReader.kept < self.most_files:
            self._files[tid] = file
            ThreadReader.kept += 1
        else:
            os.close(file)
        return data

    def _forget(self, tid: int) -> None:
        self._samples.pop(tid, None)
        self._raw.pop(tid, None)
        self._drop(tid)

    def _drop(self, tid: int) -> None:
        file = self._files.pop(tid, None)
        if file is not None:
            os.close(file)
            ThreadReader.kept -= 1
