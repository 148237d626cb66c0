"""The adapter: decides when stacks are captured, and puts them on the stream.

A process is captured again when threads have begun to wait since their stacks were taken; sooner if a wait lasts.

Invariants:
    native_due.D1. A wait lasts only if samples have seen it last: between two samples, which may be seconds apart, a
        thread may have moved a thousand times.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct, field

from livedbg.gdbmi.errors import GdbTimeout
from livedbg.linux.ending import has_ended
from livedbg.model import Process, SourceHealth, Stack, Thread
from livedbg.model.errors import LivedbgError, TargetError
from livedbg.model.events import StacksSeen
from livedbg.model.intents import Intent, WantStacks
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Context, Request, living, threads_seen
from livedbg.session.pacing import Cost, Limit
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Statuses
from livedbg.session.sources import StackSources
from livedbg.session.tools import find_gdb, no_unwinder, shared_unwinders
from livedbg.unwind.capture import capture
from livedbg.unwind.helper_process import UnwindTimeout, usable
from livedbg.unwind.pool import UnwinderPool
from livedbg.unwind.unwound import Unwound

_BRIEF_NS: Final = 2_000_000_000
"""A wait that was not seen to last longer is brief: its stack is old as soon as it is read."""


_LONG_NS: Final = 8_000_000_000
"""A wait of this length may soon be a stall (10 s): its stack can't wait for long."""


class Due(NamedTuple):
    """The threads of a process to capture.

    Attributes:
        threads: threads that have begun to wait, each with its wait.
        lasting: a stack is worth its cost: some thread has waited for a while, or has no stack yet.
        long: some wait may soon be a stall.
    """

    threads: list[tuple[Thread, object]]
    lasting: bool
    long: bool


def due(process: Process, snapshot: Snapshot, taken: Mapping[str, object]) -> Due:
    """Return the threads of which a new stack would be news; `taken` has each thread's wait at its last stack."""
    found: list[tuple[Thread, object]] = []
    lasting, long, now_ns = False, False, snapshot.now(process.host).mono_ns
    for thread in snapshot.threads_of(process.id):
        activity = snapshot.activity.get(thread.id)
        since = activity.waiting_since_mono_ns if activity is not None else None
        wait = (since, thread.syscall, thread.waits_in)
        if since is not None and taken.get(thread.id) != wait:
            found.append((thread, wait))
            lasting = lasting or thread.id not in taken or now_ns - since >= _BRIEF_NS
            long = long or now_ns - since >= _LONG_NS
    return Due(found, lasting, long)


class Watched(Struct):
    """The capture state of one process.

    Attributes:
        taken: thread -> its wait when its stack was taken.
        next_s: earliest next capture, on time.monotonic().
        brief_s: the same if all waits are brief.
        long_s: the same if a wait has become long: the cost of the first capture must not hide a stall.
    """

    taken: dict[str, object] = field(default_factory=dict)
    next_s: float = 0.0
    brief_s: float = 0.0
    long_s: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def worth(self, now_s: float, *, lasting: bool, long: bool) -> bool:
        """Return whether waits without a stack are worth a capture now; `lasting` and `long` as in `Due`."""
        if long and now_s >= self.long_s:
            return True
        return now_s >= self.next_s and (lasting or now_s >= self.brief_s)


_CHECK_S: Final = 0.5  # between two checks which threads have begun to wait
_LIMIT: Final = Limit(cpu=0.01, wall=0.2, least_s=3.0)  # of captures that nobody asked for
_BRIEF: Final = Limit(cpu=0.001, wall=0.05, least_s=6.0, most_s=60.0)  # the same where all of it moves on by itself
_LONG_S: Final = 8.0  # shortest rest before a capture of long waits, and _AGAIN_S after a look that found none
_AGAIN_S: Final = 2.0
_SILENT_S: Final = 5.0  # after which an unwinder that has given no stacks is named
_LIMIT_S: Final = 30.0  # for one capture with its unwinding
_LIMIT_ASKED_S: Final = 60.0  # the same when somebody asked for it
_MOST_THREADS: Final = 1024
_GUESSED: Final = "outer frames may be missing or wrong: the frame pointer is unknown without a stop"


