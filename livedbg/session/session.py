"""The session: which adapters run, the one stream of their events, the fold, the updates.

Invariants:
    session.N1. Events reach the sink (a recorder) and the store in the same order, each exactly once.
    session.N2. An adapter that fails is reported as a status; the others go on.
    session.N3. An update is a snapshot and the diagnosis of that very snapshot.
    session.N4. After `stop` no adapter runs, and nothing that the session started is left behind.
    session.N5. Time goes on in the state even when no adapter speaks: a `Tick` at least each second.
    session.N6. When the targets have ended, adapters that sleep wake at once: a command ends soon after its target.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from livedbg.logs.decoder import LogDecoder
from livedbg.model import SOURCE_FAILED, SourceHealth, SourceStatus
from livedbg.model.errors import LivedbgError
from livedbg.model.events import Event, Stamp, Stamper, StatusSeen, Tick
from livedbg.model.gate import gated
from livedbg.model.intents import Intent, Refresh, SampleFaster
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Adapter, Request, ended_in
from livedbg.session.last_hang import LastHang
from livedbg.session.pacing import CpuCredit
from livedbg.session.redaction import Redaction
from livedbg.session.rulebook import diagnostician
from livedbg.session.systems import Problem, declared, problems
from livedbg.session.view import NOTHING_YET, Update
from livedbg.state.store import Store
from livedbg.text.sanitize import clean, clean_line
from livedbg.touch.config import restricted
from livedbg.unwind.labels import use_labellers, use_namers

__all__ = ["EventSink", "Session"]

EventSink = Callable[[Sequence[Event]], None]
"""Takes events in order; a recorder is one."""

_HIGH_WATER: Final = 50_000  # events waiting to be folded above which `drain` makes sources wait
_BATCH: Final = 5_000  # events folded between two turns of the loop
_PUBLISH_S: Final = 0.1  # shortest time between two updates
_PUBLISH_MOST_S: Final = 1.0  # longest time between two, where their cost asks for it
_SHARE: Final = 0.0025  # of a core that updates may take then, once the adapters have settled
_BURST_S: Final = 0.05  # CPU time of updates that may come at once: of a change after a quiet time
_TICK_S: Final = 1.0
_CLOSE_S: Final = 10.0  # how long adapters may take to detach


class _AdapterContext:
    """What one adapter sees of the session (livedbg.session.adapter.Context)."""

    def __init__(self, session: Session, adapter: Adapter) -> None:
        self._session = session
        self._adapter = adapter
        self._refreshes = 0  # that this adapter has woken for

    @property
    def request(self) -> Request:
        return self._session.request

    @property
    def decoders(self) -> Sequence[LogDecoder]:
        return self._session.decoders

    def stamp(self) -> Stamp:
        return self._session.stamp()

    def emit(self, *events: Event) -> None:
        self._session.take(events)

    def emit_threadsafe(self, *events: Event) -> None:
        self._session.loop.call_soon_threadsafe(self._session.take, events)

    async def drain(self) -> None:
        await self._session.drained()

    def snapshot(self) -> Snapshot:
        return self._session.snapshot()

    async def sleep(self, seconds: float) -> None:
        self._refreshes = await self._session.nap(seconds, self._refreshes)

    def settled(self) -> None:
        self._session.adapter_settled(self._adapter)


class Session:
    """Runs adapters over a request and publishes updates. Lives on one event loop.

    Args:
        request: what to debug; read-only too where a configuration file says so.
        adapters: the adapters to run.
        publish: called with every update, on the loop's thread.
        sink: gets all events before they are folded.
    """

    def __init__(
        self,
        request: Request,
        adapters: Sequence[Adapter],
        publish: Callable[[Update], None],
        sink: EventSink | None = None,
    ) -> None:
        self.request = restricted(request)
        self.stamp = Stamper(request.host)
        self.decoders: tuple[LogDecoder, ...] = tuple(d for a in adapters for d in a.decoders(request))
        self._adapters = tuple(adapters)
        self._publish = publish
        self._sink = sink
        self._store = Store()
        self._diagnostician = diagnostician()
        self._last_hang = LastHang(self.stamp)
        self._redaction = Redaction()
        self._queue: deque[Event] = deque()
        self._unsettled = set(self._adapters)
        self._running: set[Adapter] = set(self._adapters)
        self._notice = ""
        self._latest = NOTHING_YET
        self._targets_ended = False
        use_labellers(label for _, label in declared(lambda system: system.label_code))
        use_namers(name for _, name in declared(lambda system: system.name_code))
        self._taken = 0
        self._marks: deque[tuple[float, int]] = deque(maxlen=20)

    async def run(self) -> None:
        """Watch until `stop` is called or every adapter has ended."""
        self.loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._sleepers: set[asyncio.Future[None]] = set()
        self._refreshes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._stopping = asyncio.Event()
        self.settled = asyncio.Event()
        self._contexts = {adapter: _AdapterContext(self, adapter) for adapter in self._adapters}
        tasks = [asyncio.create_task(self._guard(adapter), name=adapter.name) for adapter in self._adapters]
        self._intents: set[asyncio.Task[None]] = set()
        if left_out := problems():
            self.take([self._left_out(problem) for problem in left_out])
        pump = asyncio.create_task(self._pump(), name="pump")
        if not tasks:
            self._check_settled()
        try:
            await self._stopping.wait()
        finally:
            await _cancel([*tasks, *self._intents])
            await _cancel([pump])
            self._fold(len(self._queue))
            self._update(ended=True)

    def stop(self) -> None:
        """End `run`. On the loop's thread."""
        self._stopping.set()

    def send(self, intent: Intent) -> None:
        """Route an intent to the adapters that take it. On the loop's thread."""
        if isinstance(intent, Refresh):
            self._wake_sleepers()
            return
        takers = [a for a in self._running if isinstance(intent, a.handles)]
        if not takers and not isinstance(intent, SampleFaster):  # without samples there is nothing to do faster
            self._tell(f"no adapter handles {type(intent).__name__}")
        for adapter in takers:
            task = asyncio.create_task(self._carry_out(adapter, intent))
            self._intents.add(task)
            task.add_done_callback(self._intents.discard)

    def _wake_sleepers(self) -> None:
        self._refreshes += 1
        for sleeper in self._sleepers:
            _woken(sleeper)

    def keyframe(self) -> list[Event]:
        """The events that stand for all that was folded. On the loop's thread, so that a sink can call it."""
        return self._store.keyframe()

    # for the adapters' contexts

    def take(self, events: Sequence[Event]) -> None:
        """Put events on the stream, without the secrets in them."""
        self._queue.extend(self._redaction.of(events) if self.request.redact else events)
        if len(self._queue) > _HIGH_WATER:
            self._room.clear()
        self._wake.set()

    async def drained(self) -> None:
        """Wait until the stream has room."""
        await self._room.wait()

    def snapshot(self) -> Snapshot:
        """The newest published state."""
        return self._latest.snapshot

    async def nap(self, seconds: float, seen: int) -> int:
        """Sleep until the time is over, a refresh is asked for or the targets end.

        Args:
            seconds: how long.
            seen: the refreshes that the sleeper has woken for: a newer one ends the sleep at once.

        Returns:
            The refreshes so far; the end of the targets is one.
        """
        if seen != self._refreshes:
            await asyncio.sleep(0)
            return self._refreshes
        sleeper = self.loop.create_future()  # adapters wake a dozen times a second: a timeout takes twice the time
        timer = self.loop.call_later(seconds, _woken, sleeper)
        self._sleepers.add(sleeper)
        try:
            await sleeper
        finally:
            timer.cancel()
            self._sleepers.discard(sleeper)
        return self._refreshes

    def adapter_settled(self, adapter: Adapter) -> None:
        """An adapter's first full sample is done."""
        self._unsettled.discard(adapter)
        self._wake.set()

    # the stream

    async def _guard(self, adapter: Adapter) -> None:
        """Run one adapter; whatever happens to it, the session goes on (N2)."""
        try:
            await adapter.run(self._contexts[adapter])
        except LivedbgError as error:
            sentence = f"The {adapter.title or adapter.name} source failed: {error.message}"
            self.take([self._failed(adapter, SOURCE_FAILED, sentence, error.remedy)])
        except Exception as error:
            sentence = self._internal(adapter, error)
            self.take(
                [self._failed(adapter, SOURCE_FAILED, sentence, "please report this bug; LIVEDBG_DEBUG=1 shows more")]
            )
        finally:
            self._running.discard(adapter)
            self.adapter_settled(adapter)

    def _failed(self, adapter: Adapter, code: str, sentence: str, remedy: str) -> Event:
        status = SourceStatus(
            source=adapter.name,
            target="",
            health=SourceHealth.FAILED,
            code=code,
            sentence=clean_line(sentence),
            remedy=clean_line(remedy),
        )
        return StatusSeen(status=status, **self.stamp())

    def _left_out(self, problem: Problem) -> Event:
        """The status of a system that can't be used, or not in full (systems.Y2)."""
        status = SourceStatus(
            source=f"system {problem.system}",
            target="",
            health=SourceHealth.DEGRADED,
            code="system-problem",
            sentence=problem.sentence,
            remedy=problem.remedy,
        )
        return StatusSeen(status=status, **self.stamp())

    def _internal(self, adapter: Adapter, error: Exception) -> str:
        """The sentence for an error of our own."""
        sentence = clean_line(f"The {adapter.title or adapter.name} source failed: {type(error).__name__}: {error}")
        self.loop.call_exception_handler({"message": sentence, "exception": error})
        return sentence

    async def _carry_out(self, adapter: Adapter, intent: Intent) -> None:
        try:
            await adapter.handle(intent, self._contexts[adapter])
        except LivedbgError as error:
            self._tell(clean(str(error)))
        except Exception as error:  # what was asked for has failed, and the session goes on (N2)
            self._tell(self._internal(adapter, error))

    def _tell(self, notice: str) -> None:
        self._notice = notice
        self._wake.set()

    async def _pump(self) -> None:
        """Fold what came in; publish, at most each _PUBLISH_S and for at most half of the time."""
        published = 0.0
        gap = _PUBLISH_S
        credit = CpuCredit(_SHARE, _BURST_S)
        while True:
            with contextlib.suppress(TimeoutError):  # not wait_for: it can swallow a cancellation (cpython #86296)
                async with asyncio.timeout(_TICK_S):
                    await self._wake.wait()
            self._wake.clear()
            if not self._queue:
                self.take([Tick(**self.stamp())])
                self._wake.clear()
            while self._queue:
                self._fold(_BATCH)
                await asyncio.sleep(0)
                if time.monotonic() - published > 2 * gap:
                    break
            wait = published + gap - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
                self._fold(_BATCH)
            started, used = time.monotonic(), time.thread_time()
            settled = not self._unsettled and not self._queue
            self._update()
            credit.passed(started - published)
            published = time.monotonic()
            gap = max(_PUBLISH_S, published - started)
            if self.settled.is_set():
                credit.spend(time.thread_time() - used)
                gap = max(gap, min(credit.wait_s(), _PUBLISH_MOST_S))
            if self._queue:
                self._wake.set()
            elif settled:
                self._check_settled()

    def _check_settled(self) -> None:
        self.settled.set()
        if not self._running:
            self.stop()

    def _fold(self, most: int) -> None:
        batch = gated(self._queue.popleft() for _ in range(min(most, len(self._queue))))
        if len(self._queue) <= _HIGH_WATER // 2:
            self._room.set()
        if not batch:
            return
        batch = [*self._last_hang.before(batch), *batch]
        if self._sink is not None:
            self._sink(batch)
        self._store.apply_all(batch)
        self._taken += len(batch)

    def _update(self, ended: bool = False) -> None:
        now = time.monotonic()
        snapshot = self._store.snapshot()
        diagnosis = self._diagnostician.diagnose(snapshot)
        rate = self._rate(now)
        self._latest = Update(snapshot, diagnosis, rate, ended, self._notice)
        self._notice = ""
        self._last_hang.note(diagnosis.verdict)
        self._publish(self._latest)
        before, self._targets_ended = self._targets_ended, ended_in(snapshot, self.request)
        if self._targets_ended and not before:
            self._wake_sleepers()

    def _rate(self, now: float) -> float:
        """Events a second over the last few updates."""
        self._marks.append((now, self._taken))
        (then, before), (latest, taken) = self._marks[0], self._marks[-1]
        return (taken - before) / (latest - then) if latest > then else 0.0


def _woken(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have released what they hold."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CLOSE_S)
