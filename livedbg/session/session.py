"""The session: its adapters, the one stream of their events, the fold, the updates.

Invariants:
    session.N1. Events reach the sink (a recorder) and the store in the same order, each exactly once.
    session.N2. An adapter that fails is reported as a status; the others go on.
    session.N3. An update is a snapshot and the diagnosis of that very snapshot.
    session.N4. After `stop` no adapter runs, and nothing that the session started is left behind.
    session.N5. Time goes on in the state even when no adapter emits: a `Tick` at least each second.
    session.N6. When the targets have ended, adapters that sleep wake at once: a command ends soon after its target.
    session.N7. A claim about living processes is in an update only after it was read again
        (livedbg.session.confirming); the first full sample is done when all its claims were. A session that samples
        once ends then.
    session.N8. When a time limit ends it, what was not scanned is a status (OUT_OF_TIME), and a target that lives is in
        the state, whether or not it was sampled.
    session.N9. Until every adapter has settled once, a verdict says what is being scanned (analysis.first_look).
    session.N10. News is in an update after _PUBLISH_MOST_S at the latest; time that passes, and what the threads of a
        working process change all the time, after _PUBLISH_CALM_S.
    session.N11. A session whose state can't be judged any more ends, and its last update says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from msgspec import structs

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.analysis.out_of_time import looking
from livedbg.model import SOURCE_FAILED, SourceHealth, SourceStatus
from livedbg.model.claims import Claim
from livedbg.model.errors import LivedbgError
from livedbg.model.events import (
    ClaimsRead,
    CounterSeen,
    Event,
    Looked,
    ProcessSeen,
    Stamp,
    Stamper,
    StatusSeen,
    ThreadsSeen,
    Tick,
)
from livedbg.model.foreign_code import foreign, in_words, is_foreign
from livedbg.model.gate import gated
from livedbg.model.intents import Intent, Refresh, SampleFaster
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Adapter, Request, ended_in
from livedbg.session.confirming import Confirming
from livedbg.session.last_hang import LastHang
from livedbg.session.out_of_time import not_complete, unseen_targets
from livedbg.session.pacing import CpuCredit
from livedbg.session.redaction import Redaction
from livedbg.session.registry import SLEEPERS, system_of
from livedbg.session.rulebook import diagnostician
from livedbg.session.systems import Problem, functions, note_problem, problems
from livedbg.session.targets import note_trust
from livedbg.session.view import NOTHING_YET, Update
from livedbg.session.waking import Sleeper, WakingAdapter
from livedbg.state.store import Store
from livedbg.text.sanitize import clean, clean_line
from livedbg.touch.config import restricted
from livedbg.unwind.modules import use_labellers, use_namers

if TYPE_CHECKING:
    from livedbg.logs.decoder import LogDecoder

EventSink = Callable[[Sequence[Event]], None]
"""Takes events in order; a recorder is one."""

_HIGH_WATER: Final = 50_000  # events waiting to be folded above which `drain` makes sources wait
_BATCH: Final = 5_000  # events folded between two turns of the loop
_PUBLISH_S: Final = 0.1  # shortest time between two updates
_PUBLISH_MOST_S: Final = 1.0  # longest time from news to its update, where their cost asks for it
_PUBLISH_CALM_S: Final = 3.0  # longest time between two while nothing but time and counts moves
_SHARE: Final = 0.002  # of a core that updates may take then, once the adapters have settled
_BURST_S: Final = 0.05  # CPU time of updates that may come at once: of a change after a quiet time
_TICK_S: Final = 1.0
_REREAD_LIMIT_S: Final = 60.0  # for one such reading
_REREAD_REST: Final = 4  # rest after claims were read again, in times of what that took ...
_REREAD_MOST_S: Final = 2.0  # ... and at most
_BROKEN: Final = "livedbg itself failed while it judged what it saw"
_REPORT: Final = "This is a bug of livedbg: LIVEDBG_DEBUG=1 shows where."
_CLOSE_S: Final = 10.0  # how long adapters may take to detach


class _AdapterContext:
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

    async def others_settled(self) -> None:
        await self._session.others_settled(self._adapter)

    def settled(self) -> None:
        self._session.adapter_settled(self._adapter)

    def logs_over(self) -> None:
        self._session.logs_over(self._adapter)


class Session:
    """Runs adapters over a request and publishes updates. Lives on one event loop.

    Args:
        request: targets and options; read-only too if a configuration file says so.
        sink: gets all events before they are folded.
        sleeping: adapters that run only once something shows their systems.
    """

    def __init__(
        self,
        request: Request,
        adapters: Sequence[Adapter],
        publish: Callable[[Update], None],
        sink: EventSink | None = None,
        sleeping: Sequence[Sleeper] = (),
    ) -> None:
        self.request = restricted(request)
        note_trust(request)
        self.stamp = Stamper(request.host)
        self._asleep = list(sleeping)
        self._decoders: dict[Adapter, Sequence[LogDecoder]] = {}
        self._logs_over = False
        waker = [WakingAdapter(lambda: {one.system for one in self._asleep}, self.wake)] if sleeping else []
        self._adapters = (*adapters, *waker)
        self._publish = publish
        self._sink = sink
        self._store = Store()
        self._diagnostician = diagnostician()
        self._last_hang = LastHang(self.stamp)
        self._confirming = Confirming(request.host)
        self._rereading: asyncio.Task[None] | None = None
        self._reread_from_s = 0.0
        self._redaction = Redaction()
        self._queue: deque[Event] = deque()
        self._unsettled = set(self._adapters)
        self._last: set[Adapter] = set()
        self._others_settled = asyncio.Event()
        self._running: set[Adapter] = set(self._adapters)
        self._notice = ""
        self._problems = 0
        self._latest = NOTHING_YET
        self._targets_ended = False
        self._looked = False  # at everything, once
        self._first_claims: frozenset[str] | None = None
        use_labellers(label for _, label in functions(lambda system: system.label_code))
        use_namers(name for _, name in functions(lambda system: system.name_code))
        self._news = True  # since the last update
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
        self._tasks = [asyncio.create_task(self._guard(adapter), name=adapter.name) for adapter in self._adapters]
        self._intents: set[asyncio.Task[None]] = set()
        self.take([ClaimsRead(**self.stamp())])
        self._tell_problems()
        pump = asyncio.create_task(self._pump(), name="pump")
        pump.add_done_callback(lambda _: self.stop())
        if not self._tasks:
            self._check_settled()
        try:
            await self._stopping.wait()
        finally:
            await _cancel([*self._tasks, *self._intents, *filter(None, (self._rereading,))])
            await _cancel([pump])
            broken = pump.exception() if pump.done() and not pump.cancelled() else None
            if broken is not None:
                self._break_off(broken)
            else:
                self._fold(len(self._queue))
                self._update(ended=True)

    def _break_off(self, error: BaseException) -> None:
        """Publish that the state can't be judged any more (N11)."""
        self.loop.call_exception_handler({"message": "the state can't be judged", "exception": error})
        sentence = clean_line(f"{_BROKEN}: {in_words(error)}. {_REPORT}")
        diagnosis = Diagnosis(Verdict(state=VerdictState.UNKNOWN, sentence=sentence))
        self._latest = Update(self._store.snapshot(), diagnosis, ended=True)
        self._publish(self._latest)

    def stop(self) -> None:
        """End `run`. Call it on the loop's thread."""
        self._stopping.set()

    def send(self, intent: Intent) -> None:
        """Route an intent to the adapters that take it. Call it on the loop's thread."""
        if isinstance(intent, Refresh):
            self._wake_sleepers()
            return
        optional = isinstance(intent, SampleFaster)  # without samples there is nothing to do faster
        if not self._takers(intent):
            self.wake(SLEEPERS if optional else None)
        takers = self._takers(intent)
        if not takers and not optional:
            self._tell(f"no adapter handles {type(intent).__name__}")
        for adapter in takers:
            task = asyncio.create_task(self._carry_out(adapter, intent))
            self._intents.add(task)
            task.add_done_callback(self._intents.discard)

    def _takers(self, intent: Intent) -> list[Adapter]:
        return [adapter for adapter in self._running if isinstance(intent, adapter.handles)]

    def _wake_sleepers(self) -> None:
        self._refreshes += 1
        self._news = True
        for sleeper in self._sleepers:
            _woken(sleeper)

    def out_of_time(self) -> None:
        """Publish the state so far and its gaps after a time limit (N8). Call it on the loop's thread."""
        known = self._store.snapshot().processes
        self.take([*unseen_targets(self.request, known, self.stamp)])
        for adapter in [one for one in self._adapters if one in self._unsettled]:
            said: list[Event] = []
            try:
                said = list(adapter.out_of_time(self._contexts[adapter]))
            except Exception as error:  # N2
                self._internal(adapter, error)
            self.take(said or [not_complete(adapter, self.stamp)])
        self._fold(len(self._queue))
        snapshot = self._store.snapshot()
        diagnosis = self._diagnostician.diagnose(snapshot)
        if new := diagnosis.unread - (snapshot.claims or {}).keys():  # there is no time to read them again
            claims = tuple(structs.replace(diagnosis.claims[key], confirmed=False) for key in new)
            self.take([ClaimsRead(claims=claims, **self.stamp())])
            self._fold(len(self._queue))
        self._looked = True  # at what there was time for
        self._update()

    def keyframe(self) -> list[Event]:
        """Return the events that replace all that was folded. Call it on the loop's thread, as a sink does."""
        return self._store.keyframe()

    # for the adapters' contexts

    @cached_property
    def decoders(self) -> tuple[LogDecoder, ...]:
        """Return the log decoders; wakes sleeping adapters, for the log may be one of theirs."""
        self.wake({one.system for one in self._asleep}.difference(SLEEPERS))
        return tuple(decoder for adapter in self._adapters for decoder in self._decoders_of(adapter))

    def logs_over(self, reader: Adapter) -> None:
        """Tell the decoders that no log is read any more, or ever, also those of adapters that wake later.

        If none was read, the log reader's own decoders are not made for it: they take the most imports.
        """
        self._logs_over = True
        for adapter in self._adapters:
            if adapter is not reader or adapter in self._decoders:
                self._tell_over(adapter)

    def _tell_over(self, adapter: Adapter) -> None:
        for decoder in self._decoders_of(adapter):
            decoder.over()

    def _decoders_of(self, adapter: Adapter) -> Sequence[LogDecoder]:
        if adapter not in self._decoders:
            self._decoders[adapter] = _decoders(adapter, self.request)
        return self._decoders[adapter]

    def wake(self, systems: Collection[str] | None = None) -> None:
        """Start sleeping adapters: those of some systems, or all (waking.A1). Call it on the loop's thread."""
        woken = [one for one in self._asleep if systems is None or one.system in systems]
        self._asleep = [one for one in self._asleep if one not in woken]
        for adapter in filter(None, (one.make() for one in woken)):
            self._adapters = (*self._adapters, adapter)
            self._contexts[adapter] = _AdapterContext(self, adapter)
            self._running.add(adapter)
            if not self.settled.is_set():
                self._unsettled.add(adapter)
            if self._logs_over:
                self._tell_over(adapter)
            self._tasks.append(asyncio.create_task(self._guard(adapter), name=adapter.name))

    def take(self, events: Sequence[Event]) -> None:
        if not events:
            return
        self._queue.extend(self._redaction.of(events) if self.request.redact else events)
        self._news = self._news or any(self._is_news(event) for event in events)
        if len(self._queue) > _HIGH_WATER:
            self._room.clear()
        self._wake.set()

    def _is_news(self, event: Event) -> bool:
        """Return whether an event is more than the usual changes of a working process's threads."""
        if isinstance(event, ProcessSeen):
            return event.process.id not in self._latest.snapshot.processes
        return not isinstance(event, (Tick, Looked, ThreadsSeen, CounterSeen))

    async def drained(self) -> None:
        """Wait until the stream has room."""
        await self._room.wait()

    def snapshot(self) -> Snapshot:
        """Return the newest published state."""
        return self._latest.snapshot

    async def nap(self, seconds: float, seen: int) -> int:
        """Sleep until the time is over, a refresh is requested or the targets end.

        Args:
            seen: number of refreshes that the sleeper has woken for: a newer one ends the sleep at once.

        Returns:
            The number of refreshes so far; the end of the targets is one.
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
        """Record that an adapter's first full sample is done."""
        self._unsettled.discard(adapter)
        self._wake.set()

    async def others_settled(self, adapter: Adapter) -> None:
        """Wait until all other adapters have settled, and their events are in the state."""
        self._last.add(adapter)
        self._others_settled.clear()
        self._wake.set()
        await self._others_settled.wait()

    # the stream

    async def _guard(self, adapter: Adapter) -> None:
        """Run one adapter; whatever happens to it, the session goes on (N2)."""
        try:
            await adapter.run(self._contexts[adapter])
        except LivedbgError as error:
            sentence = f"The {adapter.title or adapter.name} source failed: {error.message}"
            self.take([self._failed(adapter, SOURCE_FAILED, sentence, error.remedy)])
        except BaseException as error:
            if self._is_ours(error):
                raise
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

    def _tell_problems(self) -> None:
        known = problems()
        if len(known) > self._problems:
            self.take([self._left_out(problem) for problem in known[self._problems :]])
            self._problems = len(known)

    def _left_out(self, problem: Problem) -> Event:
        """Return the status of a system that can't be used, or not in full (systems.Y2)."""
        status = SourceStatus(
            source=f"system {problem.system}",
            target="",
            health=SourceHealth.DEGRADED,
            code="system-problem",
            sentence=problem.sentence,
            remedy=problem.remedy,
        )
        return StatusSeen(status=status, **self.stamp())

    def _internal(self, adapter: Adapter, error: BaseException) -> str:
        sentence = clean_line(f"The {adapter.title or adapter.name} source failed: {in_words(error)}")
        self.loop.call_exception_handler({"message": sentence, "exception": error})
        return sentence

    async def _carry_out(self, adapter: Adapter, intent: Intent) -> None:
        try:
            await adapter.handle(intent, self._contexts[adapter])
        except LivedbgError as error:
            self._tell(clean(str(error)))
        except BaseException as error:  # what was asked for has failed, and the session goes on (N2)
            if self._is_ours(error):
                raise
            self._tell(self._internal(adapter, error))

    def _is_ours(self, error: BaseException) -> bool:
        """Return whether a task ends because the session does, not because its adapter raised the exception."""
        task = asyncio.current_task() if self.loop.is_running() else None
        return isinstance(error, (asyncio.CancelledError, GeneratorExit)) and (task is None or task.cancelling() > 0)

    def _tell(self, notice: str) -> None:
        self._notice = notice
        self._wake.set()

    async def _pump(self) -> None:
        """Fold incoming events; publish, at most each _PUBLISH_S and for at most half of the time (N10)."""
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
            if gap > _PUBLISH_MOST_S and not self._news and time.monotonic() < published + gap:
                continue
            wait = published + min(gap, _PUBLISH_MOST_S) - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
                self._fold(_BATCH)
            started, used = time.monotonic(), time.thread_time()
            settled = not self._unsettled and not self._queue
            others_settled = not self._unsettled - self._last and not self._queue
            self._update(looked=settled)
            if others_settled:
                self._others_settled.set()
            self._tell_problems()
            credit.passed(started - published)
            published = time.monotonic()
            gap = max(_PUBLISH_S, published - started)
            if self.settled.is_set():
                credit.spend(time.thread_time() - used)
                gap = max(gap, min(credit.wait_s(), _PUBLISH_CALM_S))
            reading = self._read_again()
            self._news = bool(self._queue or self._latest.diagnosis.unread)
            if self._queue:
                self._wake.set()
            elif settled and not reading:
                self._check_settled()

    def _check_settled(self) -> None:
        self._looked = True
        self.settled.set()
        if not self._running or self.request.once:
            self.stop()

    # claims

    def _read_again(self) -> bool:
        """Start rereading of claims that need it; return whether some have never been reread (N7)."""
        diagnosis = self._latest.so_far().diagnosis
        known = self._latest.snapshot.claims or {}
        if over := tuple(key for key in known if key not in diagnosis.claims):
            self.take([ClaimsRead(withdrawn=over, **self.stamp())])
        if not diagnosis.unread or (self._rereading is not None and not self._rereading.done()):
            return self._held_up_by(diagnosis, self._latest.snapshot)
        rest_s = self._reread_from_s - time.monotonic()
        if rest_s > 0:
            self.loop.call_later(rest_s, self._wake.set)
        else:
            claims = [diagnosis.claims[key] for key in diagnosis.unread]
            self._rereading = asyncio.create_task(self._reread(claims), name="reread")
        return self._held_up_by(diagnosis, self._latest.snapshot)

    def _held_up_by(self, diagnosis: Diagnosis, snapshot: Snapshot) -> bool:
        """Return whether claims of the first full sample still have to be reread. Later ones may come and go."""
        first = self._first_claims if self._first_claims is not None else diagnosis.unread
        return bool((first & diagnosis.unread) - (snapshot.claims or {}).keys())

    async def _reread(self, claims: Sequence[Claim]) -> None:
        """Do one reading of some claims. The result is an event, so that a recording has it too."""
        began = time.monotonic()
        reading = await asyncio.to_thread(self._confirming.begin, claims, self._latest.snapshot)
        try:
            async with asyncio.timeout(_REREAD_LIMIT_S):
                fresh = await asyncio.gather(*(self._reread_one(adapter) for adapter in self._adapters))
        except TimeoutError:
            return  # a later update asks for it again
        finally:
            self._reread_from_s = time.monotonic() + min(_REREAD_MOST_S, (time.monotonic() - began) * _REREAD_REST)
        self._fold(len(self._queue))
        snapshot = self._store.snapshot()
        diagnosis = self._diagnostician.diagnose(snapshot)
        end = partial(self._confirming.end, reading, diagnosis.claims, snapshot, whole=all(fresh))
        read = await asyncio.to_thread(end)
        withdrawn = tuple(key for key in snapshot.claims or () if key not in diagnosis.claims)
        self.take([ClaimsRead(claims=read, withdrawn=withdrawn, **self.stamp())])

    async def _reread_one(self, adapter: Adapter) -> bool:
        try:
            await adapter.reread(self._contexts[adapter])
        except (LivedbgError, OSError):
            return False  # its own status says why
        except BaseException as error:
            if self._is_ours(error):
                raise
            self._tell(self._internal(adapter, error))
            return False
        return True

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

    def _update(self, *, ended: bool = False, looked: bool = False) -> None:
        """Publish the state; `ended`: no more updates will come.

        `looked`: all adapters have had their first full sample. It is complete once its claims were read again.
        """
        now = time.monotonic()
        snapshot = self._store.snapshot()
        diagnosis = self._diagnostician.diagnose(snapshot)
        rate = self._rate(now)
        part = None
        if looked and self._first_claims is None:
            self._first_claims = diagnosis.unread
        self._looked = self._looked or (looked and not self._held_up_by(diagnosis, snapshot))
        if not self._looked:
            part, diagnosis = diagnosis, self._looking(snapshot)
        self._latest = Update(snapshot, diagnosis, rate, ended, self._notice, part)
        self._notice = ""
        self._last_hang.note(diagnosis.verdict)
        self._publish(self._latest)
        before, self._targets_ended = self._targets_ended, ended_in(snapshot, self.request)
        if self._targets_ended and not before:
            self._wake_sleepers()

    def _looking(self, snapshot: Snapshot) -> Diagnosis:
        to_come = [adapter.title or adapter.name for adapter in self._adapters if adapter in self._unsettled]
        return looking(snapshot, to_come, stacks=bool(self.request.processes) and self.request.stacks == "native")

    def _rate(self, now: float) -> float:
        self._marks.append((now, self._taken))
        (then, before), (latest, taken) = self._marks[0], self._marks[-1]
        return (taken - before) / (latest - then) if latest > then else 0.0


def _decoders(adapter: Adapter, request: Request) -> Sequence[LogDecoder]:
    if not is_foreign(type(adapter).__module__):
        return adapter.decoders(request)
    try:
        with foreign():
            return tuple(adapter.decoders(request))
    except Exception as error:
        note_problem(system_of(adapter.name), "its decoders of logs can't be made", error)
        return ()


def _woken(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have released their resources."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CLOSE_S)
