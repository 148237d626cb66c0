"""The adapter: listens to launches where it is asked for, as closely as the budget allows, and says how closely."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import ClassVar, Final

from livedbg.adapters.launches.listener import Heard, LaunchListener
from livedbg.adapters.launches.rate import SHARE, Closeness
from livedbg.adapters.launches.steps import Step, Steps
from livedbg.adapters.launches.trails import Trails
from livedbg.linux.procfs import process_exists
from livedbg.model import Intrusion, SourceHealth, SourceStatus, ids
from livedbg.model.events import CounterSeen, LaunchesSeen, StatusSeen, Touched
from livedbg.model.intents import Intent, WatchLaunches
from livedbg.model.launches import CALLS, HEARD, HEARD_TO, LaunchTrail
from livedbg.probes.errors import probe_refused
from livedbg.session.adapter import Adapter, Context, Level, Request, targets_ended
from livedbg.session.config import refuse_touch
from livedbg.text.sanitize import clean_line

__all__ = ["LaunchesAdapter"]

_LOOK_S: Final = 0.5
_CODE: Final = "launches"


class LaunchesAdapter(Adapter):
    """Hears what a process launches, by kernel probes on the driver's and the runtime's functions."""

    name: ClassVar[str] = "launches"
    sees: ClassVar[str] = "CUDA kernels as they are launched: thread, kernel, grid, block, stream, rate; when asked for"
    cost: ClassVar[str] = (
        f"a trap at each launch, some microseconds; at most {SHARE:.0%} of the launching threads' time"
    )
    level: ClassVar[Level] = Level.LISTEN
    handles: ClassVar[tuple[type[Intent], ...]] = (WatchLaunches,)

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Wherever there is a process that goes on."""
        return bool(request.processes) and not request.once

    async def run(self, context: Context) -> None:
        """Wait for the end; listeners run by themselves."""
        context.settled()
        try:
            while not targets_ended(context):
                await asyncio.sleep(_LOOK_S)
                for watched in list(self._watched.values()):
                    if not process_exists(watched.pid):
                        await self._end(watched)
        finally:
            for watched in list(self._watched.values()):
                await self._end(watched)

    async def handle(self, intent: Intent, context: Context) -> None:
        """Begin or end to listen.

        Raises:
            TouchRefused: touches are forbidden.
            TargetError: the process can't be listened to.
        """
        assert isinstance(intent, WatchLaunches)
        known = self._watched.get(intent.process)
        if not intent.on:
            if known is not None:
                await self._end(known)
                known.say_over()
            return
        if known is None:
            refuse_touch(context.request, "Listening to launches sets probes")
            watched = _Watched(intent.process, context, intent.share or SHARE)
            await watched.begin()
            self._watched[intent.process] = watched

    async def _end(self, watched: _Watched) -> None:
        self._watched.pop(watched.process, None)
        await watched.end()


