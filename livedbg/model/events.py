"""The one stream: every event that an adapter can emit.

An event is a fact about one source at one moment, stamped with the clocks of the host where
it was seen. Live, recorded, remote and tested states are all folds of these (livedbg.state.store).

Invariants:
    events.E1. Events are immutable, self-contained values; they refer to entities by identifier only.
    events.E2. `decode(encode(event)) == event` for every event (tested by property).
    events.E3. An unknown event type or field in a stream of the same schema version is an error of that
        one event, never of the stream: `decode_line` reports it and the reader goes on.
"""

from __future__ import annotations

import time
from typing import TypeAlias, TypedDict

import msgspec
from msgspec import Struct, field

from livedbg.model import (
    Diagnostic,
    Edge,
    EdgeKind,
    ExceptionHit,
    Intrusion,
    LogRecord,
    LogSource,
    Process,
    Resource,
    SourceStatus,
    Stack,
    Task,
    Thread,
)
from livedbg.model.catchpoints import Catchpoint
from livedbg.model.claims import Claim
from livedbg.model.devices import DeviceState
from livedbg.model.dumps import ValueComparison, ValueDump, ValuePreview
from livedbg.model.launches import LaunchTrail, ProfileSlice
from livedbg.model.snapshot import Activity, Clock, Counter, CounterKey, Durations, LookKey, Touches
from livedbg.text.json_text import clean_value

SCHEMA_VERSION = 1
"""Version of the event schema; raised when old readers could misread new events."""


class EventBase(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="ev"):
    """What all events carry.

    Attributes:
        host: name of the host where this was seen.
        mono_ns: CLOCK_MONOTONIC of that host when it was seen.
        wall_ns: wall clock of that host when it was seen.
    """

    host: str
    mono_ns: int
    wall_ns: int


class Tick(EventBase, frozen=True, tag="tick"):
    """Time went on: lets the state's clock advance while nothing else happens."""


class Looked(EventBase, frozen=True, tag="looked"):
    """A source has looked at all that it watches, and has told what it found.

    Attributes:
        source: name of the adapter.
        since_mono_ns: CLOCK_MONOTONIC of the host when it began: what it has not taken back still held then. None: it
            watches nothing any more.
    """

    source: str
    since_mono_ns: int | None


class ClaimsRead(EventBase, frozen=True, tag="claims"):
    """The readings that claims rest on were taken again. A session that does so says it first, without any.

    Attributes:
        claims: these hold, or are claimed again and again and can't be confirmed (claims.C1, claims.C3).
        withdrawn: keys of earlier ones that are claimed no more.
    """

    claims: tuple[Claim, ...] = ()
    withdrawn: tuple[str, ...] = ()


class ProcessSeen(EventBase, frozen=True, tag="process"):
    """A process is there, or something about it changed. Replaces what was known of it but its rank by `RanksSeen`."""

    process: Process


class RanksSeen(EventBase, frozen=True, tag="ranks"):
    """The ranks of processes as their runtime has them: these go before what their environment says. Unknown processes
    get none.

    Attributes:
        by: what says so.
    """

    ranks: dict[str, int]
    by: str


class ProcessExited(EventBase, frozen=True, tag="process-exited"):
    """A process ended.

    Attributes:
        status: wait status where it is known (negative: killed by that signal).
    """

    id: str
    status: int | None = None


class ThreadsSeen(EventBase, frozen=True, tag="threads"):
    """Threads that are new or changed; each replaces what was known of that thread but its role."""

    threads: tuple[Thread, ...]


class ThreadRolesSeen(EventBase, frozen=True, tag="thread-roles"):
    """What threads are there for, as their runtime has it; "": not known any more. Unknown threads get none."""

    roles: dict[str, str]


class ThreadsExited(EventBase, frozen=True, tag="threads-exited"):
    """Threads that ended."""

    ids: tuple[str, ...]


class StacksSeen(EventBase, frozen=True, tag="stacks"):
    """Stacks taken; each replaces the former stack of its thread."""

    stacks: tuple[Stack, ...]


class SamplesSeen(EventBase, frozen=True, tag="samples"):
    """What running threads were doing, by samples; added to what is known of the same threads."""

    slices: tuple[ProfileSlice, ...]


class TasksSeen(EventBase, frozen=True, tag="tasks"):
    """Tasks that are new or changed; merged into what is known (model.Task)."""

    tasks: tuple[Task, ...]


class ResourcesSeen(EventBase, frozen=True, tag="resources"):
    """Resources that are new or changed; each replaces what was known of it."""

    resources: tuple[Resource, ...]


class EdgesReplaced(EventBase, frozen=True, tag="edges"):
    """All the edges of one scope, replacing the scope's former ones.

    Attributes:
        scope: who says so about what, e.g. `proc/process:box/4711`. An edge lives in one scope.
    """

    scope: str
    edges: tuple[Edge, ...]


class EdgesAdded(EventBase, frozen=True, tag="edges-added"):
    """Edges of a scope that are new or changed; the others of the scope stay."""

    scope: str
    edges: tuple[Edge, ...]


class EdgesRemoved(EventBase, frozen=True, tag="edges-removed"):
    """Edges of a scope that are no more."""

    scope: str
    keys: tuple[tuple[EdgeKind, str, str], ...]


