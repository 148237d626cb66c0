"""The contract between the session and an adapter: the code that watches one kind of source.

Invariants:
    adapter.A1. An adapter emits events and nothing else: no user-interface code, no state of others.
    adapter.A2. An adapter never imports or calls another adapter. What it wants to know of others it
        reads from `Context.snapshot()`.
    adapter.A3. In level OBSERVE nothing an adapter does stops, signals or writes to a target.
    adapter.A4. What goes wrong with a source becomes a `StatusSeen` event with a sentence and a remedy.
        An exception that escapes `run` is a bug; the session turns it into a failed status and
        goes on with the other adapters.
    adapter.A5. Every foreign string is sanitised (livedbg.text.sanitize.clean) before it is emitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from livedbg.linux.procfs import process_exists
from livedbg.model.events import Event, Stamp

if TYPE_CHECKING:
    from livedbg.logs.decoder import LogDecoder
    from livedbg.model.intents import Intent
    from livedbg.model.snapshot import Snapshot

__all__ = ["Adapter", "Context", "Level", "Request", "TargetProcess", "logs_ended", "targets_ended"]


class Level(IntEnum):
    """How far an adapter may go (docs/architecture.md, DESIGN "Four levels of looking")."""

    OBSERVE = 0
    LISTEN = 1
    GLANCE = 2
    TOUCH = 3


@dataclass(frozen=True, slots=True)
class TargetProcess:
    """A process that the user named.

    Attributes:
        pid: its pid in the PID namespace of livedbg.
        start_ticks: its start time when it was named (clock ticks since boot), against pid reuse.
        stdout: file that its standard output is captured in, when livedbg launched it.
        stderr: the same for its standard error.
        cwd: the folder that livedbg launched it in; it may end before anybody can ask it.
    """

    pid: int
    start_ticks: int | None = None
    stdout: Path | None = None
    stderr: Path | None = None
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What a session is to look at, and how.

    Attributes:
        host: name of this host, as it stands in identifiers.
        processes: the processes that were named.
        logs: files, directories and globs to read.
        ends_with_processes: it is over when they have ended, also where logs were named.
        tree: follow the child processes too.
        interval_s: shortest time between two looks at a process.
        stacks: take stacks: `none`, `python`, or `native` (Python and native merged).
        local_variables: Python local variables in stacks.
        once: one look for a report: an adapter reads what is there and settles.
        read_only: no touch of any kind, whatever is asked for (livedbg.session.config.refuse_touch).
        read_only_by: what forbids it, where that is not `--read-only`.
        gdb: path of the gdb to use, or None to find one.
        options: settings of single adapters, `adapter.key` -> value.
    """

    host: str
    processes: tuple[TargetProcess, ...] = ()
    logs: tuple[str, ...] = ()
    ends_with_processes: bool = False
    tree: bool = True
    interval_s: float = 0.5
    stacks: str = "native"
    local_variables: bool = False
    once: bool = False
    read_only: bool = False
    read_only_by: str = ""
    gdb: str | None = None
    options: dict[str, str] = field(default_factory=dict)


class Context(Protocol):
    """What the session offers to a running adapter. All methods belong to the event loop's
    thread, except `emit_threadsafe`."""

    @property
    def request(self) -> Request:
        """What this session looks at."""
        ...

    @property
    def decoders(self) -> Sequence[LogDecoder]:
        """The decoders that log records are to be fed to (for the adapter that reads logs)."""
        ...

    def stamp(self) -> Stamp:
        """The stamp of now, for `SomeEvent(..., **context.stamp())`."""
        ...

    def emit(self, *events: Event) -> None:
        """Put events on the stream, in order. Never blocks."""
        ...

    def emit_threadsafe(self, *events: Event) -> None:
        """The same from any thread."""
        ...

    async def drain(self) -> None:
        """Wait while the stream holds more than it can fold at once: back-pressure on a fast source."""
        ...

    def snapshot(self) -> Snapshot:
        """The state as folded so far (cheap: shared, immutable)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep, but wake at once on a `Refresh` intent or when the session ends."""
        ...

    def settled(self) -> None:
        """Say that the first full look is done. A one-look session ends when all have said so."""
        ...


def targets_ended(context: Context) -> bool:
    """Whether all processes that were named have ended: nothing new will come of them."""
    snapshot, request = context.snapshot(), context.request

    def ended(pid: int) -> bool:
        known = snapshot.processes.get(f"process:{request.host}/{pid}")
        return known.exited if known is not None else not process_exists(pid)

    return bool(request.processes) and all(ended(target.pid) for target in request.processes)


def logs_ended(context: Context) -> bool:
    """Whether nothing new is looked for in logs: all processes have ended, and no log was named by itself."""
    request = context.request
    return targets_ended(context) and (request.ends_with_processes or not request.logs)


class Adapter(ABC):
    """Watches one kind of source.

    Class attributes:
        name: one word; stands in `SourceStatus.source`.
        sees: what it can see, one sentence.
        cost: what that costs the target and this box, one sentence.
        level: how far it goes.
        handles: the intents that it takes.
    """

    name: ClassVar[str]
    sees: ClassVar[str]
    cost: ClassVar[str]
    level: ClassVar[Level] = Level.OBSERVE
    handles: ClassVar[tuple[type[Intent], ...]] = ()

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Whether a session with this request needs this adapter. Cheap: no look at any source."""
        return bool(request.processes)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """Log decoders that this adapter contributes (fed by the adapter that reads logs)."""
        return ()

    @abstractmethod
    async def run(self, context: Context) -> None:
        """Watch until cancelled, or until the source has ended.

        Blocking work longer than some milliseconds goes to `asyncio.to_thread`. After the first
        full look, `context.settled()` is called once. With `context.request.once` it may return
        after that.
        """

    async def handle(self, intent: Intent, context: Context) -> None:
        """Carry out an intent of one of the types in `handles`; runs beside `run`.

        Raises:
            LivedbgError: it can't be done; the session shows it to the user.
        """
        raise NotImplementedError(type(intent).__name__)
