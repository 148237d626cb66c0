"""The adapter: carries out `Glance`, or one glance at all targets for a command that samples once.

Invariants:
    glance_adapter.G1. Without an intent, or `GLANCE_ONCE` in the request, nothing is stopped; never if intrusive
        actions are forbidden.
    glance_adapter.G2. Stops are in the ledger before the results of a glance are used by anything that could fail.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import defaultdict
from typing import ClassVar, Final

from livedbg.linux import procfs, ptrace
from livedbg.linux.access import access_problem
from livedbg.model import Intrusion, Process, Stack, ids
from livedbg.model.errors import LivedbgError, TargetDenied, TargetError, TargetGone, ToolMissing
from livedbg.model.events import StacksSeen, Touched
from livedbg.model.intents import GLANCE_ONCE, Glance, Intent
from livedbg.session.adapter import Adapter, Context, Level, Request, living, threads_seen, until_ended
from livedbg.session.publisher import Statuses
from livedbg.session.tools import no_unwinder, shared_unwinders
from livedbg.text.wording import sentences
from livedbg.touch.config import refuse_touch
from livedbg.touch.glance import Glanced, glance
from livedbg.touch.stop_budget import stop_budget
from livedbg.unwind.capture import Refusal
from livedbg.unwind.pool import UnwinderPool
from livedbg.unwind.unwound import Unwound

_GUESSED: Final = "outer frames may be missing or wrong: the frame pointer is unknown without a stop"
_LOST: Final = "outer frames may be missing: code without unwind tables, or more stack than was copied"


def denied(pid: int) -> TargetDenied:
    """Return an error that says why a process may not be read."""
    problem = access_problem(pid)
    if problem is None:
        return TargetDenied(f"The kernel denies reading process {pid}.", "livedbg doctor", "denied")
    return TargetDenied(problem.sentence, problem.remedy, problem.code)


def stacks_of(host: str, found: Glanced, unwound: dict[int, Unwound], taken_ns: int) -> tuple[Stack, ...]:
    """Return the stacks of a glance; stacks of threads that were not stopped are marked as such."""
    stacks = []
    for tid, stack in unwound.items():
        if stack.frames:
            stopped = tid in found.stops_ns
            stacks.append(
                Stack(
                    thread=ids.thread(host, found.pid, tid),
                    frames=stack.frames,
                    taken_mono_ns=taken_ns,
                    source="glance" if stopped else "no stop",
                    layer="native",
                    partial=not stack.whole,
                    note=None if stack.whole else _LOST if stopped else _GUESSED,
                )
            )
    return tuple(stacks)


def skip_reasons(found: Glanced) -> dict[str, tuple[str, str]]:
    """Return code -> sentence and remedy, for threads without a copy. Threads that ended need none."""
    reasons: dict[str, list[tuple[int, Refusal]]] = {}
    for tid, refusal in found.skipped.items():
        if refusal.code != "ended":
            reasons.setdefault(refusal.code, []).append((tid, refusal))
    shown = {}
    for code, threads in reasons.items():
        _, refusal = threads[0]
        number = len(threads)
        who = f"thread {threads[0][0]}" if number == 1 else f"{number} threads"
        shown[code] = (sentences(f"No glance at {who} of {found.pid}: {refusal.sentence}"), refusal.remedy)
    return shown


_UNWIND_S: Final = 60.0
_NEAR_S: Final = 0.05  # a watchdog that is nearer than this is worth a word


class GlanceAdapter(Adapter):
    """Takes the native stacks of all threads; running threads are stopped for it, one after the other."""

    name: ClassVar[str] = "glance"
    sees: ClassVar[str] = "native stacks of running threads, on request"
    cost: ClassVar[str] = (
        "on request: ptrace stops each running thread for about 0.1 ms, one at a time; blocked threads are not stopped"
    )
    level: ClassVar[Level] = Level.GLANCE
    handles: ClassVar[tuple[type[Intent], ...]] = (Glance,)

    def __init__(self) -> None:
        self._pool: UnwinderPool | None = None
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._statuses, self._skipped = Statuses(self.name), Statuses(self.name)

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Return whether a glance can be or was requested."""
        return bool(request.processes) and (not request.once or GLANCE_ONCE in request.options)

    async def run(self, context: Context) -> None:
        try:
            if GLANCE_ONCE in context.request.options:
                await self._all(context)
            context.settled()
            await until_ended(context)
        finally:
            if self._pool is not None:
                await self._pool.close()

    async def handle(self, intent: Intent, context: Context) -> None:
        """Glance at threads of one process.

        Raises:
            TouchRefused: intrusive actions are forbidden.
            ToolMissing: not possible on this machine, or there is no unwinder.
            TargetError: no thread of the process can be glanced at.
        """
        assert isinstance(intent, Glance)
        process = living(context, intent.process)
        wanted = {int(ids.parse(thread).short) for thread in intent.threads}
        await self._glance(context, process, wanted, "requested in the app: stacks of running threads")

    async def _all(self, context: Context) -> None:
        await threads_seen(context)
        for process in list(context.snapshot().processes.values()):
            if process.target and not process.exited:
                try:
                    await self._glance(context, process, set(), "requested by --glance: stacks of running threads")
                except LivedbgError as error:
                    sentence = f"No native stacks: {error.message}"
                    self._statuses.say(context, process.id, error.code, sentence, error.remedy)

    async def _glance(self, context: Context, process: Process, wanted: set[int], why: str) -> None:
        refuse_touch(context.request, "A glance stops each running thread briefly")
        _must_be_possible(context.request)
        async with self._locks[process.id]:
            taken_ns = time.monotonic_ns()
            found = await self._copy(context, process, wanted, why)
            self._near(context, process, found)
            self._report(context, process, found)
            if not found.copies:
                return
            pool = self._pool = self._pool or shared_unwinders(context.request)
            try:
                unwinder = await pool.of(process.pid)
                unwound = await unwinder.unwind(found.capture, _UNWIND_S)
            except OSError as error:
                raise TargetError(f"The process can't be read: {error.strerror}.", "", "no-stacks") from None
            except LivedbgError:
                await pool.drop(process.pid)
                raise
            stacks = stacks_of(context.request.host, found, unwound, taken_ns)
            context.emit(StacksSeen(stacks=stacks, **context.stamp()))

    async def _copy(self, context: Context, process: Process, wanted: set[int], why: str) -> Glanced:
        """Copy in a worker thread, with stops in the ledger even if cancelled (G2); TargetGone or TargetDenied."""
        enough = threading.Event()

        def copy() -> Glanced:
            tids = [tid for tid in procfs.thread_ids(process.pid) if not wanted or tid in wanted]
            return glance(process.pid, tids, enough.is_set)

        work = asyncio.ensure_future(asyncio.to_thread(copy))
        cancelled = False
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                cancelled = True
                enough.set()
        try:
            found = work.result()
        except PermissionError:
            raise denied(process.pid) from None
        except OSError:
            raise TargetGone("The process has ended.", "", "gone") from None
        if found.stops_ns:
            touch = Intrusion(
                target=process.id,
                what="glance",
                why=why,
                paused_ns=sum(found.stops_ns.values()),
                stops=len(found.stops_ns),
                at_wall_ns=time.time_ns(),
            )
            context.emit(Touched(intrusion=touch, **context.stamp()))
        if cancelled:
            raise asyncio.CancelledError
        return found

    def _near(self, context: Context, process: Process, found: Glanced) -> None:
        """Warn if a watchdog of the runtime left hardly more budget than the stops took."""
        budget = stop_budget(context.snapshot(), process.id, time.time_ns())
        took_s = sum(found.stops_ns.values()) / 1e9
        if budget is not None and budget.seconds < max(_NEAR_S, 10 * took_s):
            sentence = f"The glance stopped threads for {took_s * 1e3:.1f} ms in total. {budget.sentence}"
            self._statuses.say(context, process.id, "watchdog-near", sentence, "run without --glance")

    def _report(self, context: Context, process: Process, found: Glanced) -> None:
        """Report the threads without a stack; withdraw obsolete statuses; TargetError if there is no stack at all."""
        reasons = skip_reasons(found)
        if reasons and not found.copies:
            code, (sentence, remedy) = next(iter(reasons.items()))
            raise TargetError(sentence, remedy, code)
        self._skipped.only(context, process.id, reasons)


def _must_be_possible(request: Request) -> None:
    """Raise ToolMissing if a glance can give nothing, for the machine or for lack of an unwinder."""
    if not ptrace.usable():
        raise ToolMissing(f"glances need x86-64, this is {os.uname().machine}.", "run without --glance", "machine")
    missing = no_unwinder(request)
    if missing is not None:
        raise missing
