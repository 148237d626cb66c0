"""Has the thread that throws stand for a look: its frames, their variables, the source; then lets it go on.

The thread stands by a knock (livedbg.linux.knock) that gdb, attached without stopping anything else, sees; there is
no breakpoint. Symbols are loaded before the attach.

Invariants:
    J1. One thread at a time is looked at; what others throw meanwhile goes on and is counted as passed.
    J2. A thread stands for the look and for what its user asked for, never longer: also when gdb is slow.
    J3. No thread stands for longer than a watchdog of the target's runtime leaves room for (livedbg.touch.room).
    J4. When the process executes another program it lets go of it: what was found was of the one before.
    J5. Types that nobody wants are sorted out by the kernel once they are known; where that can't be, and they come
        often, it ends by itself instead of slowing down the target.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from signal import Signals
from typing import Final

from livedbg.adapters.exceptions.calls import ARGUMENTS, Call, describe
from livedbg.adapters.exceptions.listener import Nowhere
from livedbg.adapters.exceptions.python_beneath import PythonBeneath
from livedbg.adapters.exceptions.reading import read_call
from livedbg.adapters.exceptions.types import Types
from livedbg.adapters.exceptions.warm import WarmGdb
from livedbg.linux.knock import Knocks, harmless_signal
from livedbg.linux.places import Found, find_places
from livedbg.linux.procfs import process_exists, thread_ids
from livedbg.linux.programs import Program
from livedbg.model import Frame
from livedbg.model.catchpoints import Moment
from livedbg.model.errors import LivedbgError, TargetUnsuitable
from livedbg.probes.perf import BREAKPOINT, TRACEPOINT, NoPerf, Sample, Source
from livedbg.probes.tracefs import NoTracefs, TraceEvents
from livedbg.state.stacks import merge_frames
from livedbg.touch.attach import AttachCost
from livedbg.touch.looking import At
from livedbg.touch.room import LEAST_S, Room
from livedbg.touch.source import with_source

__all__ = ["Stop", "Stopper"]

_REGISTERS: Final = 4  # debug registers for addresses (Intel SDM 3B, 19.2.1)
_PRELOAD_S: Final = 30.0
_ATTACH_S: Final = 30.0
_LOOK_S: Final = 5.0
_AT_S: Final = 2.0
_NEAR: Final = 16  # bytes of a function's beginning in which its thread stands
_THREADS_S: Final = 0.02  # how often it is looked for threads that were born
_FILES_S: Final = 1.0
_LEARN: Final = 3  # throws of a type that nobody wants, until the kernel is told to drop it
_LEARNT_MOST: Final = 24  # types in one filter (it has a page: 4096 bytes)
_UNWANTED_MOST: Final = 100  # a second


@dataclass(frozen=True, slots=True)
class Stop:
    """A thread that stands, or stood.

    Attributes:
        whole: the stack's outermost frame was reached.
        wall_ns: since when.
    """

    tid: int
    call: Call
    frames: tuple[Frame, ...]
    whole: bool
    wall_ns: int


class Stopper:
    """Stops threads of one process at some functions.

    Attributes:
        trouble: what could not be done lately; "" when all could.
        replaced: it has ended because the process runs another program.
        brushed: how long each thread stood that was let go on without a look, in nanoseconds; the reader empties it.

    Args:
        gdb: the gdb that will attach; it is let go of the process at the end, and stays.
        pid: the process.
        moment: what the functions mean.
        functions: their names.
        wanted: whether a call is, by its type.
        message: only calls with this text in their message.
        stands: called when a thread stands and has been looked at, with how long it is held at most.
        went_on: called when it goes on, with how long it stood, in nanoseconds.
        lost: called with a sentence when it has ended by itself.
        hold_s: how long a thread stands after the look, unless `go_on` is called.
        room: how long a thread may stand now; None for no limit.
    """

    def __init__(
        self,
        gdb: WarmGdb,
        pid: int,
        moment: Moment,
        functions: Sequence[str],
        *,
        wanted: Callable[[Call], bool],
        message: str,
        stands: Callable[[Stop, float], None],
        went_on: Callable[[Stop, int], None],
        lost: Callable[[str], None],
        hold_s: float = 0.0,
        room: Callable[[], Room | None] = lambda: None,
    ) -> None:
        self.seen = 0
        self.passed = 0
        self.trouble = ""
        self.replaced = False
        self.brushed: list[int] = []
        self.files: tuple[str, ...] = ()
        self.left_out: list[str] = []
        self._pid = pid
        self._moment = moment
        self._functions = tuple(functions)
        self._wanted = wanted
        self._message = message
        self._stands = stands
        self._went_on = went_on
        self._lost = lost
        self._hold_s = hold_s
        self._room = room
        self._attachment, self._looker = gdb
        self._program = Program(pid)
        self._types = Types(pid)
        self._python = PythonBeneath(pid)
        self._trace: TraceEvents | None = None
        self._signal = Signals.SIGURG
        self._searched: set[tuple[str, int]] = set()
        self._places: list[tuple[Found, int]] = []
        self._knocks: Knocks | None = None
        self._unwanted: Counter[int] = Counter()
        self._dropped: list[int] = []
        self._lately: list[float] = []
        self._released = asyncio.Event()
        self._turn: asyncio.Task[None] | None = None
        self._leaving = False
        self._enough = False
        self._passing: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._over = False

    async def arm(self, loaded: Callable[[int], None]) -> AttachCost:
        """Load symbols, attach, and knock in every thread.

        Args:
            loaded: called before the attach with the number of files whose symbols are loaded.

        Raises:
            Nowhere: no file of the process has such a function.
            TargetUnsuitable: it handles all signals that would do nothing.
            LivedbgError: it can't be attached to, or gdb fails; nothing is left behind.
            OSError: the process is gone, or the kernel or our rights don't allow it.
        """
        number = harmless_signal(self._pid)
        if number is None:
            raise TargetUnsuitable(
                f"Process {self._pid} has handlers for SIGURG and SIGWINCH: none is left to stop a thread by.",
                "catch without --stop",
                "no-signal",
            )
        self._signal = number
        try:
            await self._find()
            await asyncio.to_thread(self._python.arguments)  # so that it knows the interpreter before a thread stands
            if not self._places:
                raise Nowhere(", ".join(self._functions))
            self._attachment.lost = self._end
            loaded(await self._looker.load([found.file for found, _ in self._places], _PRELOAD_S))
            await self._attachment.stand_at(number, self._knocked, _LOOK_S + self._hold_s + 1.0)
            cost = await self._attachment.attach(_ATTACH_S)
            self._knock()
        except BaseException:
            await self.disarm()
            raise
        self._watch = asyncio.create_task(self._watch_target(), name="stopper")
        return cost

    def go_on(self) -> None:
        """Let the thread that stands go on."""
        self._released.set()

    def enough(self) -> None:
        """Look at no further thread."""
        self._enough = True

    async def disarm(self) -> None:
        """Let go of the process; what stands goes on."""
        self._over = True
        if self._knocks is not None:
            self._knocks.close()
        self.go_on()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
        for task in (self._turn, *self._passing):
            if task is not None and task is not asyncio.current_task():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([task], timeout=_AT_S)
        await self._attachment.detach()
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    # where a thread shall stand

    async def _find(self) -> bool:
        """Whether there are places that were not known."""
        found, _ = await asyncio.to_thread(find_places, self._pid, self._functions, self._searched)
        if not self._places:
            with contextlib.suppress(NoTracefs):
                self._trace = TraceEvents()
        before = len(self._places)
        for one in found:
            if self._trace is not None:
                event = self._trace.define(one.place.path, one.place.offset, ARGUMENTS[self._moment])
                self._places.append((one, event.number))
            elif len(self._places) < _REGISTERS:
                self._places.append((one, 0))
            else:
                self.left_out.append(one.file)
        self.files = tuple(dict.fromkeys(one.file for one, _ in self._places))
        return len(self._places) > before

    def _sources(self) -> list[Source]:
        if self._trace is None:
            return [Source(BREAKPOINT, address=found.address) for found, _ in self._places]
        wanted = " && ".join(f"type_info != {address:#x}" for address in self._dropped)
        return [Source(TRACEPOINT, number, wanted=wanted) for _, number in self._places]

    def _knock(self) -> None:
        """Knock in every thread at all places; instead of those knocks that there were."""
        before = self._knocks
        knocks = Knocks(self._sources(), self._signal)
        try:
            knocks.add_all(thread_ids(self._pid))
        except NoPerf:
            knocks.close()
            if self._trace is None:
                raise
            self._trace.close()  # it may define trace events and not count them: then by debug registers
            self._trace = None
            self._places = self._places[:_REGISTERS]
            self._knock()
            return
        except BaseException:
            knocks.close()
            raise
        self._knocks = knocks
        if before is not None:
            before.close()

    async def _watch_target(self) -> None:
        look_s = time.monotonic() + _FILES_S
        while not self._over:
            await asyncio.sleep(_THREADS_S)
            if self._program.replaced:
                self.replaced = True
                self._end(
                    f"Process {self._pid} runs another program now; the places to stop at were in the one before."
                )
                return
            try:
                if self._knocks is not None:
                    self._knocks.add_all(thread_ids(self._pid))
                if time.monotonic() > look_s:
                    look_s = time.monotonic() + _FILES_S
                    if await self._find():
                        self._knock()
            except OSError as error:
                if process_exists(self._pid):  # else it has ended: the attachment says so
                    self.trouble = f"new threads are not stopped: {error.strerror}"

    # a thread that stands

    def _knocked(self, number: str) -> None:
        before = self._turn if self._turn is not None and not self._turn.done() else None
        busy = before is not None and not self._leaving  # a thread that goes on can knock again before that is said
        if busy and not (self._over or self._enough):
            self.seen += 1
            self.passed += 1
        if busy or self._over or self._enough:
            task = asyncio.create_task(self._pass_by(number))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)
            return
        self._leaving = False
        self._turn = asyncio.create_task(self._take_turn(number, before), name="stop")

    async def _pass_by(self, number: str) -> None:
        since_ns = time.monotonic_ns()
        await self._attachment.go_on(number)
        self.brushed.append(time.monotonic_ns() - since_ns)

    async def _take_turn(self, number: str, before: asyncio.Task[None] | None) -> None:
        since_ns = time.monotonic_ns()
        stop: Stop | None = None
        try:
            if before is not None:
                await asyncio.wait([before])
            stop = None if self._enough else await self._stop_of(number)
            if stop is not None:
                self._released.clear()
                room = self._room() if self._hold_s else None
                hold_s = self._hold_s if room is None else min(self._hold_s, room.seconds)
                self._stands(stop, hold_s)
                if hold_s and not self._over:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(hold_s):
                            await self._released.wait()
        except (LivedbgError, OSError):
            pass  # gdb or the target is gone: the attachment says so
        finally:
            self._leaving = self._turn is asyncio.current_task()
            await self._attachment.go_on(number)
            stood_ns = time.monotonic_ns() - since_ns
            if stop is not None:
                self._went_on(stop, stood_ns)
            else:
                self.brushed.append(stood_ns)

    async def _stop_of(self, number: str) -> Stop | None:
        """What somebody wants to know of a thread that stands; None where nobody does."""
        wall_ns = time.time_ns()
        room = self._room()
        if room is not None and room.seconds < LEAST_S:
            self.seen += 1
            self.passed += 1
            self.trouble = f"the last one was not looked at. {room.sentence}"
            return None
        at = await self._looker.at(number, _AT_S)
        found = None if at is None else self._place_of(at)
        if at is None or found is None:
            return None  # a signal of somebody else's, that does nothing
        self.seen += 1
        call = self._call(at, found)
        matches = self._wanted(call)
        if not (matches and self._message in call.message):
            self._passed_by(call, learn=not matches)
            return None
        try:
            stack = await self._looker.look(at, _LOOK_S if room is None else min(_LOOK_S, room.seconds))
        except LivedbgError as error:
            self.trouble = f"no frames of the last one: {error.message}"
            return Stop(at.tid, call, (), whole=False, wall_ns=wall_ns)
        self.trouble = ""
        frames, whole = stack.frames, stack.whole
        python = self._python.standing(_sample(self._pid, at.tid))
        if python is not None and python.frames:
            frames, whole = merge_frames(python.frames, frames, python.runs), whole and python.whole
        return Stop(at.tid, call, with_source(self._pid, frames), whole, wall_ns)

    def _place_of(self, at: At) -> Found | None:
        return next((found for found, _ in self._places if 0 <= at.counter - found.address < _NEAR), None)

    def _call(self, at: At, found: Found) -> Call:
        raw, fields = read_call(self._pid, at.arguments, self._moment)
        return describe(_sample(self._pid, at.tid, raw), fields, self._moment, found.name, self._types)

    def _passed_by(self, call: Call, *, learn: bool) -> None:
        """A call that nobody wants; `learn`: nor any other of its type."""
        now_s = time.monotonic()
        self._lately = [when for when in self._lately if when > now_s - 1.0] + [now_s]
        if len(self._lately) > _UNWANTED_MOST:
            self._end(f"More than {_UNWANTED_MOST} calls a second that nobody wants would each stop a thread.")
            return
        if not learn or self._trace is None or not call.type_info or len(self._dropped) >= _LEARNT_MOST:
            return
        self._unwanted[call.type_info] += 1
        if self._unwanted[call.type_info] == _LEARN:
            self._dropped.append(call.type_info)
            self._knock()

    def _end(self, why: str) -> None:
        if not self._over:
            self._over = True
            if self._knocks is not None:
                self._knocks.close()
            self.go_on()
            self._lost(why)


def _sample(pid: int, tid: int, raw: bytes = b"") -> Sample:
    """A call as probe events give it, without what a thread that stands has itself."""
    return Sample(0, pid, tid, time.monotonic_ns(), raw, (), b"")
