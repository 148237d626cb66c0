"""The adapter: traces launches on request, as closely as the budget allows, and reports how closely.

A process's launch count is emitted as steps with the times of the calls, however late these are read.

Invariants:
    steps.B1. Calls within half a second are one step (`BEAT_NS`), so the number of steps depends on the process, not on
        how often it was read; while launches are only counted, a step is as late as the reading.
    steps.B2. The last step of calls that have stopped comes once its half second is over, or at `end`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple

from livedbg.adapters.launches.tracer import SHARE, Detail, LaunchTracer, Traced
from livedbg.adapters.launches.trails import Trails
from livedbg.linux.procfs import process_exists
from livedbg.model import Intrusion, SourceHealth, ids
from livedbg.model.events import CounterSeen, LaunchesSeen, Touched
from livedbg.model.intents import Intent, WatchLaunches
from livedbg.model.launches import BEAT_NS, CALLS, TRACED, TRACED_TO, LaunchTrail
from livedbg.probes.launch_calls import LaunchCall, all_functions
from livedbg.probes.tracefs import probe_refused
from livedbg.session.adapter import Context, Level, Request
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Statuses
from livedbg.session.systems import declared
from livedbg.text.sanitize import clean_line
from livedbg.touch.config import refuse_touch


class Step(NamedTuple):
    """A value of the count, and when it was reached (CLOCK_MONOTONIC)."""

    value: int
    mono_ns: int


class Steps:
    """Makes steps of traced calls; before `now_ns` (CLOCK_MONOTONIC) no launch is known."""

    def __init__(self, now_ns: int) -> None:
        self._until_ns = now_ns
        self._value = 0
        self._begun_ns = 0
        self._last: Step | None = None
        self._first = True

    @property
    def traced_to_ns(self) -> int:
        """Time up to which the steps are complete."""
        return self._until_ns if self._last is None else self._begun_ns

    def take(self, calls: Sequence[LaunchCall], total: int, until_ns: int) -> Iterator[Step]:
        """Add the calls traced since the last time; yield the steps that are over.

        Args:
            calls: sampled ones, in the order of time.
            total: launches counted in all; those beyond the sampled calls came by `until_ns`.
            until_ns: all calls up to then are included.
        """
        for call in calls:
            if not call.is_lookup and self._value < total:
                yield from self._add(1, call.mono_ns)
        if self._value < total:
            yield from self._add(total - self._value, until_ns, after_ns=self._until_ns)
        self._until_ns = until_ns
        if until_ns >= self._begun_ns + BEAT_NS:
            yield from self.end()

    def end(self) -> Iterator[Step]:
        """Yield the step that is not over yet."""
        if self._last is not None:
            yield self._last
            self._last = None

    def _add(self, count: int, mono_ns: int, after_ns: int | None = None) -> Iterator[Step]:
        if self._first:
            self._first = False
            yield Step(0, mono_ns if after_ns is None else after_ns)
        if mono_ns >= self._begun_ns + BEAT_NS:
            yield from self.end()
            self._begun_ns = mono_ns
        self._value += count
        self._last = Step(self._value, mono_ns)


_CHECK_S: Final = 0.5


class LaunchesAdapter(PolledAdapter):
    """Traces a process's launches by kernel probes on the functions that systems declare."""

    name: ClassVar[str] = "launches"
    sees: ClassVar[str] = "kernel launches: thread, kernel, grid, block, stream, rate; on request"
    cost: ClassVar[str] = (
        f"a trap at each launch (some microseconds); at most {SHARE:.0%} of the launching threads' time"
    )
    level: ClassVar[Level] = Level.TRACE
    handles: ClassVar[tuple[type[Intent], ...]] = (WatchLaunches,)

    awaited = False

    def __init__(self) -> None:
        super().__init__()
        self._watched: dict[str, _Watched] = {}

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Return whether there is a process, and the session is not a single sample."""
        return bool(request.processes) and not request.once

    async def run(self, context: Context) -> None:
        """Wait for the end; tracers run by themselves."""
        try:
            await super().run(context)
        finally:
            for watched in list(self._watched.values()):
                await self._end(watched)

    async def look(self, context: Context) -> float:
        """Remove the probes of processes that have ended."""
        for watched in list(self._watched.values()):
            if not process_exists(watched.pid):
                await self._end(watched)
        return _CHECK_S

    async def handle(self, intent: Intent, context: Context) -> None:
        """Start or stop tracing; raise TouchRefused if it is forbidden, TargetError if it fails."""
        assert isinstance(intent, WatchLaunches)
        known = self._watched.get(intent.process)
        if not intent.on:
            if known is not None:
                await self._end(known)
                known.report_end()
            return
        if known is None:
            refuse_touch(context.request, "Tracing launches sets probes")
            watched = _Watched(intent.process, context, intent.share or SHARE)
            await watched.begin()
            self._watched[intent.process] = watched

    async def _end(self, watched: _Watched) -> None:
        self._watched.pop(watched.process, None)
        await watched.end()


class _Watched:
    def __init__(self, process: str, context: Context, share: float) -> None:
        self.process = process
        self.pid = int(ids.parse(process).parts[1])
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._trails = Trails(context.request.host, self.pid, lambda mono_ns: mono_ns + self._offset_ns)
        self._steps = Steps(time.monotonic_ns())
        functions = all_functions(own for _, own in declared(lambda system: system.launch_functions))
        self._tracer = LaunchTracer(self.pid, share, functions, self._take)
        self._taken_s = time.monotonic()
        self._statuses = Statuses("launches")
        self._reported: tuple[object, ...] = ()

    async def begin(self) -> None:
        """Set the probes; raise TargetError on failure."""
        try:
            await asyncio.to_thread(self._tracer.start)
        except OSError as error:
            raise probe_refused(error, self.pid) from None
        why = "launches: traces, nothing is stopped"
        touch = Intrusion(target=self.process, what="probe", why=why, at_wall_ns=time.time_ns())
        self._context.emit(Touched(intrusion=touch, **self._context.stamp()))

    async def end(self) -> None:
        await asyncio.to_thread(self._tracer.stop)
        await asyncio.sleep(0)  # what it traced last
        self._emit_steps(self._steps.end())
        self._context.emit(CounterSeen(entity=self.process, name=TRACED, value=0.0, **self._context.stamp()))

    def report_end(self) -> None:
        self._report("launches-ended", SourceHealth.ENDED, "Launches are no longer traced.", "")

    def _take(self, traced: Traced) -> None:
        """Handle traced calls, in the tracer's thread."""
        now_s = time.monotonic()
        seen = traced.detail is Detail.EACH
        self._trails.add(traced.calls, now_s - self._taken_s, time.monotonic_ns(), seen=seen)
        self._taken_s = now_s
        trails = tuple(self._trails.changed())
        steps = tuple(self._steps.take(traced.calls, traced.total, traced.until_ns))
        changes = (traced, trails, steps, self._steps.traced_to_ns / 1e9)
        with contextlib.suppress(RuntimeError):  # the session has ended
            self._loop.call_soon_threadsafe(self._emit, *changes)

    def _emit_steps(self, steps: Iterable[Step]) -> None:
        """Emit steps with the times of the launches, so that no delay of ours looks like a pause of the launches."""
        for step in steps:
            stamp = self._context.stamp()
            stamp["mono_ns"], stamp["wall_ns"] = step.mono_ns, step.mono_ns + self._offset_ns
            self._context.emit(CounterSeen(entity=self.process, name=CALLS, value=step.value, **stamp))

    def _emit(
        self, traced: Traced, trails: tuple[LaunchTrail, ...], steps: tuple[Step, ...], traced_to_s: float
    ) -> None:
        self._emit_steps(steps)
        stamp = self._context.stamp()
        if trails:
            self._context.emit(LaunchesSeen(trails=trails, **stamp))
        files = self._tracer.files
        traces = bool(files) and traced.detail is not Detail.OFF and not self._tracer.counts.failure
        self._context.emit(
            CounterSeen(entity=self.process, name=TRACED, value=float(traces), **stamp),
            CounterSeen(entity=self.process, name=TRACED_TO, value=traced_to_s, **stamp),
        )
        if self._tracer.counts.failure:
            self._report(
                "launches-failed",
                SourceHealth.FAILED,
                f"Tracing launches has failed ({self._tracer.counts.failure}).",
                "try again",
            )
        elif not files:
            self._report("launches-none", SourceHealth.DEGRADED, "No library with launch functions is loaded yet.", "")
        elif traced.detail is Detail.EACH:
            names = ", ".join(file.rpartition("/")[2] for file in files)
            lost = f"; {traced.lost} calls were lost (ring buffer full)" if traced.lost else ""
            self._report(
                "launches-traced", SourceHealth.OK, f"Traces launches in {names}{lost}.", "", files, traced.lost
            )
        else:
            code = "launches-counted" if traced.detail is Detail.COUNT else "launches-untraced"
            self._report(code, SourceHealth.DEGRADED, *_too_fast(self.pid, traced))

    def _report(self, code: str, health: SourceHealth, sentence: str, remedy: str, *about: object) -> None:
        """Report the tracing quality if it has changed; changed numbers in the sentence alone do not count."""
        if self._reported != (code, health, *about):
            self._reported = (code, health, *about)
            self._context.emit(*self._statuses.withdrawn(self.process, self._context.stamp(), but=(code,)))
            self._statuses.say(self._context, self.process, code, clean_line(sentence), remedy, health=health)


def _too_fast(pid: int, traced: Traced) -> tuple[str, str]:
    rate = f"{traced.rate_per_s:,.0f} launch calls a second"
    if traced.detail is Detail.COUNT:
        sentence = (
            f"Launches are only counted: at {rate}, tracing each would take {traced.to_sample:.1%} of their time."
        )
    else:
        sentence = (
            f"Launches are not traced for now: at {rate}, even counting would take {traced.to_count:.1%} of "
            "their threads' time."
        )
    return sentence, f"livedbg launches {pid} --budget {min(120 * traced.to_sample, 100):.1f} traces each one"
