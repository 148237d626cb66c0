"""The event stream: every event that an adapter can emit.

An event is a fact about one source at one moment, stamped with the clocks of the host where it was seen. Live,
recorded, remote and tested states are all folds of these (livedbg.state.store).

Invariants:
    events.E1. Events are immutable, self-contained values; they refer to entities by identifier only.
    events.E2. `decode(encode(event)) == event` for every event (tested by property).
    events.E3. An unknown event type or field in a stream of the same schema version is an error of that one event,
        never of the stream: `decode_line` reports it and the reader goes on.
"""

from __future__ import annotations

import time
from functools import cache
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
from livedbg.text.typed import decoder

SCHEMA_VERSION = 1
"""Version of the event schema; raised when old readers could misread new events."""


class EventBase(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="ev"):
    """Fields that all events have.

    Attributes:
        host: name of the host where this was seen.
        mono_ns: CLOCK_MONOTONIC of that host when it was seen.
        wall_ns: wall clock of that host when it was seen.
    """

    host: str
    mono_ns: int
    wall_ns: int


class Tick(EventBase, frozen=True, tag="tick"):
    """Time passed: advances the state's clock while nothing else happens."""


class Looked(EventBase, frozen=True, tag="looked"):
    """A source has finished a scan and reported its findings.

    Attributes:
        since_mono_ns: CLOCK_MONOTONIC of the host at the start of the scan: facts not retracted held until then. None:
            the source no longer watches anything.
    """

    source: str
    since_mono_ns: int | None


class ClaimsRead(EventBase, frozen=True, tag="claims"):
    """The readings behind claims were taken again. A session that does so first emits this without any claims.

    `claims` are those that hold, or that keep coming up and can't be confirmed (claims.C1, claims.C3).
    """

    claims: tuple[Claim, ...] = ()
    withdrawn: tuple[str, ...] = ()


class ProcessSeen(EventBase, frozen=True, tag="process"):
    """A process is new or changed. Replaces its former value except a rank set by `RanksSeen`."""

    process: Process


class RanksSeen(EventBase, frozen=True, tag="ranks"):
    """The ranks of processes as their runtime numbers them; they override the environment's. Unknown processes are
    ignored.
    """

    ranks: dict[str, int]
    by: str


class ProcessExited(EventBase, frozen=True, tag="process-exited"):
    """A process ended; `status` is its wait status, if known (negative: killed by that signal)."""

    id: str
    status: int | None = None


class ThreadsSeen(EventBase, frozen=True, tag="threads"):
    """Threads that are new or changed; each replaces the thread's former value except its role."""

    threads: tuple[Thread, ...]


class ThreadRolesSeen(EventBase, frozen=True, tag="thread-roles"):
    """Roles of threads in their runtime; "" clears a role. Unknown threads are ignored."""

    roles: dict[str, str]


class ThreadsExited(EventBase, frozen=True, tag="threads-exited"):
    """Threads that ended."""

    ids: tuple[str, ...]


class StacksSeen(EventBase, frozen=True, tag="stacks"):
    """Stacks taken; each replaces the former stack of its thread."""

    stacks: tuple[Stack, ...]


class SamplesSeen(EventBase, frozen=True, tag="samples"):
    """Samples of running threads; added to earlier ones of the same threads."""

    slices: tuple[ProfileSlice, ...]


class TasksSeen(EventBase, frozen=True, tag="tasks"):
    """Tasks that are new or changed; merged into their known values (model.Task)."""

    tasks: tuple[Task, ...]


class ResourcesSeen(EventBase, frozen=True, tag="resources"):
    """Resources that are new or changed; each replaces its former value."""

    resources: tuple[Resource, ...]


class EdgesReplaced(EventBase, frozen=True, tag="edges"):
    """All edges of a scope, e.g. `proc/process:box/4711` (source and subject); replaces the scope's former edges."""

    scope: str
    edges: tuple[Edge, ...]


class EdgesAdded(EventBase, frozen=True, tag="edges-added"):
    """Edges of a scope that are new or changed; the scope's other edges stay."""

    scope: str
    edges: tuple[Edge, ...]


