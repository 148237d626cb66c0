"""One catchpoint: its listener, what it has heard, and the stacks of that."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from msgspec import structs

from livedbg import ids
from livedbg.adapter import Context
from livedbg.adapters.exceptions.calls import Call
from livedbg.adapters.exceptions.debugged import DebuggedListener
from livedbg.adapters.exceptions.hits import Code, Hits, Kind
from livedbg.adapters.exceptions.listener import Heard, Listener
from livedbg.adapters.exceptions.places import RUNTIME
from livedbg.adapters.exceptions.python import PythonRaises, refused_raises
from livedbg.adapters.exceptions.subject import NativeCalls, Subject
from livedbg.catchpoints import Catchpoint, CatchpointState, Moment, Pattern
from livedbg.config import refuse_touch
from livedbg.errors import LivedbgError, TargetError, TouchRefused
from livedbg.events import CatchpointSeen, ExceptionSeen, Touched
from livedbg.intents import Catch
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.perf import NoPerf
from livedbg.linux.tracefs import NoTracefs
from livedbg.model import Frame, Intrusion
from livedbg.sanitize import clean_line
from livedbg.unwind.capture import SP, Capture, ThreadCopy
from livedbg.unwind.pool import UnwinderPool

__all__ = ["Armed"]

_UNWIND_S: Final = 30.0  # for the stack of one call
_WAITING: Final = 64  # kinds of calls that wait for their stacks; what comes meanwhile is counted without one
_NO_PYTHON: Final = "no Python is there yet"
_NO_RUNTIME: Final = "no C++ runtime is loaded yet (one that is linked statically and stripped can't be heard)"
_ROOT: Final = "run livedbg by sudo, or give it CAP_PERFMON and CAP_SYS_ADMIN"


_Frames: TypeAlias = tuple[tuple[Frame, ...], bool]


class Armed:
    """One catchpoint: its listener, its hits, its stacks."""

    def __init__(
        self,
        catchpoint: Catchpoint,
        patterns: Sequence[Pattern],
        intent: Catch,
        context: Context,
        pool: UnwinderPool | None,
    ) -> None:
        self.catchpoint = catchpoint
        self._patterns = patterns
        self._most = intent.count
        self._files = intent.files
        self._context = context
        self._pool = pool
        self._hits = Hits(context.request.host, catchpoint.id)
        self._listener: Listener | DebuggedListener | None = None
        self._waiting: dict[Kind, list[Heard]] = {}  # the first one of each has its stack
        self._stacks: dict[tuple[int, tuple[int, ...]], _Frames | None] = {}
        self._unwinding: asyncio.Task[None] | None = None
        self._mappings: dict[int, tuple[Mapping, ...]] = {}
        self._code: dict[int, Code] = {}
        self._heard = 0
        self._ending: asyncio.Task[None] | None = None

    async def arm(self) -> None:
        """Listen.

        Raises:
            TargetError: it can't be done; the catchpoint says why too.
            TouchRefused: touches are forbidden; the catchpoint says so too.
        """
        catchpoint = self.catchpoint
        pid = int(ids.parse(catchpoint.process).parts[1])
        calls = catchpoint.moment is Moment.CALL
        functions = [p.text for p in self._patterns] if calls else [RUNTIME[catchpoint.moment]]
        loop = asyncio.get_running_loop()

        def tell(heard: Sequence[Heard]) -> None:
            with contextlib.suppress(RuntimeError):  # the session has ended
                loop.call_soon_threadsafe(self._take, heard)

        try:
            refuse_touch(self._context.request, "A probe is a touch")
            listener = await asyncio.to_thread(self._started, pid, functions, tell)
        except (OSError, LookupError, TouchRefused) as error:
            refused = error if isinstance(error, TouchRefused) else _refused(error, pid, functions)
            if catchpoint.moment is Moment.RAISE and not isinstance(error, TouchRefused):
                refused = refused_raises(error, pid) or refused
            self._put(state=CatchpointState.FAILED, note=refused.message, remedy=refused.remedy)
            raise refused from None
        self._listener = listener
        engine = "listen" if isinstance(listener, Listener) else "registers"
        await self.remember()
        self._put(state=CatchpointState.ARMED, engine=engine, note=self._note(listener))
        probe = Intrusion(
            target=catchpoint.process,
            what="probe",
            why=f"{catchpoint.moment} of {catchpoint.pattern}: listens, nothing is stopped",
            at_wall_ns=time.time_ns(),
        )
        self._context.emit(Touched(intrusion=probe, **self._context.stamp()))

    def _started(
        self, pid: int, functions: Sequence[str], tell: Callable[[Sequence[Heard]], None]
    ) -> Listener | DebuggedListener:
        """A listener by probe events, or where those are not allowed, by debug registers."""
        moment, follow = self.catchpoint.moment, self.catchpoint.follow
        subject: Subject = NativeCalls(moment, functions)
        if moment is Moment.RAISE:
            subject = PythonRaises(awaited=follow or bool(self._files))
        try:
            first = Listener(pid, subject, wanted=self._wants, tell=tell, follow=follow, files=self._files)
            first.start()
        except OSError as error:
            if not isinstance(error, NoTracefs | NoPerf) or moment is Moment.RAISE:
                raise
            second = DebuggedListener(pid, moment, functions, wanted=self._wants, tell=tell, follow=follow)
            second.start()
            return second
        return first

    async def disarm(self) -> None:
        """Take the probes out; what was heard is still said."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await asyncio.to_thread(listener.stop)
            await asyncio.sleep(0)  # what it heard last
            if self._unwinding is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([self._unwinding], timeout=_UNWIND_S)
            self._put(
                state=CatchpointState.DONE, seen=listener.counts.seen, lost=listener.counts.lost, hits=self._heard
            )
            self.say()

    def say(self) -> None:
        """Put on the stream what has changed."""
        if self._listener is not None:
            counts = self._listener.counts
            seen = max(counts.seen, self._heard)
            self._put(seen=seen, lost=counts.lost, hits=self._heard, note=self._note(self._listener))
        for hit in self._hits.changed():
            self._context.emit(ExceptionSeen(hit=hit, **self._context.stamp()))

    def _note(self, listener: Listener | DebuggedListener) -> str:
        files = [file.rpartition("/")[2] for file in listener.files]
        nowhere = _NO_PYTHON if self.catchpoint.moment is Moment.RAISE else _NO_RUNTIME
        where = f"in {', '.join(files)}" if files else nowhere
        stacks = "" if self._pool is not None else "; no stacks: gdb is not there"
        unread = listener.counts.unread
        blind = f"; can't be read: {', '.join(unread[:3])}" if unread else ""
        left_out = listener.counts.left_out
        if left_out:
            blind += f"; not heard, for want of debug registers: {', '.join(left_out[:3])}"
        return clean_line(f"{where}{stacks}{blind}")

    def _put(self, **changes: object) -> None:
        fresh = structs.replace(self.catchpoint, **changes)
        if fresh != self.catchpoint:
            self.catchpoint = fresh
            self._context.emit(CatchpointSeen(catchpoint=fresh, **self._context.stamp()))

    def _wants(self, call: Call) -> bool:
        return self.catchpoint.moment is Moment.CALL or any(p.matches(call.names) for p in self._patterns)

    # what was heard

    def _take(self, heard: Sequence[Heard]) -> None:
        for one in heard:
            if self._most and self._heard >= self._most:
                break
            if self.catchpoint.message not in one.call.message:
                continue
            self._heard += 1
            kind = self._code_of(one.sample.pid).kind_of(one)
            if one.frames is not None:
                self._count_in(kind, one, one.frames)
            elif kind in self._waiting:
                self._waiting[kind].append(replace(one, sample=one.sample._replace(stack=b"")))
            elif self._hits.known(kind) or self._pool is None or len(self._waiting) >= _WAITING:
                self._count_in(kind, one)
            else:
                self._waiting[kind] = [one]
        if self._waiting and (self._unwinding is None or self._unwinding.done()):
            self._unwinding = asyncio.create_task(self._unwind())
        if self._most and self._heard >= self._most and self._listener is not None:
            self._ending = asyncio.create_task(self.disarm())

    def _code_of(self, pid: int) -> Code:
        if pid not in self._code:
            with contextlib.suppress(OSError):
                self._mappings[pid] = _mappings(pid)
            self._code[pid] = Code(self._mappings.get(pid, ()))
        return self._code[pid]

    async def remember(self) -> None:
        """Take down what the process has loaded: when it ends by an exception, it is too late."""
        pid = int(ids.parse(self.catchpoint.process).parts[1])
        with contextlib.suppress(OSError):
            self._mappings[pid] = await asyncio.to_thread(_mappings, pid)

    def _count_in(self, kind: Kind, heard: Heard, stack: _Frames | None = None) -> None:
        wall_ns = time.time_ns() - time.monotonic_ns() + heard.sample.mono_ns
        self._hits.add(kind, heard, wall_ns, stack)

    async def _unwind(self) -> None:
        while self._waiting:
            kind, (first, *_) = next(iter(self._waiting.items()))
            place = (kind.pid, kind.words)
            if place not in self._stacks:
                self._stacks[place] = await self._stack_of(first)
            stack = self._stacks[place]
            for heard in self._waiting.pop(kind):  # those that came meanwhile too
                self._count_in(kind, heard, stack)
            self.say()

    async def _stack_of(self, heard: Heard) -> _Frames | None:
        """The frames of a call, and whether they are whole; None when they can't be had."""
        sample = heard.sample
        copy = ThreadCopy(sample.tid, sample.registers, sample.registers[SP], sample.stack)
        assert self._pool is not None
        try:
            with contextlib.suppress(OSError):  # it ended by what it threw: then as they were
                self._mappings[sample.pid] = await asyncio.to_thread(_mappings, sample.pid)
            mappings = self._mappings.get(sample.pid, ())
            unwinder = await self._pool.of(sample.pid)
            done = await unwinder.unwind(Capture(sample.pid, (copy,), (), mappings), _UNWIND_S)
        except (OSError, LivedbgError):
            return None
        found = done.get(sample.tid)
        return (found.frames, found.whole) if found is not None else None


def _mappings(pid: int) -> tuple[Mapping, ...]:
    """The mappings of a process that has any.

    Raises:
        OSError: it has ended, or they may not be read.
    """
    found = tuple(parse_maps(pid))
    if not found:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return found


def _refused(error: OSError | LookupError, pid: int, functions: Sequence[str]) -> TargetError:
    if isinstance(error, LookupError):
        return TargetError(
            f"Process {pid} has no function {' or '.join(functions)} in any file that can be read.",
            "give it with namespace and class, without arguments, or as `nm -D FILE` has it",
            "no-function",
        )
    if isinstance(error, ProcessLookupError | FileNotFoundError):
        return TargetError(f"Process {pid} has ended.", "", "gone")
    if isinstance(error, NoTracefs | NoPerf) or error.errno in {errno.EACCES, errno.EPERM}:
        return TargetError(f"Probes are not allowed here: {error.strerror}.", _ROOT, "no-permission")
    if error.errno == errno.EMFILE:
        return TargetError(f"{error.strerror}.", "ulimit -n 65536", "too-many-files")
    return TargetError(f"The kernel refused the probe: {error.strerror}.", "livedbg doctor", "refused")