class NativeAdapter(PolledAdapter):
    """Takes the native stacks of waiting threads."""

    name: ClassVar[str] = "native"
    sees: ClassVar[str] = "native stacks of threads that are blocked in a system call"
    cost: ClassVar[str] = (
        "no stop; copying takes about 0.1 ms per thread, and a process of ours needs memory for symbols"
    )
    handles: ClassVar[tuple[type[Intent], ...]] = (WantStacks,)

    def __init__(self) -> None:
        super().__init__()
        self._watched: dict[str, Watched] = {}
        self._sources = StackSources()
        self._pool: UnwinderPool | None = None
        self._problem: LivedbgError | None = None
        self._troubles, self._notes = Statuses(self.name), Statuses(self.name)
        self._warming = set[asyncio.Task[None]]()

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes) and request.stacks == "native"

    async def run(self, context: Context) -> None:
        try:
            await super().run(context)
        finally:
            for task in self._warming:
                task.cancel()
            await _wait_uncancelled(asyncio.gather(*self._warming, return_exceptions=True))
            if self._pool is not None:
                await _wait_uncancelled(asyncio.ensure_future(self._pool.close()))

    async def begin(self, context: Context) -> bool:
        """Start the unwinder, if there is one, while other adapters read the processes."""
        self._problem = no_unwinder(context.request)
        if self._problem is not None:
            self._report(context, "", self._problem)
            return False
        self._pool = shared_unwinders(context.request)
        self._warming = {asyncio.create_task(_warm(self._pool, one.pid)) for one in context.request.processes[:1]}
        await threads_seen(context)
        return True

    async def handle(self, intent: Intent, context: Context) -> None:
        """Take stacks on request; raise ToolMissing without an unwinder, LivedbgError on failure."""
        assert isinstance(intent, WantStacks)
        if not intent.native:
            return
        if self._problem is not None:
            raise self._problem
        process = living(context, intent.process)
        threads = [t for t in context.snapshot().threads_of(process.id) if not intent.threads or t.id in intent.threads]
        watched = self._watched.setdefault(process.id, Watched())
        async with watched.lock:
            await self._take(context, process, threads, _LIMIT_ASKED_S, values=intent.local_variables)

    async def look(self, context: Context) -> float:
        snapshot = context.snapshot().as_of_looks()
        now = time.monotonic()
        for process in list(snapshot.processes.values()):
            watched = self._watched.setdefault(process.id, Watched())
            if process.exited or now < min(watched.next_s, watched.long_s) or watched.lock.locked():
                continue
            threads, lasting, long = due(process, snapshot, watched.taken)
            worth = watched.worth(now, lasting=lasting, long=long)
            watched.long_s = max(watched.long_s, now + _AGAIN_S)
            if not threads or not worth:
                continue
            async with watched.lock:
                assert self._pool is not None
                started, before_s = time.monotonic(), self._pool.cpu_s(process.pid)
                threads = threads[:_MOST_THREADS]
                moving: set[str] = set()
                try:
                    moving = await self._take_reporting(context, process, [thread for thread, _ in threads])
                except (GdbTimeout, UnwindTimeout) as error:  # a busy host: once more, after a rest
                    moving = {thread.id for thread, _ in threads}
                    self._report(context, process.id, error)
                except LivedbgError as error:
                    self._report(context, process.id, error)
                else:
                    self._troubles.withdraw(context, process.id)
                first = not watched.taken  # most of its cost comes once
                watched.taken.update({thread.id: wait for thread, wait in threads if thread.id not in moving})
                after_s = self._pool.cpu_s(process.pid)
                cost_s = after_s - before_s if after_s >= before_s else after_s  # that of a new one
                cost = Cost(cost_s, time.monotonic() - started)
                watched.next_s = time.monotonic() + (
                    min(_AGAIN_S, _LIMIT.rest_s(cost)) if first else _LIMIT.rest_s(cost)
                )
                watched.brief_s = time.monotonic() + _BRIEF.rest_s(cost)
                watched.long_s = time.monotonic() + max(_LONG_S, 4 * cost.wall_s)
        return _CHECK_S

    async def _take_reporting(self, context: Context, process: Process, threads: list[Thread]) -> set[str]:
        """Call `_take`, and report a status if it takes long: a report of one sample must say why it has no stacks."""
        taking = asyncio.ensure_future(self._take(context, process, threads, _LIMIT_S))
        try:
            if not (await asyncio.wait({taking}, timeout=_SILENT_S))[0]:
                self._report(context, process.id, _silent(context.request))
            return await taking
        finally:
            if not taking.done():
                taking.cancel()
                await _wait_uncancelled(taking)

    async def _take(
        self, context: Context, process: Process, threads: list[Thread], limit_s: float, *, values: bool = False
    ) -> set[str]:
        """Copy, unwind, emit.

        Args:
            limit_s: time limit of the unwinding.
            values: local variables too, even if the session does not request them.

        Returns:
            The threads that moved meanwhile, of which there is no stack.

        Raises:
            LivedbgError: unwinding failed, or the process can't be read.
        """
        assert self._pool is not None
        if not threads:
            return set()
        taken_ns = time.monotonic_ns()
        ids = {thread.tid: thread.id for thread in threads}
        try:
            copied = await asyncio.to_thread(capture, process.pid, list(ids))
            moving = {ids[tid] for tid in copied.moving}
            if not copied.threads:
                return moving
            unwinder = await self._pool.of(process.pid)
            values = values or context.request.local_variables
            unwound = await unwinder.unwind(copied, limit_s, values=values)
        except OSError as error:
            raise TargetError(
                f"The stacks of {process.pid} can't be read: {error.strerror}.", "", "no-stacks"
            ) from None
        except LivedbgError:
            await self._pool.drop(process.pid)
            raise
        stacks = await self._sources.added(process.pid, self._stacks(unwound, ids, taken_ns))
        context.emit(StacksSeen(stacks=stacks, **context.stamp()))
        for note in unwinder.notes:
            self._notes.say(context, process.id, note.code, note.sentence)
        return moving

    def _stacks(self, unwound: dict[int, Unwound], ids: dict[int, str], taken_ns: int) -> tuple[Stack, ...]:
        return tuple(
            Stack(
                thread=ids[tid],
                frames=stack.frames,
                taken_mono_ns=taken_ns,
                source="no stop",
                layer="native",
                partial=not stack.whole,
                note=None if stack.whole else _GUESSED,
            )
            for tid, stack in unwound.items()
            if tid in ids and stack.frames
        )

    def _report(self, context: Context, target: str, error: LivedbgError) -> None:
        process = context.snapshot().processes.get(target)
        if process is not None and has_ended(process.pid):
            return
        health = SourceHealth.FAILED if error.code in {"gdb-missing", "machine"} else SourceHealth.DEGRADED
        sentence = f"No native stacks: {error.message}"
        self._troubles.say(context, target, error.code or "native-stacks", sentence, error.remedy, health=health)


async def _warm(pool: UnwinderPool, pid: int) -> None:
    with contextlib.suppress(LivedbgError):  # the first capture will report what is wrong
        await pool.warm(pid)


async def _wait_uncancelled(work: asyncio.Future[Any]) -> None:
    """Wait for work to end, also when cancelled meanwhile: no gdb may outlive the loop."""
    while not work.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(work)


def _silent(request: Request) -> LivedbgError:
    """Return the status to report while the first stacks take long."""
    if request.gdb is None and usable():
        what = f"livedbg-unwind has not answered for {_SILENT_S:g} s."
        return UnwindTimeout(what, "wait; or --gdb gdb, or --no-native", "unwind-slow")
    gdb = find_gdb(request.gdb)
    what = f"{gdb} has not answered for {_SILENT_S:g} s."
    return GdbTimeout(what, f"try it alone: {gdb} -nx -batch; or --gdb PATH, or --no-native", "gdb-slow")
