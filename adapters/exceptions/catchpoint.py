"""A catchpoint without a stop: its tracer, the hits of traced calls, their stacks and circumstances.

Circumstances of a throw are the thread's rank and a runtime's operation, as systems know them. They are read at once:
soon the thread goes on, or its process ends.

Invariants:
    circumstances.B1. A hit has the circumstances of its first call, and none if they were not read then.
    circumstances.B2. At most `_MOST_A_SECOND` calls are read, each the first one of its kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from msgspec import structs

from livedbg.adapters.exceptions.breakpoint_tracer import BreakpointTracer
from livedbg.adapters.exceptions.calls import Call, TracedCall
from livedbg.adapters.exceptions.catch_request import RUNTIME, matches, refused
from livedbg.adapters.exceptions.function_tracer import FunctionTracer, PythonRaises, refused_raises
from livedbg.adapters.exceptions.hits import Hits, Kind
from livedbg.adapters.exceptions.native_calls import NativeCalls, PythonCallers, Subject
from livedbg.adapters.exceptions.signal_meaning import ended
from livedbg.adapters.exceptions.signal_tracer import SignalTracer
from livedbg.adapters.exceptions.stacks import CallStacks, Frames, Place
from livedbg.linux.ending import Ending
from livedbg.model import ExceptionHit, Frame, Intrusion, ids
from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment, Pattern
from livedbg.model.errors import LivedbgError, TouchRefused
from livedbg.model.events import CatchpointSeen, ExceptionSeen, Touched
from livedbg.model.intents import Catch
from livedbg.probes.functions import FunctionNotFound, NotTraceable
from livedbg.probes.newest import Newest
from livedbg.probes.perf import NoPerf
from livedbg.probes.tracefs import NoTracefs
from livedbg.probes.tracer import Tracer
from livedbg.session.adapter import Context
from livedbg.session.systems import declared
from livedbg.state.stacks import merge_frames, runs_python
from livedbg.text.sanitize import clean_line
from livedbg.touch.config import refuse_touch
from livedbg.unwind.pool import UnwinderPool

_MOST_A_SECOND: Final = 20
_KINDS: Final = 4096
_KEPT: Final = 1024
_PATIENCE_S: Final = 5.0

_Says = Callable[[Sequence[Frame]], tuple[int | None, str]]


class Circumstances:
    """Reads and keeps circumstances of throws."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._reads = tuple(read for _, read in declared(lambda system: system.thrown_in))
        self._kinds: Newest[Hashable, None] = Newest(_KINDS)
        self._second = (0, 0)
        self._begun_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._says: Newest[tuple[str, int], _Says] = Newest(_KEPT)
        self._ranks: dict[str, int] = {}
        self._kept: dict[str, tuple[int | None, str]] = {}

    def read(self, pid: int, tid: int, kind: Hashable, wall_ns: int) -> None:
        """Start reading for a throw; `kind` distinguishes it from others."""
        if not self._reads or kind in self._kinds or not self._may():
            return
        self._kinds[kind] = None
        if not self._tasks:
            self._begun_s = time.monotonic()
        task = asyncio.create_task(self._read(pid, tid, wall_ns))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _may(self) -> bool:
        now = int(time.monotonic())
        second, count = self._second
        self._second = (now, count + 1 if now == second else 1)
        return self._second[1] <= _MOST_A_SECOND

    @property
    def busy(self) -> bool:
        """Return whether something is being read: hits wait for that, but not for long."""
        return bool(self._tasks) and time.monotonic() - self._begun_s < _PATIENCE_S

    async def settled(self) -> None:
        """Wait for running reads."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def with_them(self, hit: ExceptionHit) -> ExceptionHit:
        """Return the hit with the circumstances of its first call."""
        process = hit.process or ""
        kept = self._kept.get(hit.id)
        if kept is None and (says := self._says.get((process, hit.first_wall_ns or 0))) is not None:
            kept = self._kept[hit.id] = says(hit.stack)
        rank, operation = kept or (self._ranks.get(process), "")
        return structs.replace(hit, rank=rank, operation=operation)

    async def _read(self, pid: int, tid: int, wall_ns: int) -> None:
        process = ids.process(self._host, pid)
        for read in self._reads:
            try:
                says = await asyncio.to_thread(read, pid, tid)
            except OSError:
                continue  # it has ended
            if says is not None:
                self._says[process, wall_ns] = says
                rank, _ = says(())
                if rank is not None:
                    self._ranks[process] = rank
                return


_STEP_NS: Final = 50_000_000
UNWIND_S: Final = 30.0  # for the stack of one call
_WAITING: Final = 64  # places whose stacks are waited for; what comes meanwhile is counted without one
_WAITING_EACH: Final = 4096  # calls from one of them
_NO_PYTHON: Final = "no Python is loaded yet"
_NO_RUNTIME: Final = "no C++ runtime is loaded yet (one without symbols and tracer marks can't be traced)"

_Refusal: TypeAlias = OSError | FunctionNotFound | NotTraceable | TouchRefused


class TracingCatchpoint:
    """One catchpoint.

    Args:
        catchpoint: its displayed state.
        patterns: of matching calls.
        pool: of unwinders; None for no unwinding.
    """

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
        self._pid = int(ids.parse(catchpoint.process).parts[1])
        self._calls = CallStacks(self._pid, pool, follow=catchpoint.follow)
        self._hits = Hits(context.request.host, catchpoint.id)
        self._offset_ns = 0  # of the clock from that of the samples
        self._circumstances = Circumstances(context.request.host)
        self._tracer: Tracer | None = None
        self._disarmed: tuple[Tracer, CatchpointState, str] | None = None  # stopped, and not reported yet
        self._waiting: dict[Place, list[tuple[Kind, TracedCall]]] = {}  # the first one of each has its stack
        self._unwinding: asyncio.Task[None] | None = None
        self._traced = 0
        self._end: Ending | None = None
        self._ending: asyncio.Task[None] | None = None
        self._failing: asyncio.Task[None] | None = None

    async def arm(self) -> None:
        """Set the probes.

        Raises:
            TargetError: it can't be done; the catchpoint shows why, too.
            TouchRefused: intrusive actions are forbidden; the catchpoint shows it, too.
        """
        catchpoint = self.catchpoint
        named = catchpoint.moment in {Moment.CALL, Moment.SIGNAL}
        names = [p.text for p in self._patterns] if named else [RUNTIME[catchpoint.moment]]
        loop = asyncio.get_running_loop()

        def report(traced: Sequence[TracedCall]) -> None:
            with contextlib.suppress(RuntimeError):  # the session has ended
                loop.call_soon_threadsafe(self._take, traced)

        try:
            refuse_touch(self._context.request, "A catchpoint sets probes")
            await self._calls.begin()
            self._end = Ending(self._pid)
            tracer = await asyncio.to_thread(self._started, names, report)
        except (OSError, FunctionNotFound, NotTraceable, TouchRefused) as error:
            self._close()
            why = self._refused(error, names)
            self._put(state=CatchpointState.FAILED, note=why.message, remedy=why.remedy)
            raise why from None
        self._tracer = tracer
        engine = "registers" if isinstance(tracer, BreakpointTracer) else "probes"
        self._put(state=CatchpointState.ARMED, engine=engine, note=self._note(tracer))
        probe = Intrusion(
            target=catchpoint.process,
            what="probe",
            why=f"{catchpoint.moment} of {catchpoint.pattern}: traces, nothing is stopped",
            at_wall_ns=time.time_ns(),
        )
        self._context.emit(Touched(intrusion=probe, **self._context.stamp()))

    def _refused(self, error: _Refusal, names: Sequence[str]) -> LivedbgError:
        if isinstance(error, TouchRefused):
            return error
        if isinstance(error, NotTraceable) or self.catchpoint.moment is Moment.RAISE:
            why = refused_raises(error, self._pid)
            if why is not None:
                return why
        assert not isinstance(error, NotTraceable)  # which always has a reason to show
        return refused(error, self._pid, names)

    def _started(self, names: Sequence[str], report: Callable[[Sequence[TracedCall]], None]) -> Tracer:
        """Start a tracer by probe events, or by debug registers if those are not allowed; or a signal tracer."""
        pid, moment, follow = self._pid, self.catchpoint.moment, self.catchpoint.follow
        if moment is Moment.SIGNAL:
            numbers = [number for number in signal.Signals if any(p.matches([number.name]) for p in self._patterns)]
            signals = SignalTracer(pid, numbers, report=report, mappings=self._calls.mappings, follow=follow)
            signals.start()
            return signals
        subject: Subject = NativeCalls(moment, names, PythonCallers(pid), later=follow)
        if moment is Moment.RAISE:
            subject = PythonRaises(awaited=follow or bool(self._files))
        try:
            first = FunctionTracer(pid, subject, wanted=self._wants, report=report, follow=follow, files=self._files)
            first.start()
        except OSError as error:
            if not isinstance(error, NoTracefs | NoPerf) or moment is Moment.RAISE:
                raise
            second = BreakpointTracer(pid, moment, names, wanted=self._wants, report=report, follow=follow)
            second.start()
            return second
        return first

    async def disarm(
        self, state: CatchpointState = CatchpointState.DONE, remedy: str = "", patience_s: float = UNWIND_S
    ) -> None:
        """Remove the probes; calls traced so far are still reported.

        Args:
            state: its final state.
            remedy: for a failure.
            patience_s: how long to wait for the last stacks; then hits are reported without them.
        """
        tracer, self._tracer = self._tracer, None
        if tracer is not None:
            await asyncio.to_thread(tracer.stop)
            await asyncio.sleep(0)  # what it traced last
            self._disarmed = (tracer, state, remedy)
        if self._disarmed is not None and self._unwinding is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self._unwinding], timeout=patience_s)
        if self._disarmed is not None:  # else another `disarm`, with less patience, has reported it
            tracer, state, remedy = self._disarmed
            self._disarmed = None
            while self._waiting:
                for kind, traced in self._waiting.popitem()[1]:
                    self._count_in(kind, traced)
            await self._circumstances.settled()
            self._emit_hits()  # first: who sees that it is over has them all
            self._put(**self._changes(tracer), state=state, remedy=remedy)
        self._close()

    def _close(self) -> None:
        self._calls.close()
        if self._end is not None:
            self._end.close()
            self._end = None

    async def remember(self) -> None:
        """Note what the process has loaded."""
        await self._calls.remember()

    def report(self) -> None:
        """Publish changes."""
        if self._tracer is not None:
            failure = self._tracer.counts.failure
            self._put(**self._changes(self._tracer))
            if failure and self._failing is None:
                self._failing = asyncio.create_task(self._fail())
        if not self._circumstances.busy:
            self._emit_hits()

    async def _fail(self) -> None:
        """Handle a tracer that has ended by itself: traced calls are kept."""
        await self.disarm(CatchpointState.FAILED, "set it again, and please report this bug")

    def _emit_hits(self) -> None:
        for hit in self._hits.changed():
            self._context.emit(ExceptionSeen(hit=self._circumstances.with_them(hit), **self._context.stamp()))

    def _changes(self, tracer: Tracer) -> dict[str, object]:
        counts = tracer.counts
        seen = max(counts.seen, self._traced)
        changes: dict[str, object] = {
            "seen": seen,
            "lost": counts.lost,
            "hits": self._traced,
            "note": self._note(tracer),
        }
        status = self._end.status() if self._end is not None else None
        return changes | {"ending": ended(status) if status is not None else ""}

    def _note(self, tracer: Tracer) -> str:
        counts = tracer.counts
        if self.catchpoint.moment is Moment.SIGNAL:
            parts = [f"signals: {', '.join(p.text for p in self._patterns)}"]
        else:
            files = [file.rpartition("/")[2] for file in tracer.files]
            parts = [f"in {', '.join(files)}" if files else self._nowhere()]
        if self.catchpoint.moment is Moment.RETHROW:
            parts.append("rethrows have neither type nor message: all are reported")
        if not self._calls.possible:
            parts.append("no stacks: gdb is not installed")
        if counts.unread:
            parts.append(f"can't be read: {', '.join(counts.unread[:3])}")
        if counts.left_out:
            parts.append(f"not traced, because no debug register is left: {', '.join(counts.left_out[:3])}")
        if isinstance(tracer, BreakpointTracer) and self.catchpoint.follow:
            parts.append("programs that it executes are not traced")
        if counts.failure:
            parts.insert(0, f"tracing has failed ({counts.failure})")
        return clean_line("; ".join(parts))

    def _nowhere(self) -> str:
        if self.catchpoint.moment is Moment.CALL:
            return f"no loaded file has {' or '.join(p.text for p in self._patterns)} yet"
        return _NO_PYTHON if self.catchpoint.moment is Moment.RAISE else _NO_RUNTIME

    def _put(self, **changes: object) -> None:
        fresh = structs.replace(self.catchpoint, **changes)
        if fresh != self.catchpoint:
            self.catchpoint = fresh
            self._context.emit(CatchpointSeen(catchpoint=fresh, **self._context.stamp()))

    def _wants(self, call: Call) -> bool:
        return matches(self.catchpoint.moment, self._patterns, call)

    # what was traced

    def _take(self, traced: Sequence[TracedCall]) -> None:
        for one in traced:
            if self._most and self._traced >= self._most:
                break
            if self.catchpoint.message not in one.call.message:
                continue
            self._traced += 1
            kind = self._calls.kind_of(one)
            self._circumstances.read(one.sample.pid, one.sample.tid, kind, self._wall_ns(one))
            place = self._calls.place_of(kind)
            if self.catchpoint.moment is Moment.RAISE:
                self._hits.add(kind, one, self._wall_ns(one), one.python[:2] if one.python is not None else None)
            elif self._calls.known(place) or not self._calls.possible:
                self._count_in(kind, one, self._calls.of(place))
            elif place in self._waiting and len(self._waiting[place]) < _WAITING_EACH:
                self._waiting[place].append((kind, replace(one, sample=one.sample._replace(stack=b""))))
            elif place in self._waiting or len(self._waiting) >= _WAITING:
                self._count_in(kind, one)
            else:
                self._waiting[place] = [(kind, one)]
        if self._waiting and (self._unwinding is None or self._unwinding.done()):
            self._unwinding = asyncio.create_task(self._unwind())
        if self._most and self._traced >= self._most and self._tracer is not None:
            self._ending = asyncio.create_task(self.disarm())

    def _count_in(self, kind: Kind, traced: TracedCall, stack: Frames | None = None) -> None:
        if traced.python is not None and (stack is not None or not self._calls.possible):
            native, whole = stack or ((), False)
            merged = merge_frames(traced.python.frames, native, traced.python.runs)
            stack = merged, whole and traced.python.whole
        elif stack is not None and runs_python(stack[0]):  # whose frames could not be read
            stack = stack[0], False
        self._hits.add(kind, traced, self._wall_ns(traced), stack)

    async def _unwind(self) -> None:
        while self._waiting:
            place, ((_, first), *_) = next(iter(self._waiting.items()))
            stack = await self._calls.unwind(place, first)
            for kind, traced in self._waiting.pop(place, ()):  # those that came meanwhile too
                self._count_in(kind, traced, stack)
            self.report()

    def _wall_ns(self, traced: TracedCall) -> int:
        """Return when a call was: always the same, unless the clock was set in between."""
        offset = time.time_ns() - time.monotonic_ns()
        if abs(offset - self._offset_ns) > _STEP_NS:
            self._offset_ns = offset
        return self._offset_ns + traced.sample.mono_ns
