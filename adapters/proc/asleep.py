"""Find out what could wake a process all of whose threads wait: processes by thread, and anything else.

How the kernel wakes a task, and where each way is checked:

    a futex word       the threads of the process; for a word in shared memory, of every process that maps it
                       (get_futex_key in kernel/futex/core.c); and a process that shares all of the memory (CLONE_VM)
    a descriptor       the holders of its other end (fd_waits); an eventfd is also signalled by drivers, AIO, io_uring
    a child's end      the child; for a tracer, its tracees
    a file lock        its holders
    a signal           a handled one (wakers), an awaited one (sigwait, signalfd), a tracer
    a timer            a wait with a time limit, a timerfd, a POSIX or an interval timer (wakers)

Some processes can't be inspected. Since descriptors and memory are inherited from older processes, only these hidden
ones could share them: processes that started later than the waiting one, its ancestors, and those of its session.

Invariants:
    asleep.Z1. What can't be seen counts as a way to wake the process: `outside` names it.
    asleep.Z2. A process is inspected only when none of its threads has run for LONG_NS, by our samples or the kernel.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from livedbg.adapters.proc.threads import ThreadSample
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import UNTOLD, Wait
from livedbg.adapters.proc.wakers import driven, wakers
from livedbg.linux.access import hidden_processes
from livedbg.linux.descriptors import same_memory
from livedbg.linux.maps import Mapping as MemoryMapping
from livedbg.linux.maps import find_mapping, parse_maps
from livedbg.linux.procfs import BlockedSyscall, child_pids, living_task, process_ids, read_stat, status_fields
from livedbg.model import ThreadState, ids
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line


def unseen_relative(pid: int, denied: Iterable[int]) -> str:
    """Return how a hidden process may share descriptors and memory: `may share …`; "" if none of `denied` may."""
    try:
        if os.geteuid() and hidden_processes():
            return "may share what it waits for with processes that /proc hides"
        own = read_stat(pid)
        session = os.getsid(pid)
        ancestors = _ancestors(own.ppid)
        for other in denied:
            try:
                found, where = read_stat(other), os.getsid(other)
            except OSError:
                continue  # it is gone
            if found.kernel_thread or other == 1:
                continue
            if found.start_ticks >= own.start_ticks or other in ancestors or where == session:
                return f"may share what it waits for with hidden process {other} ({clean_line(found.name)})"
    except OSError:
        return "may share what it waits for with processes that can't be seen"
    return ""


def _ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    while pid > 1 and pid not in found:
        found.add(pid)
        pid = read_stat(pid).ppid
    return found


LONG_NS: Final = 1_000_000_000
"""What runs more often is not asleep; to look costs milliseconds."""

_EVERY: Final = 16
"""Looks after which a process that sleeps on is looked at again: others may begin to trace it or map its memory."""

_HELD_BACK: Final = lazy_re(r"refrigerator|freez|seccomp|ptrace|signal_stop")
"""Kernel functions in which a thread waits for something else than its system call says."""

_HEADLESS: Final = "is seen only in part: its main thread has ended (pthread_exit)"
_DESCRIPTORS: Final = frozenset({"pipe", "socket", "eventfd", "flock"})


class Asleep(Struct, frozen=True):
    """The ways in which a process could be woken.

    Attributes:
        outside: a way that applies to all threads; "" for none, None if not checked.
        threads: tid -> the processes whose threads could end its wait, and what else could (or why that isn't known).
    """

    outside: str | None = None
    threads: Mapping[int, tuple[frozenset[int], str]] = field(default_factory=dict)

    @property
    def pids(self) -> set[int]:
        """Return all processes that could end a wait."""
        return {pid for pids, _ in self.threads.values() for pid in pids}

    def of(self, host: str, tid: int) -> tuple[tuple[str, ...], str]:
        """Return `Thread.wakers` and `Thread.outside` of a thread."""
        pids, outside = self.threads.get(tid, (frozenset(), ""))
        return (() if outside else tuple(ids.process(host, pid) for pid in sorted(pids))), outside


AWAKE: Final = Asleep()
"""Of a process that runs, or of which that isn't known."""


class AsleepReader:
    """Finds out what could wake one process while none of its threads runs."""

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._pid = view.pid
        self._known = AWAKE
        self._of: tuple[dict[int, Wait], int] | None = None
        self._turn = 0
        self._since_ns: int | None = None
        self._untraced_ns: int | None = None

    def sample(
        self, samples: Collection[ThreadSample], changed: Collection[ThreadSample], waits: Mapping[int, Wait]
    ) -> Asleep:
        """Return what could wake the process; AWAKE if some thread runs or will wake by itself."""
        self._turn += 1
        alive = [sample for sample in samples if sample.state not in (ThreadState.ZOMBIE, ThreadState.DEAD)]
        self._note(alive, changed)
        calls = {sample.tid: waits.get(sample.tid, Wait(None)) for sample in alive}
        sleeps = all(_waits(sample) for sample in alive) and time.monotonic_ns() - (self._since_ns or 0) >= LONG_NS
        if not alive or not sleeps or any(wait.timed for wait in calls.values()):
            self._of = None
            return AWAKE
        now = (calls, self._view.scene.version)
        if self._of != now or self._turn % _EVERY == 0:
            self._known = self._read(alive, calls)
            self._of = (calls, self._view.scene.version)  # it may have become another one
        return self._known

    def _note(self, samples: Collection[ThreadSample], changed: Collection[ThreadSample]) -> None:
        """Note since when no thread has run; `ThreadSample.last_ran_ns` is set in the first sample only."""
        now_ns = time.monotonic_ns()
        if self._since_ns is None:
            ran = (now_ns if sample.last_ran_ns is None else sample.last_ran_ns for sample in samples)
            self._since_ns = max(ran, default=now_ns)
        elif changed:
            self._since_ns = now_ns

    def _read(self, alive: Iterable[ThreadSample], calls: Mapping[int, Wait]) -> Asleep:
        try:
            mappings = parse_maps(self._pid)
        except OSError:
            return AWAKE
        threads = {}
        for sample in alive:
            channel = sample.wait_channel or ""
            if _HELD_BACK.search(channel):
                threads[sample.tid] = (frozenset[int](), f"it is held in {channel}")
            else:
                threads[sample.tid] = self._ends(calls[sample.tid], mappings)
        return Asleep(self._outside(calls.values(), mappings), threads)

    def _ends(self, wait: Wait, mappings: list[MemoryMapping]) -> tuple[frozenset[int], str]:
        """Return the processes that could end a wait, and what else could."""
        nobody: frozenset[int] = frozenset()
        for reason in (*(waited.wakers.outside for waited in wait.waited), wait.outside):
            if reason:
                return nobody, reason
        if wait.timed is None or not wait.waited:
            return nobody, UNTOLD.outside
        pids = set(wait.sharers)
        for waited in wait.waited:
            pids |= waited.wakers.pids
            if waited.wakers.shared_at is None:
                continue
            mapping = find_mapping(mappings, waited.wakers.shared_at)
            if mapping is None:
                return nobody, UNTOLD.outside
            if mapping.shared:
                found, outside = self._view.scene.mapped_by(self._pid, mapping)
                if outside:
                    return nobody, outside
                pids |= found
        return frozenset(pids), ""

    def _outside(self, calls: Iterable[Wait], mappings: list[MemoryMapping]) -> str:
        kinds = {w.resource.kind for wait in calls for w in wait.waited if w.resource is not None}
        shared = any(w.wakers.shared_at is not None for wait in calls for w in wait.waited)
        children = any(wait.waits_in is not None and wait.waits_in.startswith("wait") for wait in calls)
        found = [wakers(self._pid), self._tracer(), self._shares_memory(), driven(self._pid)]
        if kinds & _DESCRIPTORS or (shared and any(mapping.shared for mapping in mappings)):
            found.append(unseen_relative(self._pid, self._view.scene.index().denied))
        if children:
            found.append(self._traces())
        return " and ".join(reason for reason in found if reason)

    def _tracer(self) -> str:
        try:
            tracer = int(status_fields(self._pid).get("TracerPid", "0"))
        except (OSError, ValueError):
            return "may be traced"
        return f"is traced by {tracer}" if tracer else ""

    def _traces(self) -> str:
        """Return which process it traces, since wait4(2) waits for tracees too; "" if none.

        While it sleeps it can't begin to trace another process, but a child may ask to be traced by it
        (PTRACE_TRACEME).
        """
        slept = self._untraced_ns is not None and self._untraced_ns == self._since_ns
        for pid in child_pids(self._pid) if slept else process_ids():
            try:
                if status_fields(pid).get("TracerPid") == str(self._pid):
                    self._untraced_ns = None
                    return f"traces process {pid}"
            except OSError:
                continue
        self._untraced_ns = self._since_ns
        return ""

    def _shares_memory(self) -> str:
        """Return which process shares all of its memory and so can wake its futexes; "" if none.

        The kernel hides memory and files of a main thread that has ended, so all such processes seem to share theirs.
        """
        if living_task(self._pid) != self._pid:
            return _HEADLESS
        if same_memory(self._pid, self._pid) is None:
            return self._may_share_memory()
        other = next((pid for pid in process_ids() if pid != self._pid and same_memory(self._pid, pid)), None)
        return "" if other is None else f"shares its memory with process {other}"

    def _may_share_memory(self) -> str:
        """Guess memory sharing without kcmp(2): equal mappings. A forked child may have them too."""
        own = _maps(self._pid)
        other = next((pid for pid in process_ids() if pid != self._pid and own and _maps(pid) == own), None)
        return "" if other is None else f"may share its memory with process {other}"


def _waits(sample: ThreadSample) -> bool:
    return sample.state is ThreadState.WAITING and isinstance(sample.call, BlockedSyscall) and sample.runs is not None


def _maps(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:  # noqa: PTH123 (of every process)
            return file.read()
    except OSError:
        return b""
