"""The adapter: selects the threads to sample and the rates, and puts the samples on the stream.

While somebody views threads, they are sampled often, with the Python functions of each.

Invariants:
    samples_adapter.S1. No thread is stopped, signalled or traced by ptrace; a blocked thread has no event left after
        the next turn.
    samples_adapter.S2. Every sample taken is in the ledger, also those of a session that ends in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from itertools import zip_longest
from typing import Any, ClassVar, Final

from livedbg.adapters.samples.account import Pace, SampleAccount, Troubles
from livedbg.adapters.samples.loop_progress import MOST_S, LoopReadings, Naps
from livedbg.adapters.samples.profiling import counted, follow_kept, profile_python, profile_targets
from livedbg.adapters.samples.shown import Shown
from livedbg.model import Thread, ids
from livedbg.model.errors import LivedbgError
from livedbg.model.intents import (
    PAGES,
    SAMPLED_PAGES,
    SAMPLES,
    SAMPLES_FOR,
    SAMPLES_OF,
    SAMPLES_RATE,
    Intent,
    SampleFaster,
    WantStacks,
)
from livedbg.probes.clock_samples import ClockSamples
from livedbg.probes.perf_event import Counted, NoPerf, supported
from livedbg.probes.perf_records import Sample
from livedbg.session.adapter import Adapter, Context, Request, targets_ended, threads_seen
from livedbg.session.pacing import Cost, Limit
from livedbg.session.running import napping, running, share_of
from livedbg.session.tools import no_unwinder, shared_unwinders
from livedbg.unwind.pool import UnwinderPool

_EACH_HZ: Final = 50
_TOTAL_HZ: Final = 200  # of all threads together
_SHARE: Final = 0.04  # of a core, ours
_MOST_S: Final = 86400.0


class Faster:
    """The threads to sample often, each with its end time."""

    def __init__(self) -> None:
        self._until_s: dict[str | None, float] = {}
        self._asked = asyncio.Event()
        self._works = False

    def want(self, intent: SampleFaster) -> None:
        """Start sampling often, or extend the time."""
        self._until_s[intent.of] = time.monotonic() + intent.seconds
        self._asked.set()

    def covers(self, thread: str) -> bool:
        """Return whether a thread is being sampled often."""
        return self._works and self._wanted(thread)

    async def wait(self) -> None:
        """Wait for a request."""
        while not self._goes_on():
            self._asked.clear()
            await self._asked.wait()

    async def sample(self, context: Context, pool: UnwinderPool, account: SampleAccount) -> None:
        """Sample until no request is pending; raise NoPerf if not allowed, LivedbgError if unwinding fails."""
        self._works = True
        try:
            pace = Pace(_EACH_HZ, _TOTAL_HZ, _SHARE)
            await profile_targets(
                context, pool, account, seconds=_MOST_S, pace=pace, wanted=self._wanted, goes_on=self._goes_on
            )
        finally:
            self._works = False

    def _wanted(self, thread: str) -> bool:
        now_s = time.monotonic()
        return any(self._until_s.get(name, 0.0) > now_s for name in (None, thread, ids.process_of(thread)))

    def _goes_on(self) -> bool:
        now_s = time.monotonic()
        self._until_s = {of: until_s for of, until_s in self._until_s.items() if until_s > now_s}
        return bool(self._until_s)


_MS: Final = 1_000_000
_QUIET_NS: Final = 1000 * _MS  # between two samples of a thread when nobody asks
_ASKED_NS: Final = 20 * _MS  # the same while somebody does
_SOON_NS: Final = 5 * _MS  # the same for the first stack
_SOON_S: Final = 0.3  # how long the first stacks are waited for
_CALLS_S: Final = 0.4  # how long a thread of which nothing but CPU time is seen is looked at ...
_CALLS_HZ: Final = 100  # ... and how often in a second ...
_CALLS_SOON_S: Final = 1.0  # ... and again after this, and after twice that, up to ...
_CALLS_APART_S: Final = 8.0  # ... this pause ...
_AGAIN_S: Final = 0.1  # ... for how long: what was read before still counts
_POLL_S: Final = 0.02
_TASKS: Final = 4  # threads that execute tasks of which the place is looked for ...
_TASKS_NS: Final = _MS // 5  # ... at this CPU time or more from sample to sample ...
_TASK_SAMPLES: Final = 20  # ... until there are so many samples of each ...
_TASKS_S: Final = 1.5  # ... or so much time has passed ...
_TASKS_APART_S: Final = 10.0  # ... and again after this
_LIMIT: Final = Limit(cpu=0.005, wall=0.2, least_s=1.0, most_s=30.0)  # of a turn without the unwinding
_RATE_HZ: Final = 99  # samples a second of a profile: not in step with what a program does 100 times a second
_PYTHON_ONLY: Final = "Python functions are read from memory instead: what they call outside of Python counts for them."
_PROFILE_HZ: Final = 1000  # samples a second of a profile, of all threads together


class SamplesAdapter(Adapter):
    """Samples running threads."""

    name: ClassVar[str] = "samples"
    sees: ClassVar[str] = "native stacks of running threads"
    cost: ClassVar[str] = (
        "no stop; an interrupt of some microseconds in a running thread, once for each second of its CPU time "
        "(up to 50 on request)"
    )
    handles: ClassVar[tuple[type[Intent], ...]] = (WantStacks, SampleFaster)

    def __init__(self) -> None:
        self._pool: UnwinderPool | None = None
        self._account = SampleAccount()
        self._troubles = Troubles(self.name)
        self._faster = Faster()
        self._loops = LoopReadings()
        self._naps = Naps()
        self._reads_naps = asyncio.Lock()
        self._shown: Shown | None = None

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Return whether native stacks are requested and samples are not switched off."""
        return bool(request.processes) and request.stacks == "native" and request.options.get(SAMPLES) != "no"

    async def run(self, context: Context) -> None:
        if no_unwinder(context.request) is not None or not supported():  # the native adapter reports it
            await threads_seen(context)
            await self._sample_calls(context)
            if context.request.once:
                await self._sample_naps(context)
            context.settled()
            if not context.request.once:
                await self._sample_naps(context)
            return
        self._pool = shared_unwinders(context.request)
        self._shown = Shown(self._pool, self._account, self._troubles, self._faster.covers)
        try:
            if SAMPLES_FOR in context.request.options:
                await self._profile(context)
                return
            await threads_seen(context)
            await self._sample_soon(context, running(context.snapshot()))
            await self._sample_calls(context)
            if context.request.once:
                await self._sample_naps(context)
                await context.others_settled()
                await self._sample_tasks(context)
            context.settled()
            if not context.request.once:  # whoever watches sees what is known by now, and naps when they are read
                beside = [
                    asyncio.ensure_future(one) for one in (self._sample_often(context), self._sample_naps(context))
                ]
                try:
                    await self._watch(context)
                finally:
                    for one in beside:
                        one.cancel()
                    await asyncio.wait(beside)
        finally:
            self._account.close(context)
            await _wait_uncancelled(asyncio.ensure_future(self._pool.close()))

    async def handle(self, intent: Intent, context: Context) -> None:
        """Sample the running threads of a process now, or often for a while.

        Raises:
            LivedbgError: the samples can't be unwound.
        """
        if isinstance(intent, SampleFaster):
            self._faster.want(intent)
            return
        assert isinstance(intent, WantStacks)
        if not intent.native or self._pool is None:
            return
        threads = [
            thread
            for thread in running(context.snapshot())
            if thread.process == intent.process and (not intent.threads or thread.id in intent.threads)
        ]
        await self._sample_soon(context, threads, _ASKED_NS)

    async def _profile(self, context: Context) -> None:
        """Sample all threads for the requested time."""
        options = context.request.options
        seconds, rate_hz = float(options[SAMPLES_FOR]), float(options.get(SAMPLES_RATE, _RATE_HZ))
        assert self._pool is not None
        pages = options.get(SAMPLES_OF) == PAGES
        pace = Pace(1e9 / SAMPLED_PAGES, math.inf) if pages else Pace(rate_hz, _PROFILE_HZ)
        counted = Counted.PAGE_FAULTS if pages else Counted.CPU_CLOCK
        over = asyncio.Event()
        beside = [asyncio.ensure_future(follow_kept(context, self._pool, over))] if pages else []
        try:
            await threads_seen(context)  # the calls of malloc are followed before: a program may run for a second
            await profile_targets(context, self._pool, self._account, seconds=seconds, pace=pace, counted=counted)
        except NoPerf as error:
            python = not pages and await profile_python(context, seconds=seconds, pace=pace)
            self._troubles.deny(context, error, _PYTHON_ONLY if python else "")
        except LivedbgError as error:
            self._troubles.report(context, "", error)
        finally:
            over.set()
            await asyncio.gather(*beside)
        context.settled()

    async def _sample_often(self, context: Context) -> None:
        assert self._pool is not None
        while True:
            await self._faster.wait()
            try:
                await self._faster.sample(context, self._pool, self._account)
            except NoPerf as error:
                self._troubles.deny(context, error)
            except LivedbgError as error:
                self._troubles.report(context, "", error)

    async def _sample_calls(self, context: Context, seconds: float = _CALLS_S) -> None:
        """Sample the calls and loops of running threads that show no other progress: CPU time is no progress."""
        snapshot = context.snapshot()
        seen = [activity for thread in running(snapshot) if (activity := snapshot.activity.get(thread.id)) is not None]
        since_ns = snapshot.now(context.request.host).mono_ns - int(_CALLS_APART_S * 1e9)
        if any(not activity.steps or activity.step_mono_ns < since_ns for activity in seen):
            pace = Pace(_CALLS_HZ, _PROFILE_HZ)
            self._loops.keep(snapshot.threads)
            await profile_python(context, seconds=seconds, pace=pace, loops=self._loops)

    async def _sample_naps(self, context: Context, seconds: float = MOST_S) -> None:
        """Read the loops of threads that nap: that they wake again and again is no progress."""
        if threads := napping(context.snapshot()):
            async with self._reads_naps:
                found = await asyncio.to_thread(self._naps.watch, threads, seconds)
            context.emit(*(counted(thread, progress, context.stamp()) for thread, progress in found.items()))

    async def _sample_soon(self, context: Context, threads: list[Thread], period_ns: int = _SOON_NS) -> None:
        """Emit one stack of each of these threads, as soon as it has run for a moment."""
        if not threads:
            return
        ids = {thread.tid: thread for thread in threads}
        newest: dict[int, Sample] = {}
        end = time.monotonic() + _SOON_S
        try:
            with ClockSamples() as clocks:
                clocks.follow(dict.fromkeys(ids, period_ns))
                self._troubles.allowed(context)
                while clocks.threads - newest.keys() and time.monotonic() < end:
                    await asyncio.sleep(_POLL_S)
                    newest |= self._read(clocks, ids)
        except NoPerf as error:
            self._troubles.deny(context, error)
        if self._shown is not None:
            await self._shown.emit(context, ids, newest.values())

    async def _sample_tasks(self, context: Context) -> None:
        """Take many stacks of each thread that executes a task, to show whether it stays at one place."""
        threads = context.snapshot().players("busy")[:_TASKS]
        if not threads or self._shown is None:
            return
        ids = {thread.tid: thread for thread in threads}
        shares = {thread.tid: share_of(thread.id, context.snapshot()) for thread in threads}
        taken: dict[int, list[Sample]] = {tid: [] for tid in ids}
        end = time.monotonic() + _TASKS_S
        try:
            with ClockSamples() as clocks:
                clocks.follow({tid: max(_TASKS_NS, int(share * _ASKED_NS)) for tid, share in shares.items()})
                while time.monotonic() < end and min(map(len, taken.values())) < _TASK_SAMPLES:
                    await asyncio.sleep(_POLL_S)
                    for tid, sample in self._read(clocks, ids).items():
                        taken[tid].append(sample)
        except NoPerf as error:
            self._troubles.deny(context, error)
        for together in zip_longest(*(some[:_TASK_SAMPLES] for some in taken.values())):
            await self._shown.emit(context, ids, filter(None, together))

    async def _watch(self, context: Context) -> None:
        """Sample running threads periodically until the targets have ended."""
        pause_s, tasks_s, apart_s = _LIMIT.least_s, 0.0, _CALLS_SOON_S
        calls_s = time.monotonic() + apart_s
        with ClockSamples() as clocks:
            while not targets_ended(context):
                snapshot = context.snapshot()
                ids = {thread.tid: thread for thread in running(snapshot)}
                periods = {tid: _period_ns(share_of(thread.id, snapshot)) for tid, thread in ids.items()}
                try:
                    cost = await self._turn(context, clocks, ids, periods)
                except NoPerf as error:
                    self._troubles.deny(context, error)
                    cost = Cost(wall_s=_LIMIT.most_s)  # it may be allowed later
                pause_s = _LIMIT.rest_s(cost)
                if time.monotonic() >= tasks_s:
                    await self._sample_tasks(context)
                    tasks_s = time.monotonic() + _TASKS_APART_S
                if time.monotonic() >= calls_s:
                    await self._sample_calls(context, _CALLS_S if apart_s < _CALLS_APART_S else _AGAIN_S)
                    await self._sample_naps(context, _AGAIN_S)
                    apart_s = min(2 * apart_s, _CALLS_APART_S)
                    calls_s = time.monotonic() + apart_s
                await context.sleep(pause_s)

    async def _turn(
        self, context: Context, clocks: ClockSamples, ids: dict[int, Thread], periods: dict[int, int]
    ) -> Cost:
        """Emit the newest sample of each followed thread, then follow the threads in `periods`.

        Returns:
            The cost, without the unwinding.

        Raises:
            NoPerf: not allowed.
        """
        watch_s, own_s = time.monotonic(), time.thread_time()
        assert self._shown is not None
        newest = self._read(clocks, ids) | self._shown.waiting(ids)
        own_ns = {tid: clocks.period_ns(tid) or _QUIET_NS for tid in newest}
        clocks.follow(periods)
        if ids:
            self._troubles.allowed(context)
        self._shown.keep(ids)
        cost = Cost(time.thread_time() - own_s, time.monotonic() - watch_s)
        await self._shown.emit(context, ids, newest.values(), own_ns)
        return cost

    def _read(self, clocks: ClockSamples, ids: dict[int, Thread]) -> dict[int, Sample]:
        """Return the newest sample of each thread; all of them are counted (S2)."""
        newest: dict[int, Sample] = {}
        for sample in clocks.read():
            if (thread := ids.get(sample.tid)) is not None:
                self._account.add(thread.process, thread.id)
                newest[sample.tid] = sample
        return newest


def _period_ns(share: float) -> int:
    """Return the period in CPU time for a thread with this share of a core: samples are evenly spaced in wall time."""
    return max(_ASKED_NS, int(share * _QUIET_NS))


async def _wait_uncancelled(work: asyncio.Future[Any]) -> None:
    """Wait for work to end, also when cancelled meanwhile: no gdb may outlive the loop."""
    while not work.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(work)
