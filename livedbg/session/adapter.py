"""The contract between the session and an adapter: the code that watches one kind of source.

Invariants:
    adapter.A1. An adapter emits events and nothing else: it needs neither the app nor a panel.
    adapter.A2. An adapter never imports another adapter. It reads data of others from `Context.snapshot()`.
    adapter.A3. An adapter of level OBSERVE never stops, signals or traces a target: no thread of it wakes.
    adapter.A4. A problem with a source becomes a `StatusSeen` event with a sentence and a remedy. An exception that
        escapes `run` is a bug; the session turns it into a failed status and goes on with the other adapters.
    adapter.A5. Every foreign string is sanitised (livedbg.text.sanitize.clean) before it is emitted (entities.M4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from livedbg.linux.procfs import process_exists
from livedbg.model.errors import TargetGone
from livedbg.model.events import Event, Stamp
from livedbg.model.request import Level, Request, TargetProcess

if TYPE_CHECKING:
    from livedbg.logs.decoder import LogDecoder
    from livedbg.model import Process
    from livedbg.model.intents import Intent
    from livedbg.model.snapshot import Snapshot

__all__ = [
    "Adapter",
    "Context",
    "Level",
    "Request",
    "TargetProcess",
    "ended_in",
    "living",
    "logs_ended",
    "processes_seen",
    "targets_ended",
    "threads_seen",
    "until",
    "until_ended",
]

_FIRST_S: Final = 60.0  # with those who look at processes, on a busy machine
_THREADS_S: Final = 5.0
_NAP_S: Final = 0.02
_CHECK_S: Final = 1.0


class Context(Protocol):
    """The session's interface for a running adapter.

    All methods belong to the event loop's thread, except `emit_threadsafe`.
    """

    @property
    def request(self) -> Request:
        """The targets and options of this session."""
        ...

    @property
    def decoders(self) -> Sequence[LogDecoder]:
        """Return the decoders to feed with log records (for the adapter that reads logs, once it has found one)."""
        ...

    def logs_over(self) -> None:
        """Report that no log is read any more, or none was found (for the adapter that reads logs)."""
        ...

    def stamp(self) -> Stamp:
        """Return the stamp of now, for `SomeEvent(..., **context.stamp())`."""
        ...

    def emit(self, *events: Event) -> None:
        """Put events on the stream, in order. Never blocks."""
        ...

    def emit_threadsafe(self, *events: Event) -> None:
        """Put events on the stream from any thread."""
        ...

    async def drain(self) -> None:
        """Wait while the stream holds more than it can fold at once: back-pressure on a fast source."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the state as folded so far (cheap: shared, immutable)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep, but wake at once on a `Refresh` intent, when the targets have ended or when the session ends."""
        ...

    async def others_settled(self) -> None:
        """Wait until all other adapters have settled, or are in this wait themselves (call it before `settled`)."""
        ...

    def settled(self) -> None:
        """Report that the first full sample is done. A session that samples once ends when all have reported."""
        ...


def targets_ended(context: Context) -> bool:
    """Return whether all named processes have ended: nothing new will come of them."""
    return ended_in(context.snapshot(), context.request)


def living(context: Context, process: str) -> Process:
    """Return a process of the state by its id; raise TargetGone if there is none or it has ended."""
    known = context.snapshot().processes.get(process)
    if known is None or known.exited:
        raise TargetGone("That process has ended.", "", "gone")
    return known


async def until(context: Context, seen: Callable[[Snapshot], object], most_s: float = _FIRST_S) -> None:
    """Wait until `seen` is true of the state, at most `most_s`, and while a target lives."""
    for _ in range(round(most_s / _NAP_S)):
        if seen(context.snapshot()) or targets_ended(context):
            return
        await context.sleep(_NAP_S)


async def processes_seen(context: Context) -> None:
    """Wait until a process is known, at most `_FIRST_S`, and while a target lives."""
    await until(context, lambda snapshot: snapshot.processes)


async def threads_seen(context: Context) -> None:
    """Wait until a thread is known, for a short while: a process may have none that can be seen."""
    await until(context, lambda snapshot: snapshot.threads, _THREADS_S)


async def until_ended(context: Context) -> None:
    """Wait until the targets have ended; return at once in a session that samples once."""
    while not (context.request.once or targets_ended(context)):
        await context.sleep(_CHECK_S)


def ended_in(snapshot: Snapshot, request: Request) -> bool:
    """Return whether all named processes have ended in a state."""

    def ended(pid: int) -> bool:
        known = snapshot.processes.get(f"process:{request.host}/{pid}")
        return known.exited if known is not None else not process_exists(pid)

    return bool(request.processes) and all(ended(target.pid) for target in request.processes)


def logs_ended(context: Context) -> bool:
    """Return whether logs give nothing new: all processes have ended, and no log was named by itself."""
    request = context.request
    return targets_ended(context) and (request.ends_with_processes or not request.logs)


class Adapter(ABC):
    """A watcher of one kind of source.

    Class attributes:
        name: one word; used in `SourceStatus.source`.
        title: the users' name of the source, if another one.
        sees: the data that it can see, one sentence.
        cost: the cost for the target and this box, one sentence.
        level: how intrusive it is.
        handles: the intents that it takes.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    sees: ClassVar[str]
    cost: ClassVar[str]
    level: ClassVar[Level] = Level.OBSERVE
    handles: ClassVar[tuple[type[Intent], ...]] = ()

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Return whether a session with this request needs this adapter. Cheap: reads no source."""
        return bool(request.processes)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """Return log decoders that this adapter contributes (fed by the adapter that reads logs)."""
        return ()

    @abstractmethod
    async def run(self, context: Context) -> None:
        """Watch until cancelled, or until the source has ended.

        Blocking work longer than some milliseconds goes to `asyncio.to_thread`. After the first full sample,
        `context.settled()` is called once. With `context.request.once` it may return after that.
        """

    async def reread(self, context: Context) -> None:
        """Read again, past every cache, the data that a claim about living processes may rest on, and emit changes.

        The session calls it before it reports a deadlock or a stall (livedbg.session.confirming), beside `run` and
        after it. An adapter whose events are records, which stay true, has nothing to read again.

        Raises:
            LivedbgError, OSError: it can't be read now: no claim is confirmed by this reading.
        """
        return

    def out_of_time(self, context: Context) -> Sequence[Event]:
        """Return events for an incomplete first scan after a time limit: what was not scanned (code OUT_OF_TIME), and
        what is known of it.

        Called on the event loop's thread; quick, no I/O. Later results of `run` are ignored.
        """
        return ()

    async def handle(self, intent: Intent, context: Context) -> None:
        """Carry out an intent of one of the types in `handles`; runs beside `run`.

        Raises:
            LivedbgError: it can't be done; the session shows it to the user.
        """
        raise NotImplementedError(type(intent).__name__)
