"""A gdb that is attached to a running process without stopping it as a whole (gdb manual, "Non-Stop Mode").

gdb is started and set up first, while nothing is touched. It loads no symbols and no thread library while it attaches,
so a thread is stopped only for the moment in which it is seized: later, one thread at a time can be held.

Breakpoints are never set. A trap that is left behind ends the target, and no guard is quick enough to take it out: the
debug registers of a thread outlive its tracer, as do bytes in its memory, and a thread that is stopped at a trap when
gdb is killed gets the SIGTRAP itself (kernel/ptrace.c, exit_ptrace; measured: docs/reliability.md). Exceptions are
traced by kernel probes instead, and where a thread shall stop at a throw, it is given a signal that does nothing
(livedbg.probes.stop_signal).

Invariants:
    attach.A1. A guard watches from before the first touch until after the last.
    attach.A2. Every thread is resumed after an attach; `attach` returns when gdb reports so of all.
    attach.A3. A held thread is resumed when its time is over, whatever its holder does; so is one that stops though
        nobody asked for it.
    attach.A4. When the guard is gone, gdb is detached from the target under a new one: gdb may leave a thread stopped
        that it was just about to seize.
    attach.A5. A thread that is stopped by a stop signal is resumed when its time is over, in the same way.
    attach.A6. Detaching takes a bounded time: by command, by SIGTERM, at last by SIGKILL and the guard.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbCommandError, GdbError, GdbGone, GdbTimeout
from livedbg.gdbmi.records import Record
from livedbg.linux.access import access_problem, unsuitable
from livedbg.linux.procfs import read_stat, status_fields, thread_ids
from livedbg.model import ThreadState
from livedbg.model.errors import TargetDenied, TargetGone, TargetUnsuitable
from livedbg.text.sanitize import clean_line
from livedbg.touch.guard_process import Guard, GuardMissing


def check_attachable(pid: int) -> int:
    """Check that a process can be attached to without harm; return its start time in clock ticks since boot.

    Raises:
        TargetGone, TargetDenied, TargetUnsuitable: it can't be attached to.
    """
    problem = unsuitable(pid)
    if problem is not None:
        kind = TargetGone if problem.code == "gone" else TargetUnsuitable
        raise kind(problem.sentence, problem.remedy, problem.code)
    problem = access_problem(pid)
    if problem is not None:
        raise TargetDenied(problem.sentence, problem.remedy, problem.code)
    try:
        stat = read_stat(pid)
        tracer = int(status_fields(pid).get("TracerPid", "0"))
    except OSError:
        raise TargetGone(f"There is no process {pid}.", "", "gone") from None
    if tracer:
        raise TargetUnsuitable(
            f"Process {pid} is already traced by process {tracer}; a process can have only one tracer.",
            f"stop the tracer first: kill {tracer}",
            "traced",
        )
    if stat.state is ThreadState.STOPPED:
        raise TargetUnsuitable(f"Process {pid} is stopped.", f"resume it first: kill -CONT {pid}", "stopped")
    return stat.start_ticks


def attach_refused(pid: int, error: GdbCommandError) -> Exception:
    """Return the error for an attach that the kernel refused, by gdb's words (gdb/linux-nat.c; nat/linux-ptrace.c)."""
    if "Operation not permitted" in error.message:
        return TargetDenied(
            f"The kernel does not let gdb attach to process {pid}.", f"sudo livedbg attach {pid}", "no-permission"
        )
    if "No such process" in error.message:
        return TargetGone(f"Process {pid} has ended.", "", "gone")
    return error


_SETTINGS: Final = (
    "set pagination off",
    "set confirm off",
    "set auto-solib-add off",
    "set auto-load off",
    "set libthread-db-search-path /nonexistent",
    "set sysroot /dev/null",
    "set non-stop on",
    "set mi-async on",
    "handle all nostop noprint pass",
    "handle SIGINT nostop noprint pass",
    "maintenance set worker-threads 0",
)
_CHECK_S: Final = 0.005
_ASK_S: Final = 0.1  # between two requests for the same stop
_DETACH_S: Final = 5.0
_TERM_S: Final = 3.0


class AttachCost(NamedTuple):
    """The cost of an attach for the target.

    No thread was stopped longer than `stopped_ns`: from the command to the last thread's `*running`.
    """

    threads: int
    stopped_ns: int


class Held(NamedTuple):
    """A stopped thread, and gdb's number of it, for commands with `--thread`."""

    tid: int
    number: str


