"""Stop the thread that throws, read its frames, their variables and the source; then resume it.

The thread stops by a stop signal (livedbg.probes.stop_signal) that gdb, attached without stopping anything else, sees;
there is no breakpoint. Symbols are loaded before the attach.

Invariants:
    stopper.J1. One thread at a time is inspected; others that throw meanwhile go on and are counted as passed.
    stopper.J2. A thread is stopped for the inspection and the time that its user requested, never longer, even if gdb
        is slow.
    stopper.J3. No thread is stopped for longer than a watchdog of the target's runtime allows
        (livedbg.touch.stop_budget).
    stopper.J4. When the process executes another program it is detached: all places were of the one before.
    stopper.J5. The kernel filters unwanted types once they are known; if it can't, and they are frequent, the stopper
        ends by itself instead of slowing down the target.
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

from livedbg.adapters.exceptions.breakpoint_tracer import DEBUG_REGISTERS, read_call
from livedbg.adapters.exceptions.calls import ARGUMENTS, Call, CallReader
from livedbg.adapters.exceptions.native_calls import PythonCallers
from livedbg.linux.procfs import process_exists, thread_ids
from livedbg.linux.programs import Program
from livedbg.model import Frame
from livedbg.model.catchpoints import Moment
from livedbg.model.errors import LivedbgError, TargetUnsuitable
from livedbg.probes.functions import FunctionNotFound
from livedbg.probes.perf import BREAKPOINT, TRACEPOINT, NoPerf, Source
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found, find_places
from livedbg.probes.stop_signal import StopSignals, harmless_signal
from livedbg.probes.tracefs import NoTracefs, TraceEvents
from livedbg.state.stacks import merge_frames
from livedbg.touch.attach import AttachCost
from livedbg.touch.inspector import StoppedAt
from livedbg.touch.source import with_source
from livedbg.touch.stop_budget import LEAST_S, StopBudget
from livedbg.touch.warm import WarmGdb

_NEAR: Final = 16  # bytes of a function's beginning in which its thread stops
_LEARNT_MOST: Final = 24  # types in one filter (it has a page: 4096 bytes)


class StopPlaces:
    """The places in one process.

    Args:
        arguments: data that the kernel reads at a call, to filter by.

    Attributes:
        files: with such functions, as the process names them.
        left_out: files with a function for which no debug register was left.
    """

    def __init__(self, pid: int, functions: Sequence[str], arguments: Sequence[str]) -> None:
        self.files: tuple[str, ...] = ()
        self.left_out: list[str] = []
        self._pid = pid
        self._functions = tuple(functions)
        self._arguments = tuple(arguments)
        self._trace: TraceEvents | None = None
        self._searched: set[tuple[str, int]] = set()
        self._places: list[tuple[Found, int]] = []  # with the number of the event that is defined there
        self._signals: StopSignals | None = None
        self._dropped: list[int] = []

    async def find(self) -> bool:
        """Search new files for the functions; return whether there are new places; OSError if the process is gone."""
        found, _ = await asyncio.to_thread(find_places, self._pid, self._functions, self._searched)
        if not self._places:
            with contextlib.suppress(NoTracefs):
                self._trace = TraceEvents()
        before = len(self._places)
        for one in found:
            if self._trace is not None:
                event = self._trace.define(one.place.path, one.place.offset, self._arguments)
                self._places.append((one, event.number))
            elif len(self._places) < DEBUG_REGISTERS:
                self._places.append((one, 0))
            else:
                self.left_out.append(one.file)
        self.files = tuple(dict.fromkeys(one.file for one, _ in self._places))
        return len(self._places) > before

    def at(self, counter: int) -> Found | None:
        """Return the function that begins at a program counter."""
        return next((found for found, _ in self._places if 0 <= counter - found.address < _NEAR), None)

    def arm(self, number: Signals) -> None:
        """Arm stop signals in every thread at all places, replacing former ones; OSError if not allowed (NoPerf)."""
        before = self._signals
        signals = StopSignals(self._sources(), number)
        try:
            signals.add_all(thread_ids(self._pid))
        except NoPerf:
            signals.close()
            if self._trace is None:
                raise
            self._trace.close()  # it may define trace events and not count them: then by debug registers
            self._trace = None
            self._places = self._places[:DEBUG_REGISTERS]
            self.arm(number)
            return
        except BaseException:
            signals.close()
            raise
        self._signals = signals
        if before is not None:
            before.close()

    def add_threads(self) -> None:
        """Arm new threads; raise OSError as `arm` does."""
        if self._signals is not None:
            self._signals.add_all(thread_ids(self._pid))

    def drop(self, type_info: int) -> bool:
        """Let the kernel filter a type from the next `arm` on; return whether it can."""
        if self._trace is None or not type_info or len(self._dropped) >= _LEARNT_MOST:
            return False
        self._dropped.append(type_info)
        return True

    def disarm(self) -> None:
        """Disarm: no thread stops any more."""
        if self._signals is not None:
            self._signals.close()

    def close(self) -> None:
        """Disarm, and remove the definitions."""
        self.disarm()
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def _sources(self) -> list[Source]:
        if self._trace is None:
            return [Source(BREAKPOINT, address=found.address) for found, _ in self._places]
        wanted = " && ".join(f"type_info != {address:#x}" for address in self._dropped)
        return [Source(TRACEPOINT, number, wanted=wanted) for _, number in self._places]


_PRELOAD_S: Final = 30.0
_ATTACH_S: Final = 30.0
_INSPECT_S: Final = 5.0
_AT_S: Final = 2.0
_THREADS_S: Final = 0.02  # between two checks for threads that were born
_FILES_S: Final = 1.0
_LEARN: Final = 3  # throws of a type that nobody wants, until a kernel filter drops it
_UNWANTED_MOST: Final = 100  # in `_UNWANTED_S`
_UNWANTED_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Stop:
    """A present or former stop of a thread, its stack, complete or not, and its start."""

    tid: int
    call: Call
    frames: tuple[Frame, ...]
    whole: bool
    wall_ns: int


class Stopper:
    """Stops threads of one process at some functions.

    Attributes:
        trouble: what recently failed; "" for nothing.
        replaced: it has ended because the process runs another program.
        brushed: duration of each stop without an inspection, in nanoseconds; the reader empties it.

    Args:
        gdb: the gdb to attach; it is detached from the process at the end, and stays.
        moment: meaning of the functions.
        wanted: returns whether a call matches, by its type.
        message: only calls with this text in their message.
        stopped: called when a thread is stopped and inspected, with the maximum hold time.
        resumed: called when it is resumed, with the duration of the stop in nanoseconds.
        lost: called with a sentence when it has ended by itself.
        hold_s: how long a thread is held after the inspection, unless `resume` is called.
        budget: returns the current stop budget; None for no limit.
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
        stopped: Callable[[Stop, float], None],
        resumed: Callable[[Stop, int], None],
        lost: Callable[[str], None],
        hold_s: float = 0.0,
        budget: Callable[[], StopBudget | None] = lambda: None,
    ) -> None:
        self.seen = 0
        self.passed = 0
        self.trouble = ""
        self.replaced = False
        self.brushed: list[int] = []
        self._pid = pid
        self._calls = CallReader(moment)
        self._functions = tuple(functions)
        self._wanted = wanted
        self._message = message
        self._stopped = stopped
        self._resumed = resumed
        self._lost = lost
        self._hold_s = hold_s
        self._budget = budget
        self._attachment, self._inspector = gdb
        self._program = Program(pid)
        self._python = PythonCallers(pid)
        self._signal = Signals.SIGURG
        self._places = StopPlaces(pid, self._functions, ARGUMENTS[moment])
        self._unwanted: Counter[int] = Counter()
        self._lately: list[float] = []
        self._released = asyncio.Event()
        self._turn: asyncio.Task[None] | None = None
        self._leaving = False
        self._enough = False
        self._passing: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._over = False

    @property
    def files(self) -> tuple[str, ...]:
        return self._places.files

    @property
    def left_out(self) -> list[str]:
        return self._places.left_out

    async def arm(self, loaded: Callable[[int], None]) -> AttachCost:
        """Load symbols, attach, and arm stop signals in every thread.

        Args:
            loaded: called before the attach with the number of files whose symbols are loaded.

        Raises:
            FunctionNotFound: no file of the process has such a function.
            TargetUnsuitable: it handles all harmless signals.
            LivedbgError: the attach or gdb fails; nothing is left behind.
            OSError: the process is gone, or the kernel or our rights don't allow it.
        """
        number = harmless_signal(self._pid)
        if number is None:
            raise TargetUnsuitable(
                f"Process {self._pid} has handlers for SIGURG and SIGWINCH: no signal is left to stop a thread with.",
                "catch without --stop",
                "no-signal",
            )
        self._signal = number
        try:
            await self._places.find()
            await asyncio.to_thread(self._python.arguments)  # so that it knows the interpreter before a thread stops
            if not self._places.files:
                raise FunctionNotFound(", ".join(self._functions))
            self._attachment.lost = self._end
            loaded(await self._inspector.load(self._places.files, _PRELOAD_S))
            await self._attachment.stop_at_signal(number, self._take, _INSPECT_S + self._hold_s + 1.0)
            cost = await self._attachment.attach(_ATTACH_S)
            self._places.arm(number)
        except BaseException:
            await self.disarm()
            raise
        self._watch = asyncio.create_task(self._watch_target(), name="stopper")
        return cost

    def resume(self) -> None:
        """Resume the stopped thread."""
        self._released.set()

    def enough(self) -> None:
        """Inspect no further thread."""
        self._enough = True

    async def disarm(self) -> None:
        """Detach from the process; stopped threads are resumed."""
        self._over = True
        self._places.disarm()
        self.resume()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
        for task in (self._turn, *self._passing):
            if task is not None and task is not asyncio.current_task():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([task], timeout=_AT_S)
        await self._attachment.detach()
        self._places.close()

    async def _watch_target(self) -> None:
        search_s = time.monotonic() + _FILES_S
        while not self._over:
            await asyncio.sleep(_THREADS_S)
            if self._program.replaced:
                self.replaced = True
                self._end(
                    f"Process {self._pid} has executed another program; the functions to stop at were in the old one."
                )
                return
            try:
                self._places.add_threads()
                if time.monotonic() > search_s:
                    search_s = time.monotonic() + _FILES_S
                    if await self._places.find():
                        self._places.arm(self._signal)
            except OSError as error:
                if process_exists(self._pid):  # else it has ended: the attachment reports that
                    self.trouble = f"new threads are not stopped: {error.strerror}"

    # a thread that is stopped

    def _take(self, number: str) -> None:
        before = self._turn if self._turn is not None and not self._turn.done() else None
        busy = before is not None and not self._leaving  # a thread that is resumed can stop again before that is known
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
        await self._attachment.resume(number)
        self.brushed.append(time.monotonic_ns() - since_ns)

    async def _take_turn(self, number: str, before: asyncio.Task[None] | None) -> None:
        since_ns = time.monotonic_ns()
        stop: Stop | None = None
        try:
            if before is not None:
                await asyncio.wait([before])
            stop = None if self._enough else await self._stop_of(number)
            if stop is not None:
                await self._hold(stop)
        except (LivedbgError, OSError):
            pass  # gdb or the target is gone: the attachment reports that
        finally:
            self._leaving = self._turn is asyncio.current_task()
            await self._attachment.resume(number)
            stopped_ns = time.monotonic_ns() - since_ns
            if stop is not None:
                self._resumed(stop, stopped_ns)
            else:
                self.brushed.append(stopped_ns)

    async def _hold(self, stop: Stop) -> None:
        """Report a stop, and hold the thread for as long as its user wants and its watchdogs allow."""
        self._released.clear()
        budget = self._budget() if self._hold_s else None
        hold_s = self._hold_s if budget is None else min(self._hold_s, budget.seconds)
        self._stopped(stop, hold_s)
        if hold_s and not self._over:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(hold_s):
                    await self._released.wait()

    async def _stop_of(self, number: str) -> Stop | None:
        """Inspect a stopped thread; None if it doesn't match."""
        wall_ns = time.time_ns()
        budget = self._budget()
        if budget is not None and budget.seconds < LEAST_S:
            self.seen += 1
            self.passed += 1
            self.trouble = f"the last one was not read. {budget.sentence}"
            return None
        at = await self._inspector.at(number, _AT_S)
        found = None if at is None else self._places.at(at.counter)
        if at is None or found is None:
            return None  # a signal of somebody else's, that does nothing
        self.seen += 1
        call = self._call(at, found.name)
        matches = self._wanted(call)
        if not (matches and self._message in call.message):
            self._count_mismatch(call, learn=not matches)
            return None
        try:
            stack = await self._inspector.frames(at, _INSPECT_S if budget is None else min(_INSPECT_S, budget.seconds))
        except LivedbgError as error:
            self.trouble = f"no frames of the last one: {error.message}"
            return Stop(at.tid, call, (), whole=False, wall_ns=wall_ns)
        self.trouble = ""
        frames, whole = stack.frames, stack.whole
        python = self._python.stopped(_sample(self._pid, at.tid))
        if python is not None and python.frames:
            frames, whole = merge_frames(python.frames, frames, python.runs), whole and python.whole
        return Stop(at.tid, call, with_source(self._pid, frames), whole, wall_ns)

    def _call(self, at: StoppedAt, function: str) -> Call:
        raw, fields = read_call(self._pid, at.arguments, self._calls.moment)
        return self._calls.call(_sample(self._pid, at.tid, raw), fields, function)

    def _count_mismatch(self, call: Call, *, learn: bool) -> None:
        """Count a call that doesn't match; `learn` if no call of its type can match."""
        now_s = time.monotonic()
        self._lately = [when for when in self._lately if when > now_s - _UNWANTED_S] + [now_s]
        if len(self._lately) > _UNWANTED_MOST:
            self._end(f"More than {_UNWANTED_MOST} calls a second that do not match would each stop a thread.")
            return
        if not learn:
            return
        self._unwanted[call.type_info] += 1
        if self._unwanted[call.type_info] == _LEARN and self._places.drop(call.type_info):
            self._places.arm(self._signal)

    def _end(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._places.disarm()
            self.resume()
            self._lost(why)


def _sample(pid: int, tid: int, raw: bytes = b"") -> Sample:
    """Return a sample as of probe events, without the parts that a stopped thread has itself."""
    return Sample(0, pid, tid, time.monotonic_ns(), raw, (), b"")
