"""The adapter for Python: stacks by py-spy, GIL and locks from memory, all without a stop.

Invariants:
    python_adapter.P1. The target is never stopped, signalled or written to: py-spy runs with `--nonblocking`, and
        all else is process_vm_readv(2) and /proc.
    python_adapter.P2. A process is sampled again only after one of its threads moved (`ChangePace` limits the CPU
        share). User requests are served at once.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from livedbg.adapters.python.processes import PythonProcess
from livedbg.adapters.python.pyspy import PySpy
from livedbg.adapters.python.samples import UNKNOWN, movements
from livedbg.adapters.python.status import Statuses
from livedbg.adapters.python.watch import Watch
from livedbg.cpython.interpreter import Interpreter, find_interpreter
from livedbg.linux import access, procfs
from livedbg.model import SourceHealth
from livedbg.model.errors import TargetUnsuitable
from livedbg.model.intents import Intent, WantStacks
from livedbg.model.reach import reachable
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Context, Request
from livedbg.session.pacing import Limit, Stopwatch
from livedbg.session.polling import PolledAdapter

_RETRY_S: Final = (1.0, 60.0)  # a process that runs no Python may come to: first and longest pause

_LIMIT: Final = Limit(cpu=0.005)  # for finding out what there is to sample


class _NotPython:
    """A process without an interpreter, and when to check again."""

    def __init__(self, start_ticks: int) -> None:
        self.start_ticks = start_ticks
        self.pause_s = _RETRY_S[0]
        self.next_s = time.monotonic() + self.pause_s

    def postpone(self) -> None:
        self.pause_s = min(2 * self.pause_s, _RETRY_S[1])
        self.next_s = time.monotonic() + self.pause_s


class PythonAdapter(PolledAdapter):
    """Watches the Python processes of a session."""

    name = "python"
    sees = "Python stacks, holder and waiters of the GIL, holders of threading locks, tasks of asyncio and trio"
    cost = "no stop; about 1 ms of CPU per memory scan and 80 ms per py-spy dump, both only after a change"
    handles = (WantStacks,)

    def __init__(self) -> None:
        super().__init__()
        self._watches: dict[int, tuple[int, Watch]] = {}
        self._others: dict[int, _NotPython] = {}
        self._spy: PySpy | None = None
        self._below = set[int]()

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes)

    async def begin(self, context: Context) -> bool:
        """Start; descendants of the named processes are sampled at once, before another adapter lists them."""
        self._statuses = Statuses(context)
        self._spy = PySpy(context.request.options.get("python.py-spy", ""))
        targets = [target.pid for target in context.request.processes] if context.request.tree else []
        self._below = await asyncio.to_thread(reachable, targets, procfs.child_pids)
        return True

    async def look(self, context: Context) -> float:
        watch = Stopwatch()
        snapshot = context.snapshot()
        pids = self._pids(context.request, snapshot) | self._below
        self._below = set()
        await self._turn(context, snapshot, pids, self._statuses)
        return max(context.request.interval_s, _LIMIT.rest_s(watch.cost()))

    async def reread(self, context: Context) -> None:
        """Read locks, the GIL and event loops again, but not stacks: threads that have not run still have the same.

        State of a process that changes too fast to be read is withdrawn, so that nothing relies on it.
        """
        moved = movements(context.snapshot())
        for _, watch in list(self._watches.values()):
            try:
                await watch.reread(moved.get(watch.id, UNKNOWN))
            except OSError:  # or it is gone: the next turn finds out
                watch.take_back()

    async def handle(self, intent: Intent, context: Context) -> None:
        """Take the stacks of a process now; raise LivedbgError if it can't be read."""
        if not isinstance(intent, WantStacks):
            raise NotImplementedError(type(intent).__name__)
        found = next((watch for _, watch in self._watches.values() if watch.id == intent.process), None)
        if found is None:
            return  # no Python there: the native adapter answers for it
        try:
            await found.take_stacks(local_variables=intent.local_variables or context.request.local_variables)
        except OSError as error:
            raise TargetUnsuitable(f"{intent.process} can't be read: {error.strerror}", code="unreadable") from error

    def _pids(self, request: Request, snapshot: Snapshot) -> set[int]:
        named = {target.pid for target in request.processes}
        seen = {p.pid for p in snapshot.processes.values() if p.host == request.host and not p.exited}
        return named | seen

    async def _turn(self, context: Context, snapshot: Snapshot, pids: set[int], statuses: Statuses) -> None:
        for pid in [pid for pid in self._watches if pid not in pids]:
            self._forget(pid)
        moved = movements(snapshot)
        for pid in sorted(pids):
            watch = await self._watch_of(pid, context, statuses)
            if watch is None:
                continue
            try:
                await watch.turn(moved.get(watch.id, UNKNOWN))
            except PermissionError:
                self._denied(pid, statuses)
            except ProcessLookupError:
                statuses.report(pid, SourceHealth.ENDED, "gone", f"Process {pid} has ended.")
                self._forget(pid)
            except OSError:  # memory that was there is not: an exec, an end, or it changes fast
                await self._check_anew(pid, watch)

    async def _watch_of(self, pid: int, context: Context, statuses: Statuses) -> Watch | None:
        """Return the watch of a process; None if there is nothing of Python to watch (yet)."""
        try:
            start_ticks = procfs.read_stat(pid).start_ticks
        except OSError:
            self._forget(pid)
            if any(target.pid == pid for target in context.request.processes):
                statuses.report(pid, SourceHealth.ENDED, "gone", f"Process {pid} has ended, or there is none.")
            return None
        known = self._watches.get(pid)
        if known is not None and known[0] == start_ticks:
            return known[1]
        self._forget(pid)
        other = self._others.get(pid)
        if other is not None and other.start_ticks == start_ticks and time.monotonic() < other.next_s:
            return None
        interpreter = await self._find(pid, statuses)
        if interpreter is None:
            self._no_python(pid, start_ticks, context, statuses)
            return None
        self._others.pop(pid, None)
        statuses.describe(pid, interpreter)
        assert self._spy is not None
        watch = Watch(PythonProcess(pid, interpreter), self._spy, context, statuses)
        self._watches[pid] = (start_ticks, watch)
        return watch

    async def _find(self, pid: int, statuses: Statuses) -> Interpreter | None:
        try:
            return await asyncio.to_thread(find_interpreter, pid)
        except PermissionError:
            self._denied(pid, statuses)
        except OSError:
            pass  # it ended meanwhile: the next turn sees that
        return None

    def _no_python(self, pid: int, start_ticks: int, context: Context, statuses: Statuses) -> None:
        other = self._others.get(pid)
        if other is not None and other.start_ticks == start_ticks:
            other.postpone()
            return
        self._others[pid] = _NotPython(start_ticks)
        named = any(target.pid == pid for target in context.request.processes)
        if named and access.access_problem(pid) is None and access.unsuitable(pid) is None:
            statuses.report(pid, SourceHealth.OK, "not-python", f"Process {pid} runs no Python.")

    async def _check_anew(self, pid: int, watch: Watch) -> None:
        """After a failed sample, drop the watch if the process has another image."""
        try:
            interpreter = await asyncio.to_thread(find_interpreter, pid)
        except OSError:
            interpreter = None
        if interpreter != watch.process.interpreter:
            self._forget(pid)

    def _denied(self, pid: int, statuses: Statuses) -> None:
        problem = access.access_problem(pid)
        if problem is not None:
            statuses.report(pid, SourceHealth.FAILED, "no-permission", problem.sentence, problem.remedy)

    def _forget(self, pid: int) -> None:
        known = self._watches.pop(pid, None)
        if known is not None:
            known[1].forget()
