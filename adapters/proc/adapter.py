"""The adapter for Linux /proc: processes, threads and their waits, without stopping anything.

Invariants:
    proc_adapter.P1. The target is only read: /proc, process_vm_readv, sock_diag.
    proc_adapter.P2. Each turn emits one `Looked`, whatever changed. The last one says that nothing is left to watch.
    proc_adapter.P3. The process tree is followed on request. A process that holds what a watched one waits for
        is watched too (noted as `not a target`), at most RELATED_MOST of them. A process of the tree is a target at
        once, even if it was first found as a holder.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from livedbg.adapters.proc.problems import SOURCE, ended, status_of
from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.watch import ProcessWatch
from livedbg.linux.access import unsuitable
from livedbg.linux.ending import noted_end
from livedbg.linux.procfs import read_stat
from livedbg.model import Process, ThreadState
from livedbg.model.events import Event, Looked, ProcessSeen, Stamper, StatusSeen
from livedbg.session.adapter import Adapter, Context, Request
from livedbg.session.pacing import SamplePace

RELATED_MOST: Final = 32
_ONCE_GAP_S: Final = 0.25
"""Time between the two samples of a session that takes one, so that CPU progress shows."""
_NEVER_S: Final = 1e6


class ProcAdapter(Adapter):
    """Watches the named processes, their children, and the holders of what they wait for."""

    name: ClassVar[str] = SOURCE
    title: ClassVar[str] = "/proc"
    sees: ClassVar[str] = "processes, threads, system calls, waits and holders of locks, pipes and sockets"
    cost: ClassVar[str] = "none for the target; under 2 % of one core for livedbg"

    def __init__(self) -> None:
        self._look: Callable[[], Awaitable[tuple[bool, float]]] | None = None

    async def run(self, context: Context) -> None:
        """Sample until every named process has ended, or once in a session that samples once."""
        scanner = _Scanner(context.request)
        pace = SamplePace(context.request.interval_s)
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "livedbg-proc") as executor:

            async def look() -> tuple[bool, float]:
                events, changed, cost_s = await loop.run_in_executor(executor, scanner.turn)
                context.emit(*events)
                return changed, cost_s

            self._look = look
            try:
                changed, cost_s = await look()
                if context.request.once and not scanner.done:
                    await asyncio.sleep(_ONCE_GAP_S)
                    changed, cost_s = await look()
                context.settled()
                while not scanner.done:
                    await context.sleep(
                        _NEVER_S if context.request.once else pace.after(changed=changed, cost_s=cost_s)
                    )
                    changed, cost_s = await look()
            finally:
                self._look = None
                executor.submit(scanner.close)  # behind a sample that is still under way

    async def reread(self, context: Context) -> None:
        if self._look is not None:
            await self._look()


class _Scanner:
    """All process watches of one session. Its methods run in one thread, one at a time."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._scene = Scene(request.host)
        self._stamp = Stamper(request.host)
        self._watches: dict[int, ProcessWatch] = {}
        self._over: dict[int, int | None] = {}
        self._related = 0
        self._begun = False

    @property
    def done(self) -> bool:
        return self._begun and not any(not watch.role for watch in self._watches.values())

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()

    def turn(self) -> tuple[list[Event], bool, float]:
        """Sample everything once. Return the events, whether anything changed, and the CPU time used in seconds."""
        began, since_ns = time.thread_time(), time.monotonic_ns()
        events: list[Event] = []
        if not self._begun:
            self._begun = True
            events += self._begin()
        changed = False
        waiting = list(self._watches.values())
        looked: list[ProcessWatch] = []
        while waiting:
            watch = waiting.pop()
            events += watch.sample()
            changed = changed or watch.changed
            if watch.gone:
                del self._watches[watch.pid]
                self._over[watch.pid] = watch.start_ticks
            else:
                looked.append(watch)
                waiting += self._new_children(watch)
            if not waiting:  # the whole tree is known: what is none of it now is beside it
                waiting = [new for one in looked for new in self._new_related(one)]
                looked = []
        since = None if self.done else since_ns
        events.append(Looked(source=SOURCE, since_mono_ns=since, **self._stamp()))
        return events, changed, time.thread_time() - began

    def _begin(self) -> list[Event]:
        events: list[Event] = []
        for target in self._request.processes:
            problem = unsuitable(target.pid)
            if problem is None or problem.code in ("zombie", "kernel-thread"):
                self._watches[target.pid] = ProcessWatch(self._scene, target.pid, target.start_ticks, named=True)
            if problem is None or problem.code == "zombie":
                continue
            host = self._request.host
            how = noted_end(target.pid, target.start_ticks)  # a command of ours may end before it is looked at
            status = (
                ended(host, target.pid, how, problem.code, "" if how is not None else problem.sentence)
                if problem.code == "gone"
                else status_of(host, target.pid, problem)
            )
            events.append(StatusSeen(status=status, **self._stamp()))
            if problem.code == "gone":
                gone = Process(
                    id=f"process:{host}/{target.pid}",
                    host=host,
                    pid=target.pid,
                    start_ticks=target.start_ticks,
                    state=ThreadState.DEAD,
                    named=True,
                    exited=True,
                    exit_status=how,
                )
                events.append(ProcessSeen(process=gone, **self._stamp()))
        return events

    def _new_children(self, watch: ProcessWatch) -> list[ProcessWatch]:
        found = []
        if self._request.tree and not watch.role:
            for pid in watch.children:
                known = self._watches.get(pid)
                if known is not None:
                    known.join()
                elif self._is_new(pid):
                    found.append(ProcessWatch(self._scene, pid))
        return self._watched(found)

    def _new_related(self, watch: ProcessWatch) -> list[ProcessWatch]:
        found = []
        for pid in watch.related - self._watches.keys() - watch.children:
            if pid not in (1, os.getpid()) and self._related < RELATED_MOST and self._is_new(pid):
                self._related += 1
                role = "not a target: holds what a target waits for"
                found.append(ProcessWatch(self._scene, pid, role=role))
        return self._watched(found)

    def _watched(self, found: list[ProcessWatch]) -> list[ProcessWatch]:
        for new in found:
            self._watches[new.pid] = new
        return found

    def _is_new(self, pid: int) -> bool:
        """Return False for the pid of a process that we saw end, unless the pid was reused."""
        if pid not in self._over:
            return True
        try:
            return read_stat(pid).start_ticks != self._over[pid]
        except OSError:
            return False