class EdgesRemoved(EventBase, frozen=True, tag="edges-removed"):
    """Edges to remove from a scope."""

    scope: str
    keys: tuple[tuple[EdgeKind, str, str], ...]


class LogSourceSeen(EventBase, frozen=True, tag="log-source"):
    """A log was found or its description changed."""

    source: LogSource


class LogsSeen(EventBase, frozen=True, tag="logs"):
    """Records in the order of their source."""

    records: tuple[LogRecord, ...]


class CounterSeen(EventBase, frozen=True, tag="counter"):
    """A progress counter, e.g. (`ring:SYSTEM/1`, `completed`, 3).

    Attributes:
        total: its final value, if known.
        per_s: how much it rises in a second, if its source measured that: it surely rises then.
    """

    entity: str
    name: str
    value: float
    total: float | None = None
    per_s: float | None = None


class DiagnosticSeen(EventBase, frozen=True, tag="diagnostic"):
    """A runtime reported something about its own health; replaces a former one with the same id."""

    diagnostic: Diagnostic


class ExceptionSeen(EventBase, frozen=True, tag="exception"):
    """Something was thrown, failed or aborted."""

    hit: ExceptionHit


class CatchpointSeen(EventBase, frozen=True, tag="catchpoint"):
    """Current state of a catchpoint; replaces the former one."""

    catchpoint: Catchpoint


class DeviceSeen(EventBase, frozen=True, tag="device"):
    """Sample of the devices of a process; replaces the former one."""

    device: DeviceState


class LaunchesSeen(EventBase, frozen=True, tag="launches"):
    """Launches of threads; each replaces the thread's former value."""

    trails: tuple[LaunchTrail, ...]


class DumpSeen(EventBase, frozen=True, tag="dump"):
    """A dump of tensors was found or changed."""

    dump: ValueDump


class ValuesSeen(EventBase, frozen=True, tag="values"):
    """Preview of a dumped tensor, made on request."""

    preview: ValuePreview = field(name="look")  # recordings of all versions call it so


class DumpCompared(EventBase, frozen=True, tag="dump-compared"):
    """Comparison of a dump with a golden one; replaces the former one."""

    comparison: ValueComparison


class Touched(EventBase, frozen=True, tag="touched"):
    """An intrusive action was done to the target."""

    intrusion: Intrusion


class StatusSeen(EventBase, frozen=True, tag="status"):
    """Health of an adapter's source now; replaces its former status of that target and code."""

    status: SourceStatus


class StateCleared(EventBase, frozen=True, tag="cleared"):
    """The events from here to the next Keyframe replace all earlier ones."""


class Keyframe(EventBase, frozen=True, tag="keyframe"):
    """State kept from earlier events beside the entities; ends the events that restore a state.

    Attributes:
        exited_threads: oldest first.
        exited_processes: those that exited with 0 or an unknown status, oldest first.
        failed_processes: the others, oldest first.
        older_touches: by target, intrusive actions that are no longer kept one by one.
        looks: by source and host, when its newest scan began.
        claims: those that hold; None if nobody reads claims again.
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


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    """It takes 6 ms to make, and only recordings need it."""
    return decoder(Event)


def encode(event: Event) -> bytes:
    """Encode an event as a line of JSON, without the newline; file names that aren't UTF-8 are cleaned (`clean`)."""
    try:
        return _encoder.encode(event)
    except (UnicodeEncodeError, OverflowError):
        return _encoder.encode(clean_value(msgspec.to_builtins(event)))


def decode(line: bytes | bytearray | memoryview | str) -> Event:
    """Decode an event from a line of JSON.

    Raises:
        msgspec.DecodeError: not JSON, not an event, or of a type that this version does not know.
    """
    return _decoder().decode(line)


class Stamp(TypedDict):
    """Keyword arguments common to all events."""

    host: str
    mono_ns: int
    wall_ns: int


class Stamper(Struct, frozen=True):
    """Source of `host`, `mono_ns`, `wall_ns`, which every event needs: `Tick(**stamper())`."""

    host: str

    def __call__(self) -> Stamp:
        return {"host": self.host, "mono_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}