class LogSourceSeen(EventBase, frozen=True, tag="log-source"):
    """A log was found or its description changed."""

    source: LogSource


class LogsSeen(EventBase, frozen=True, tag="logs"):
    """Records in the order of their source."""

    records: tuple[LogRecord, ...]


class CounterSeen(EventBase, frozen=True, tag="counter"):
    """A number of progress, e.g. (`ring:SYSTEM/1`, `completed`, 3).

    Attributes:
        total: what it will be at the end, where known.
        per_s: how much it rises in a second, where its source measured that: then it surely rises.
    """

    entity: str
    name: str
    value: float
    total: float | None = None
    per_s: float | None = None


class DiagnosticSeen(EventBase, frozen=True, tag="diagnostic"):
    """A runtime reported something about its own health; a newer one with the same id replaces it."""

    diagnostic: Diagnostic


class ExceptionSeen(EventBase, frozen=True, tag="exception"):
    """Something was thrown, failed or aborted."""

    hit: ExceptionHit


class CatchpointSeen(EventBase, frozen=True, tag="catchpoint"):
    """A catchpoint as it is now; replaces its former state."""

    catchpoint: Catchpoint


class DeviceSeen(EventBase, frozen=True, tag="device"):
    """What runs on the devices of a process; replaces what was seen there before."""

    device: DeviceState


class LaunchesSeen(EventBase, frozen=True, tag="launches"):
    """What threads launched; each replaces what was known of that thread."""

    trails: tuple[LaunchTrail, ...]


class DumpSeen(EventBase, frozen=True, tag="dump"):
    """A dump of tensors was found, or has changed."""

    dump: ValueDump


class ValuesSeen(EventBase, frozen=True, tag="values"):
    """What a dumped tensor is like; was asked for."""

    preview: ValuePreview = field(name="look")  # recordings of all versions call it so


class DumpCompared(EventBase, frozen=True, tag="dump-compared"):
    """How a dump compares with a golden one; replaces its former comparison."""

    comparison: ValueComparison


class Touched(EventBase, frozen=True, tag="touched"):
    """The target was touched."""

    intrusion: Intrusion


class StatusSeen(EventBase, frozen=True, tag="status"):
    """How well an adapter sees its source now; replaces its former word on that target and code."""

    status: SourceStatus


class StateCleared(EventBase, frozen=True, tag="cleared"):
    """The events from here to the next Keyframe stand for all earlier ones."""


class Keyframe(EventBase, frozen=True, tag="keyframe"):
    """What the state has kept of earlier events beside the entities; ends the events that stand for a state.

    Attributes:
        clocks: newest stamp of each host.
        activity: by thread.
        counters: all.
        kernels: system, kernel, how long its completed runs took.
        log_count: log records so far.
        exited_threads: oldest first.
        exited_processes: those that exited with 0 or an unknown status, oldest first.
        failed_processes: the others, oldest first.
        forgotten_processes: how many are no longer kept.
        older_touches: intrusive actions that are no longer kept one by one, by target.
        looks: by source and host, the moment that its newest look at all it watches began.
        claims: those that hold; None where nobody reads claims again.
    """

    clocks: dict[str, Clock]
    activity: dict[str, Activity]
    counters: tuple[tuple[CounterKey, Counter], ...]
    kernels: tuple[tuple[str, str, Durations], ...]
    log_count: int
    exited_threads: tuple[str, ...]
    exited_processes: tuple[str, ...]
    failed_processes: tuple[str, ...]
    forgotten_processes: int
    older_touches: dict[str, Touches]
    looks: tuple[tuple[LookKey, Clock], ...] = ()
    claims: tuple[Claim, ...] | None = None


Event: TypeAlias = (
    Tick
    | Looked
    | ClaimsRead
    | ProcessSeen
    | RanksSeen
    | ProcessExited
    | ThreadsSeen
    | ThreadsExited
    | ThreadRolesSeen
    | StacksSeen
    | SamplesSeen
    | TasksSeen
    | ResourcesSeen
    | EdgesReplaced
    | EdgesAdded
    | EdgesRemoved
    | LogSourceSeen
    | LogsSeen
    | CounterSeen
    | DiagnosticSeen
    | ExceptionSeen
    | CatchpointSeen
    | DeviceSeen
    | LaunchesSeen
    | DumpSeen
    | ValuesSeen
    | DumpCompared
    | Touched
    | StatusSeen
    | StateCleared
    | Keyframe
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    """One event as one line of JSON, without the newline; file names that aren't UTF-8 are made so (`clean`)."""
    try:
        return _encoder.encode(event)
    except (UnicodeEncodeError, OverflowError):
        return _encoder.encode(clean_value(msgspec.to_builtins(event)))


def decode(line: bytes | bytearray | memoryview | str) -> Event:
    """The event of one line of JSON.

    Raises:
        msgspec.DecodeError: not JSON, not an event, or of a type that this version does not know.
    """
    return _decoder.decode(line)


class Stamp(TypedDict):
    """Keyword arguments common to all events."""

    host: str
    mono_ns: int
    wall_ns: int


class Stamper(Struct, frozen=True):
    """Gives the `host`, `mono_ns`, `wall_ns` that every event needs: `Tick(**stamper())`."""

    host: str

    def __call__(self) -> Stamp:
        """The stamp of now."""
        return {"host": self.host, "mono_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}
