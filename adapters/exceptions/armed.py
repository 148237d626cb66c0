"""One catchpoint: its listener, what it has heard, and what is said of that."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from msgspec import structs

from livedbg.adapters.exceptions.asked import wants
from livedbg.adapters.exceptions.calls import Call
from livedbg.adapters.exceptions.debugged import DebuggedListener
from livedbg.adapters.exceptions.hearing import Heard, Hearing, Nowhere
from livedbg.adapters.exceptions.hits import Hits, Kind
from livedbg.adapters.exceptions.listener import Listener
from livedbg.adapters.exceptions.python import PythonRaises, refused_raises
from livedbg.adapters.exceptions.python_beneath import PythonBeneath
from livedbg.adapters.exceptions.refusal import refused
from livedbg.adapters.exceptions.runtime import RUNTIME
from livedbg.adapters.exceptions.signal_words import ended
from livedbg.adapters.exceptions.signals import SignalListener
from livedbg.adapters.exceptions.stacks import CallStacks, Frames, Place
from livedbg.adapters.exceptions.subject import NativeCalls, Subject, Unheard
from livedbg.linux.ending import Ending
from livedbg.model import Intrusion, ids
from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment, Pattern
from livedbg.model.errors import LivedbgError, TouchRefused
from livedbg.model.events import CatchpointSeen, ExceptionSeen, Touched
from livedbg.model.intents import Catch
from livedbg.probes.perf import NoPerf
from livedbg.probes.tracefs import NoTracefs
from livedbg.session.adapter import Context
from livedbg.session.config import refuse_touch
from livedbg.state.stacks import merge_frames, runs_python
from livedbg.text.sanitize import clean_line
from livedbg.unwind.pool import UnwinderPool

__all__ = ["Armed"]

_UNWIND_S: Final = 30.0  # for the stack of one call
_WAITING: Final = 64  # places whose stacks are waited for; what comes meanwhile is counted without one
_WAITING_EACH: Final = 4096  # calls from one of them
_NO_PYTHON: Final = "no Python is there yet"
_NO_RUNTIME: Final = "no C++ runtime is loaded yet (one that was stripped of its names and marks can't be heard)"

_Refusal: TypeAlias = OSError | Nowhere | Unheard | TouchRefused


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
        self._pid = int(ids.parse(catchpoint.process).parts[1])
        self._calls = CallStacks(self._pid, pool, follow=catchpoint.follow)
        self._hits = Hits(context.request.host, catchpoint.id)
        self._listener: Hearing | None = None
        self._waiting: dict[Place, list[tuple[Kind, Heard]]] = {}  # the first one of each has its stack
        self._unwinding: asyncio.Task[None] | None = None
        self._heard = 0
        self._end: Ending | None = None
        self._ending: asyncio.Task[None] | None = None
        self._failing: asyncio.Task[None] | None = None

    async def arm(self) -> None:
        """Listen.

        Raises:
            TargetError: it can't be done; the catchpoint says why too.
            TouchRefused: touches are forbidden; the catchpoint says so too.
        """
        catchpoint = self.catchpoint
        named = catchpoint.moment in {Moment.CALL, Moment.SIGNAL}
        names = [p.text for p in self._patterns] if named else [RUNTIME[catchpoint.moment]]
        loop = asyncio.get_running_loop()

        def tell(heard: Sequence[Heard]) -> None:
            with contextlib.suppress(RuntimeError):  # the session has ended
                loop.call_soon_threadsafe(self._take, heard)

        try:
            refuse_touch(self._context.request, "A probe is a touch")
            await self._calls.begin()
            self._end = Ending(self._pid)
            listener = await asyncio.to_thread(self._started, names, tell)
        except (OSError, Nowhere, Unheard, TouchRefused) as error:
            self._let_go()
            why = self._refused(error, names)
            self._put(state=CatchpointState.FAILED, note=why.message, remedy=why.remedy)
            raise why from None
        self._listener = listener
        engine = "registers" if isinstance(listener, DebuggedListener) else "listen"
        self._put(state=CatchpointState.ARMED, engine=engine, note=self._note(listener))
        probe = Intrusion(
            target=catchpoint.process,
            what="probe",
            why=f"{catchpoint.moment} of {catchpoint.pattern}: listens, nothing is stopped",
            at_wall_ns=time.time_ns(),
        )
        self._context.emit(Touched(intrusion=probe, **self._context.stamp()))

    def _refused(self, error: _Refusal, names: Sequence[str]) -> LivedbgError:
        if isinstance(error, TouchRefused):
            return error
        if isinstance(error, Unheard) or self.catchpoint.moment is Moment.RAISE:
            why = refused_raises(error, self._pid)
            if why is not None:
                return why
        assert not isinstance(error, Unheard)  # of which there is always something to say
        return refused(error, self._pid, names)

    def _started(self, names: Sequence[str], tell: Callable[[Sequence[Heard]], None]) -> Hearing:
        """A listener by probe events, or where those are not allowed by debug registers; for signals their own."""
        pid, moment, follow = self._pid, self.catchpoint.moment, self.catchpoint.follow
        if moment is Moment.SIGNAL:
            numbers = [number for number in signal.Signals if any(p.matches([number.name]) for p in self._patterns)]
            signals = SignalListener(pid, numbers, tell=tell, mappings=self._calls.mappings, follow=follow)
            signals.start()
            return signals
        subject: Subject = NativeCalls(moment, names, PythonBeneath(pid), later=follow)
        if moment is Moment.RAISE:
            subject = PythonRaises(awaited=follow or bool(self._files))
        try:
            first = Listener(pid, subject, wanted=self._wants, tell=tell, follow=follow, files=self._files)
            first.start()
        except OSError as error:
            if not isinstance(error, NoTracefs | NoPerf) or moment is Moment.RAISE:
                raise
            second = DebuggedListener(pid, moment, names, wanted=self._wants, tell=tell, follow=follow)
            second.start()
            return second
        return first

    async def disarm(
        self, state: CatchpointState = CatchpointState.DONE, remedy: str = "", patience_s: float = _UNWIND_S
    ) -> None:
        """Take the probes out; what was heard is still said.

        Args:
            state: what has become of it.
            remedy: what to do about that.
            patience_s: how long stacks of what was heard last are waited for; then it is said without them.
        """
        listener, self._listener = self._listener, None
        if listener is not None:
            await asyncio.to_thread(listener.stop)
            await asyncio.sleep(0)  # what it heard last
            if self._unwinding is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([self._unwinding], timeout=patience_s)
            while self._waiting:
                for kind, heard in self._waiting.popitem()[1]:
                    self._count_in(kind, heard)
            self._say_hits()  # first: who sees that it is over has them all
            self._put(**self._told(listener), state=state, remedy=remedy)
        self._let_go()

    def _let_go(self) -> None:
        self._calls.close()
        if self._end is not None:
            self._end.close()
            self._end = None

    async def remember(self) -> None:
        """Take down what the process has loaded."""
        await self._calls.remember()

    def say(self) -> None:
        """Put on the stream what has changed."""
        if self._listener is not None:
            failure = self._listener.counts.failure
            self._put(**self._told(self._listener))
            if failure and self._failing is None:
                self._failing = asyncio.create_task(self._fail())
        self._say_hits()

    async def _fail(self) -> None:
        """The listener has ended by itself: what it has heard stays."""
        await self.disarm(CatchpointState.FAILED, "set it again; please report this as a bug of livedbg")

    def _say_hits(self) -> None:
        for hit in self._hits.changed():
            self._context.emit(ExceptionSeen(hit=hit, **self._context.stamp()))

    def _told(self, listener: Hearing) -> dict[str, object]:
        counts = listener.counts
        seen = max(counts.seen, self._heard)
        told: dict[str, object] = {"seen": seen, "lost": counts.lost, "hits": self._heard, "note": self._note(listener)}
        status = self._end.status() if self._end is not None else None
        return told | {"ending": ended(status) if status is not None else ""}

    def _note(self, listener: Hearing) -> str:
        counts = listener.counts
        if self.catchpoint.moment is Moment.SIGNAL:
            parts = [f"signals: {', '.join(p.text for p in self._patterns)}"]
        else:
            files = [file.rpartition("/")[2] for file in listener.files]
            parts = [f"in {', '.join(files)}" if files else self._nowhere()]
        if self.catchpoint.moment is Moment.RETHROW:
            parts.append("a rethrow tells neither type nor message: all are shown")
        if not self._calls.possible:
            parts.append("no stacks: gdb is not there")
        if counts.unread:
            parts.append(f"can't be read: {', '.join(counts.unread[:3])}")
        if counts.left_out:
            parts.append(f"not heard, for want of debug registers: {', '.join(counts.left_out[:3])}")
        if isinstance(listener, DebuggedListener) and self.catchpoint.follow:
            parts.append("programs that it starts by exec are not heard")
        if counts.failure:
            parts.insert(0, f"listening has failed ({counts.failure})")
        return clean_line("; ".join(parts))

    def _nowhere(self) -> str:
        if self.catchpoint.moment is Moment.CALL:
            return f"no file that is loaded has {' or '.join(p.text for p in self._patterns)} yet"
        return _NO_PYTHON if self.catchpoint.moment is Moment.RAISE else _NO_RUNTIME

    def _put(self, **changes: object) -> None:
        fresh = structs.replace(self.catchpoint, **changes)
        if fresh != self.catchpoint:
            self.catchpoint = fresh
            self._context.emit(CatchpointSeen(catchpoint=fresh, **self._context.stamp()))

    def _wants(self, call: Call) -> bool:
        return wants(self.catchpoint.moment, self._patterns, call)

    # what was heard

    def _take(self, heard: Sequence[Heard]) -> None:
        for one in heard:
            if self._most and self._heard >= self._most:
                break
            if self.catchpoint.message not in one.call.message:
                continue
            self._heard += 1
            kind = self._calls.kind_of(one)
            place = self._calls.place_of(kind)
            if self.catchpoint.moment is Moment.RAISE:
                self._hits.add(kind, one, _wall_ns(one), one.python[:2] if one.python is not None else None)
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
        if self._most and self._heard >= self._most and self._listener is not None:
            self._ending = asyncio.create_task(self.disarm())

    def _count_in(self, kind: Kind, heard: Heard, stack: Frames | None = None) -> None:
        if heard.python is not None and (stack is not None or not self._calls.possible):
            native, whole = stack or ((), False)
            merged = merge_frames(heard.python.frames, native, heard.python.runs)
            stack = merged, whole and heard.python.whole
        elif stack is not None and runs_python(stack[0]):  # whose frames could not be read
            stack = stack[0], False
        self._hits.add(kind, heard, _wall_ns(heard), stack)

    async def _unwind(self) -> None:
        while self._waiting:
            place, ((_, first), *_) = next(iter(self._waiting.items()))
            stack = await self._calls.unwind(place, first)
            for kind, heard in self._waiting.pop(place, ()):  # those that came meanwhile too
                self._count_in(kind, heard, stack)
            self.say()


def _wall_ns(heard: Heard) -> int:
    return time.time_ns() - time.monotonic_ns() + heard.sample.mono_ns