class _Watched:
    """One process that is listened to."""

    def __init__(self, process: str, context: Context, share: float) -> None:
        self.process = process
        self.pid = int(ids.parse(process).parts[1])
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._trails = Trails(context.request.host, self.pid, lambda mono_ns: mono_ns + self._offset_ns)
        self._steps = Steps(time.monotonic_ns())
        self._listener = LaunchListener(self.pid, share, self._heard)
        self._heard_s = time.monotonic()
        self._said: tuple[object, ...] = ()

    async def begin(self) -> None:
        """Set the probes.

        Raises:
            TargetError: it can't be done.
        """
        try:
            await asyncio.to_thread(self._listener.start)
        except OSError as error:
            raise probe_refused(error, self.pid) from None
        why = "launches: listens, nothing is stopped"
        touch = Intrusion(target=self.process, what="probe", why=why, at_wall_ns=time.time_ns())
        self._context.emit(Touched(intrusion=touch, **self._context.stamp()))

    async def end(self) -> None:
        """Take the probes out."""
        await asyncio.to_thread(self._listener.stop)
        await asyncio.sleep(0)  # what it heard last
        self._emit_steps(self._steps.end())
        self._context.emit(CounterSeen(entity=self.process, name=HEARD, value=0.0, **self._context.stamp()))

    def say_over(self) -> None:
        """Say that nobody listens any more."""
        self._say(SourceHealth.ENDED, "Launches are listened to no more.", "")

    def _heard(self, heard: Heard) -> None:
        """In the listener's thread."""
        now_s = time.monotonic()
        seen = heard.closeness is Closeness.EACH
        self._trails.add(heard.calls, now_s - self._heard_s, time.monotonic_ns(), seen=seen)
        self._heard_s = now_s
        trails = tuple(self._trails.changed())
        steps = tuple(self._steps.take(heard.calls, heard.total, heard.until_ns))
        told = (heard, trails, steps, self._steps.heard_to_ns / 1e9)
        with contextlib.suppress(RuntimeError):  # the session has ended
            self._loop.call_soon_threadsafe(self._emit, *told)

    def _emit_steps(self, steps: Iterable[Step]) -> None:
        """At the times of the launches: how long there have been none is not for us to delay."""
        for step in steps:
            stamp = self._context.stamp()
            stamp["mono_ns"], stamp["wall_ns"] = step.mono_ns, step.mono_ns + self._offset_ns
            self._context.emit(CounterSeen(entity=self.process, name=CALLS, value=step.value, **stamp))

    def _emit(self, heard: Heard, trails: tuple[LaunchTrail, ...], steps: tuple[Step, ...], heard_to_s: float) -> None:
        self._emit_steps(steps)
        stamp = self._context.stamp()
        if trails:
            self._context.emit(LaunchesSeen(trails=trails, **stamp))
        files = self._listener.files
        hears = bool(files) and heard.closeness is not Closeness.OFF and not self._listener.failure
        self._context.emit(
            CounterSeen(entity=self.process, name=HEARD, value=float(hears), **stamp),
            CounterSeen(entity=self.process, name=HEARD_TO, value=heard_to_s, **stamp),
        )
        if self._listener.failure:
            self._say(SourceHealth.FAILED, f"Listening to launches has failed ({self._listener.failure}).", "ask again")
        elif not files:
            self._say(SourceHealth.DEGRADED, "No library with launch functions is loaded yet.", "")
        elif heard.closeness is Closeness.EACH:
            names = ", ".join(file.rpartition("/")[2] for file in files)
            lost = f"; {heard.lost} calls came too fast to be seen" if heard.lost else ""
            self._say(SourceHealth.OK, f"Listens to launches in {names}{lost}.", "", files, heard.lost)
        else:
            self._say(SourceHealth.DEGRADED, *_too_fast(self.pid, heard), heard.closeness)

    def _say(self, health: SourceHealth, sentence: str, remedy: str, *about: object) -> None:
        """Say how well it is seen, where that has changed: the sentence has numbers that change ever."""
        if self._said != (health, *about):
            self._said = (health, *about)
            status = SourceStatus(
                source="launches", target=self.process, health=health, code=_CODE, sentence=clean_line(sentence),
                remedy=remedy,
            )  # fmt: skip
            self._context.emit(StatusSeen(status=status, **self._context.stamp()))


def _too_fast(pid: int, heard: Heard) -> tuple[str, str]:
    rate = f"{heard.rate_per_s:,.0f} launch calls a second"
    if heard.closeness is Closeness.COUNT:
        said = f"Launches are only counted: at {rate}, to look at each would take {heard.to_look:.1%} of their time."
    else:
        said = (
            f"Launches are not listened to for now: at {rate}, even counting would take {heard.to_count:.1%} of "
            "their threads' time."
        )
    return said, f"livedbg launches {pid} --budget {min(120 * heard.to_look, 100):.1f} looks at each"