class Attachment:
    """A gdb that is attached to one process.

    Args:
        lost: called with a sentence when gdb had to be detached.

    Attributes:
        lost: the same; may be changed while nothing is attached.
    """

    def __init__(self, gdb: str, pid: int, lost: Callable[[str], None] | None = None) -> None:
        self.pid = pid
        self.lost = lost
        self.engine = GdbEngine(gdb, target=pid, notice=self._note)
        self._guard: Guard | None = None
        self._watch: asyncio.Task[None] | None = None
        self._threads: dict[str, int] = {}
        self._held: dict[str, asyncio.Event] = {}
        self._stop_signal = ""
        self._stopped_by_signal: Callable[[str], None] | None = None
        self._stop_limit_s = 0.0
        self._stopped: dict[str, asyncio.TimerHandle] = {}
        self._resuming: set[asyncio.Task[None]] = set()
        self._attached = False
        self._start_ticks = 0
        self._detaching = asyncio.Lock()

    @property
    def attached(self) -> bool:
        return self._attached and self.engine.alive

    @property
    def guard_pid(self) -> int | None:
        """The guard's process, or None."""
        return None if self._guard is None else self._guard.pid

    async def start(self) -> None:
        """Start and set up gdb; nothing is touched.

        Raises:
            GdbGone, GdbTimeout: it can't be started.
        """
        await self.engine.start()
        for setting in _SETTINGS:
            try:
                await self.engine.console(setting)
            except GdbCommandError:
                if setting in ("set non-stop on", "set mi-async on"):
                    raise
                # an older gdb that has no such setting does without

    async def attach(self, limit_s: float = 10.0) -> AttachCost:
        """Attach, and resume every thread.

        Raises:
            TargetGone, TargetDenied, TargetUnsuitable: it can't be attached to; nothing was touched.
            GuardMissing: there is no guard; nothing was touched.
            GdbCommandError, GdbTimeout, GdbGone: gdb failed; it was detached.
        """
        async with self._detaching:
            pass  # the end of an attach before this one, whose guard would be taken for the new one's
        self._start_ticks = check_attachable(self.pid)
        gdb = self.engine.pid
        if gdb is None or not self.engine.alive:
            raise GdbGone("gdb is not running.", "", "gdb-gone")
        self._guard = await Guard.start(self.pid, self._start_ticks, gdb)
        self._watch = asyncio.create_task(self._watch_guard(self._guard), name="touch-guard")
        with contextlib.suppress(OSError):  # only root may: who stops others must not wait for a CPU itself
            os.setpriority(os.PRIO_PROCESS, gdb, 0)
        end = time.monotonic() + limit_s
        before = time.monotonic_ns()
        self._attached = True
        try:
            await self.engine.console(f"attach {self.pid} &", limit_s)
            await self._resume_all(end)
        except GdbCommandError as error:
            await self.close()
            raise attach_refused(self.pid, error) from None
        except BaseException:
            await self.close()
            raise
        return AttachCost(len(self._threads), time.monotonic_ns() - before)

    @contextlib.asynccontextmanager
    async def hold(self, tid: int, limit_s: float = 1.0) -> AsyncIterator[Held]:
        """Stop one thread for as long as the block runs; the others run on.

        Args:
            limit_s: when it is resumed at the latest: commands then answer `Selected thread is running.`

        Raises:
            TargetGone: there is no such thread.
            GdbCommandError, GdbTimeout, GdbGone: gdb can't stop it.
        """
        number = await self._number(tid)
        stopped = self._held[number] = asyncio.Event()
        timer = asyncio.get_running_loop().call_later(limit_s, self._resume_soon, number)
        try:
            try:
                async with asyncio.timeout(limit_s):
                    await self._interrupted(number, stopped, limit_s)
            except TimeoutError:
                raise GdbTimeout(f"Thread {tid} did not stop within {limit_s:g} s.", "", "gdb-timeout") from None
            yield Held(tid, number)
        finally:
            timer.cancel()
            self._held.pop(number, None)  # from now on a late stop is answered by a resume
            await self._resume(number)

    async def stop_at_signal(self, number: signal.Signals, stopped: Callable[[str], None], limit_s: float) -> None:
        """Stop each thread that gets this signal; the signal is not passed on.

        Args:
            number: a harmless signal (livedbg.probes.stop_signal).
            stopped: called with gdb's number of a stopped thread, for `resume`.

        Raises:
            GdbCommandError, GdbTimeout, GdbGone: gdb can't do that.
        """
        self._stop_signal, self._stopped_by_signal, self._stop_limit_s = number.name, stopped, limit_s
        await self.engine.console(f"handle {number.name} stop print nopass")

    async def resume(self, number: str) -> None:
        """Resume a thread that is stopped by the signal, unless it runs already."""
        timer = self._stopped.pop(number, None)
        if timer is not None:
            timer.cancel()
            await self._resume(number)

    async def detach(self) -> None:
        """Detach; gdb stays for another attach."""
        async with self._detaching:
            if self._attached and self.engine.alive:
                if self._guard is not None and not self._guard.alive:
                    self._guard = await self._replaced(self._guard)
                try:
                    await self.engine.command("-target-detach", _DETACH_S)
                except (GdbCommandError, GdbGone):
                    pass  # not attached, or gone: the guard checks the target in both cases
                except GdbTimeout:
                    await self._terminate()
            self._attached = False
            self._threads.clear()
            for timer in self._stopped.values():
                timer.cancel()
            self._stopped.clear()
            await self._release_guard()

    async def close(self) -> None:
        """Detach, and end gdb."""
        await self.detach()
        await self.engine.close()

    async def _interrupted(self, number: str, stopped: asyncio.Event, limit_s: float) -> None:
        """Ask for a stop until there is one: gdb 13 loses a request now and then where threads come and go."""
        while not stopped.is_set():
            await self.engine.command(f"-exec-interrupt --thread {number}", limit_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ASK_S):
                    await stopped.wait()

    async def _resume_all(self, end: float) -> None:
        """Resume until gdb and the kernel report every thread running: no lost record can leave one stopped."""
        while True:
            threads = await self._list_threads(_left(end))
            stopped = [thread["id"] for thread in threads if thread.get("state") != "running"]
            if threads and not stopped and not _any_traced_stop(self.pid):
                return
            for number in stopped:
                await self._resume(number)
            if time.monotonic() > end:
                raise GdbTimeout("The target's threads did not resume in time.", "", "gdb-timeout")
            await asyncio.sleep(_CHECK_S)

    async def _list_threads(self, limit_s: float) -> list[dict[str, str]]:
        threads = (await self.engine.command("-thread-info", limit_s)).payload.get("threads") or []
        self._threads = {thread["id"]: _tid(thread.get("target-id", "")) for thread in threads}
        return threads

    async def _number(self, tid: int) -> str:
        for attempt in range(2):
            for number, known in self._threads.items():
                if known == tid:
                    return number
            if not attempt:  # born since
                await self._list_threads(_DETACH_S)
        raise TargetGone(f"Process {self.pid} has no thread {tid}.", "", "gone")

    def _resume_soon(self, number: str) -> None:
        task = asyncio.get_running_loop().create_task(self._resume(number))
        self._resuming.add(task)
        task.add_done_callback(self._resuming.discard)

    async def _resume(self, number: str) -> None:
        self._stopped.pop(number, None)
        with contextlib.suppress(GdbError):  # it runs already, it is gone, or gdb is: then the guard takes over
            await self.engine.command(f"-exec-continue --thread {number}", _DETACH_S)

    def _note(self, record: Record) -> None:
        number = record.payload.get("thread-id")
        if record.name == "stopped" and isinstance(number, str) and self._attached:
            if number in self._held:
                self._held[number].set()
            elif self._stopped_by_signal is not None and record.payload.get("signal-name") == self._stop_signal:
                loop = asyncio.get_running_loop()
                self._stopped[number] = loop.call_later(self._stop_limit_s, self._resume_soon, number)
                self._stopped_by_signal(number)
            else:
                self._resume_soon(number)

    async def _watch_guard(self, guard: Guard) -> None:
        await guard.ended()
        self._watch = None
        if self._attached and self.lost is not None:
            if unsuitable(self.pid) is not None:
                self.lost(f"Process {self.pid} has ended.")
            else:  # the kernel is asked for gdb too: asyncio learns of an end later
                what = "The guard" if self.engine.alive and unsuitable(self.engine.pid or 0) is None else "gdb"
                self.lost(f"{what} has exited, so livedbg detached from process {self.pid}.")
        await self.detach()

    async def _release_guard(self) -> None:
        guard, self._guard = self._guard, None
        watch, self._watch = self._watch, None
        if watch is not None and watch is not asyncio.current_task():
            watch.cancel()
        while guard is not None and not await guard.release():
            guard = await self._replaced(guard)

    async def _replaced(self, guard: Guard) -> Guard | None:
        """Start a guard in place of one that was killed; return None if nothing is left to guard."""
        with contextlib.suppress(GuardMissing):
            gdb = self.engine.pid if self.engine.alive else None
            return await Guard.start(self.pid, self._start_ticks, gdb or 0, guard.since_ticks)
        return None

    async def _terminate(self) -> None:
        """End a gdb that doesn't answer: at SIGTERM it detaches."""
        pid = self.engine.pid
        if pid is not None and self.engine.alive:
            for number in (signal.SIGTERM, signal.SIGCONT):
                os.kill(pid, number)
        await self.engine.close(_TERM_S)


def _any_traced_stop(pid: int) -> bool:
    try:
        return any(read_stat(pid, tid).state is ThreadState.TRACED for tid in thread_ids(pid))
    except OSError:
        return False  # one has ended in between, or all: gdb's list comes anew


def _tid(target_id: str) -> int:
    """Return the thread of gdb's target id: `LWP 42`, or `Thread 0x7f… (LWP 42)`."""
    digits = clean_line(target_id).rpartition("LWP ")[2].rstrip(")")
    return int(digits) if digits.isdigit() else 0


def _left(end: float) -> float:
    return max(0.05, end - time.monotonic())
