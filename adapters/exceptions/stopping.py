"""The adapter for catchpoints at which a thread is stopped, and their hits."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from shlex import quote
from typing import ClassVar, Final

from msgspec import structs

from livedbg.adapters.exceptions.calls import Call
from livedbg.adapters.exceptions.catch_request import RUNTIME, catchpoint_of, matches, refused
from livedbg.adapters.exceptions.stopper import Stop, Stopper
from livedbg.model import ExceptionHit, Intrusion, ids
from livedbg.model.catchpoints import HOLD_MOST_S, Catchpoint, CatchpointState, Moment, Pattern
from livedbg.model.errors import LivedbgError, TargetUnsuitable, UsageError
from livedbg.model.events import CatchpointSeen, ExceptionSeen, Touched
from livedbg.model.intents import Catch, Intent, Resume, Uncatch
from livedbg.probes.functions import FunctionNotFound
from livedbg.session.adapter import Context, Level, Request
from livedbg.session.polling import PolledAdapter
from livedbg.session.tools import find_gdb
from livedbg.text.sanitize import clean_line
from livedbg.touch.config import refuse_touch
from livedbg.touch.stop_budget import LEAST_S, StopBudget, stop_budget
from livedbg.touch.warm import WarmGdbs

_OTHERS_S: Final = 5.0  # how long it is waited for what the logs say of watchdogs
_BRUSHED_S: Final = 5.0  # between two entries of the ledger for stops that nobody wanted
_POSSIBLE: Final = (Moment.THROW, Moment.RETHROW, Moment.CATCH, Moment.CALL)


class StoppingCatchpoint:
    """One catchpoint.

    Args:
        catchpoint: its displayed state.
        patterns: of matching calls.
        gdbs: those to attach.
    """

    def __init__(
        self,
        catchpoint: Catchpoint,
        patterns: Sequence[Pattern],
        intent: Catch,
        context: Context,
        gdbs: WarmGdbs,
    ) -> None:
        self.catchpoint = catchpoint
        self._patterns = patterns
        self._most = intent.count
        self._context = context
        self._gdbs = gdbs
        self._pid = int(ids.parse(catchpoint.process).parts[1])
        self._hold_s = min(intent.hold_s, HOLD_MOST_S)
        self._hits: dict[object, ExceptionHit] = {}
        self._disarming = asyncio.Lock()
        self._ending: asyncio.Task[None] | None = None
        calls = catchpoint.moment is Moment.CALL
        self._functions = [p.text for p in patterns] if calls else [RUNTIME.get(catchpoint.moment, "")]
        self._stopper: Stopper | None = None
        self._reported_s = 0.0

    @property
    def process(self) -> str:
        return self.catchpoint.process

    @property
    def at_work(self) -> bool:
        """Return whether gdb is attached for it, or will be."""
        return self._stopper is not None

    async def arm(self, other: Catchpoint | None) -> None:
        """Attach, unless the catchpoint `other` already does; raise LivedbgError on failure, which is shown, too."""
        self._put(note="gdb loads symbols; it is not attached yet")
        try:
            if other is not None:
                raise UsageError(
                    f"Threads of process {self._pid} already stop for {other.pattern}.",
                    "remove that catchpoint",
                    "busy",
                )
            stopper = self._stopper = await self._made()
            cost = await stopper.arm(self._loaded)
        except (OSError, FunctionNotFound, LivedbgError) as error:
            why = error if isinstance(error, LivedbgError) else refused(error, self._pid, self._functions)
            self._stopper = None
            self._put(state=CatchpointState.FAILED, note=why.message, remedy=why.remedy)
            raise why from None
        self._touched("attach", "gdb, without stopping the whole process", cost.stopped_ns, cost.threads)
        with contextlib.suppress(TimeoutError):  # a watchdog is known by then, which limits the stops
            await asyncio.wait_for(self._context.others_settled(), _OTHERS_S)
        self._put(state=CatchpointState.ARMED, note=self._note(stopper))

    async def _made(self) -> Stopper:
        """Return a stopper.

        Raises:
            TouchRefused: intrusive actions are forbidden.
            TargetUnsuitable: there is no gdb.
            UsageError: it can't be stopped at this moment.
            GdbCommandError, GdbGone, GdbTimeout: gdb can't be used.
        """
        refuse_touch(self._context.request, "--stop stops a thread")
        if self.catchpoint.moment not in _POSSIBLE:
            raise UsageError(
                f"No thread can be stopped at a {self.catchpoint.moment}.", "catch it without --stop", "usage"
            )
        named = self._context.request.gdb
        gdb = find_gdb(named)
        if gdb is None:
            raise TargetUnsuitable(
                f"--gdb names no program that can be run: {named}."
                if named
                else "--stop needs gdb; none is installed.",
                "name another one: --gdb PATH" if named else "install gdb, or name one: --gdb PATH",
                "gdb-missing",
            )
        return Stopper(
            await self._gdbs.of(gdb, self._pid),
            self._pid,
            self.catchpoint.moment,
            self._functions,
            wanted=self._wants,
            message=self.catchpoint.message,
            stopped=self._stopped,
            resumed=self._resumed,
            lost=self._lost,
            hold_s=self._hold_s,
            budget=self._budget,
        )

    def _budget(self) -> StopBudget | None:
        return stop_budget(self._context.snapshot(), self.process, time.time_ns())

    async def disarm(self) -> None:
        async with self._disarming:
            stopper, self._stopper = self._stopper, None
            if stopper is None:
                return
            await stopper.disarm()
            self._report_brushed(stopper)
            self._put(seen=stopper.seen, lost=stopper.passed, stopped_thread=None, until_wall_ns=None, until_why="")
            if self.catchpoint.state is not CatchpointState.FAILED:
                self._put(state=CatchpointState.DONE)

    async def resume(self) -> None:
        if self._stopper is not None:
            self._stopper.resume()

    def report(self) -> None:
        """Publish changes."""
        if self._stopper is not None and self.catchpoint.state is CatchpointState.ARMED:
            if time.monotonic() > self._reported_s + _BRUSHED_S:
                self._report_brushed(self._stopper)
            self._put(seen=self._stopper.seen, lost=self._stopper.passed, note=self._note(self._stopper))

    def _report_brushed(self, stopper: Stopper) -> None:
        """Add the stops without an inspection to the ledger."""
        self._reported_s = time.monotonic()
        brushed, stopper.brushed = stopper.brushed, []
        if brushed:
            why = f"{self.catchpoint.moment} that did not match, or while another thread was stopped"
            self._touched("pass", why, sum(brushed), len(brushed))

    def _loaded(self, files: int) -> None:
        self._put(note=f"symbols of {files} files are loaded; attaching")

    def _note(self, stopper: Stopper) -> str:
        files = ", ".join(file.rpartition("/")[2] for file in stopper.files)
        left_out = f"; not in {', '.join(stopper.left_out[:3])}: no debug register is left" if stopper.left_out else ""
        trouble = f"; {stopper.trouble}" if stopper.trouble else ""
        return clean_line(f"in {files}; one thread is stopped at a time{left_out}{trouble}{self._budget_note()}")

    def _budget_note(self) -> str:
        """Return how the stop budget limits the requested time."""
        budget = self._budget()
        if budget is None or not (budget.seconds < LEAST_S or budget.seconds < self._hold_s):
            return ""
        most = (
            f"a thread is stopped for {budget.seconds:.0f} s at most"
            if budget.seconds >= LEAST_S
            else "no thread is stopped now"
        )
        return f"; {most}. {budget.sentence}"

    def _wants(self, call: Call) -> bool:
        return matches(self.catchpoint.moment, self._patterns, call)

    def _stopped(self, stop: Stop, hold_s: float) -> None:
        host = self._context.request.host
        thread = ids.thread(host, self._pid, stop.tid)
        kind = (stop.call.names[0], stop.call.message, tuple(frame.address for frame in stop.frames))
        before = self._hits.get(kind)
        hit = ExceptionHit(
            id=before.id if before else f"exception:{host}/{self.catchpoint.id}/{len(self._hits) + 1}",
            type=stop.call.names[0],
            message=stop.call.message,
            thread=thread,
            process=self.catchpoint.process,
            stack=stop.frames,
            at_wall_ns=stop.wall_ns,
            first_wall_ns=before.first_wall_ns if before else stop.wall_ns,
            catchpoint=self.catchpoint.id,
            count=before.count + 1 if before else 1,
            paused_ms=before.paused_ms if before else 0.0,
            partial=not stop.whole,
        )
        self._hits[kind] = hit
        self._emit_hit(hit)
        until = time.time_ns() + int(hold_s * 1e9) if hold_s else None
        budget = self._budget() if hold_s < self._hold_s else None
        why = budget.sentence if budget is not None else ""
        stopped = thread if until else None
        self._put(hits=self.catchpoint.hits + 1, stopped_thread=stopped, until_wall_ns=until, until_why=why)
        if self._most and self.catchpoint.hits >= self._most and self._stopper is not None:
            self._stopper.enough()

    def _resumed(self, stop: Stop, stopped_ns: int) -> None:
        kind = (stop.call.names[0], stop.call.message, tuple(frame.address for frame in stop.frames))
        hit = structs.replace(self._hits[kind], paused_ms=self._hits[kind].paused_ms + stopped_ns / 1e6)
        self._hits[kind] = hit
        self._emit_hit(hit)
        self._touched("stop", f"{self.catchpoint.moment} of {stop.call.names[0]} in thread {stop.tid}", stopped_ns, 1)
        self._put(stopped_thread=None, until_wall_ns=None, until_why="")
        if self._most and self.catchpoint.hits >= self._most and self._ending is None:
            self._ending = asyncio.create_task(self.disarm())

    def _lost(self, why: str) -> None:
        replaced = self._stopper is not None and self._stopper.replaced
        again = f"catch it in the new program: livedbg catch {self._pid} {quote(self.catchpoint.pattern)} --stop"
        remedy = again if replaced else "livedbg catch, without --stop"
        self._put(state=CatchpointState.FAILED, note=why, remedy=remedy)
        self._ending = asyncio.create_task(self.disarm())

    def _emit_hit(self, hit: ExceptionHit) -> None:
        self._context.emit(ExceptionSeen(hit=hit, **self._context.stamp()))

    def _touched(self, what: str, why: str, paused_ns: int, stops: int) -> None:
        touch = Intrusion(
            target=self.catchpoint.process,
            what=what,
            why=clean_line(why),
            paused_ns=paused_ns,
            stops=stops,
            at_wall_ns=time.time_ns(),
        )
        self._context.emit(Touched(intrusion=touch, **self._context.stamp()))

    def _put(self, **changes: object) -> None:
        fresh = structs.replace(self.catchpoint, **changes)
        if fresh != self.catchpoint:
            self.catchpoint = fresh
            self._context.emit(CatchpointSeen(catchpoint=fresh, **self._context.stamp()))


_REPORT_S: Final = 0.25  # between two reports of a catchpoint's counts
_IDLE_S: Final = 1.0


class StoppingAdapter(PolledAdapter):
    """Stops threads when they throw, one at a time."""

    name: ClassVar[str] = "stopping"
    sees: ClassVar[str] = "frames, variables and source of a throwing thread"
    cost: ClassVar[str] = (
        "gdb attached in non-stop mode; the throwing thread is stopped for some hundredths of a second"
    )
    level: ClassVar[Level] = Level.TOUCH
    handles: ClassVar[tuple[type[Intent], ...]] = (Catch, Resume, Uncatch)

    def __init__(self) -> None:
        super().__init__()
        self._points: dict[str, StoppingCatchpoint] = {}
        self._gdbs = WarmGdbs()
        self._count = 0

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes)

    async def run(self, context: Context) -> None:
        try:
            await super().run(context)
        finally:
            await asyncio.gather(*(point.disarm() for point in self._points.values()))
            await self._gdbs.close()

    async def begin(self, context: Context) -> bool:
        """Settle at once: nobody should wait for catchpoints that may never be requested."""
        context.settled()
        return not context.request.once

    async def look(self, context: Context) -> float:
        for point in self._points.values():
            point.report()
        return _REPORT_S if self._points else _IDLE_S

    async def handle(self, intent: Intent, context: Context) -> None:
        """Set or remove a catchpoint, or resume its thread; ignores catchpoints without a stop.

        Raises:
            TouchRefused: intrusive actions are forbidden.
            UsageError: invalid pattern, or no stop is possible at it.
            LivedbgError: the process can't be attached to.
        """
        if isinstance(intent, Uncatch | Resume):
            point = self._points.get(intent.catchpoint)
            if point is not None:
                await (point.disarm() if isinstance(intent, Uncatch) else point.resume())
            return
        assert isinstance(intent, Catch)
        if not intent.stop:
            return
        self._count += 1
        catchpoint, patterns = catchpoint_of(intent, f"S{self._count}", "gdb")
        point = StoppingCatchpoint(catchpoint, patterns, intent, context, self._gdbs)
        others = [other for other in self._points.values() if other.at_work and other.process == point.process]
        self._points[catchpoint.id] = point
        await point.arm(others[0].catchpoint if others else None)
