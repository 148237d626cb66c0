"""The report as values: livedbg.report/1, the schema that docs/report-schema.md describes.

Invariants:
    document.P1. Every key of docs/report-schema.md is there, and no other (tested against that page).
    document.P2. An entity always has `kind`, `name`, `state`, `waits_for` and `waiters`, a process also `pid`, a thread
        `process`, `tid` and `stack`; other keys are left out where they aren't known.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

SCHEMA = "livedbg.report/1"


class TargetOut(Struct, frozen=True, kw_only=True):
    """A process of the job."""

    id: str
    host: str
    pid: int
    rank: int | None
    command: tuple[str, ...]
    state: str


class VerdictOut(Struct, frozen=True, kw_only=True):
    """The verdict. The parts of its sentence as values, null if not known."""

    state: str
    sentence: str
    roots: tuple[str, ...]
    findings: tuple[str, ...]
    since: str | None
    finding: str | None = None
    who: str | None = None
    where: FrameOut | None = None
    holder: str | None = None
    certainty: str | None = None


class EvidenceOut(Struct, frozen=True, kw_only=True):
    """Evidence of a claim; `file` and `line` if it was read in a file."""

    kind: str
    source: str
    text: str
    at: str | None
    file: str | None = None
    line: int | None = None


class FindingOut(Struct, frozen=True, kw_only=True):
    """A finding."""

    id: str
    rule: str
    severity: str
    sentence: str
    entities: tuple[str, ...]
    evidence: tuple[EvidenceOut, ...]
    next: tuple[str, ...]
    inferred: bool
    since: str | None


class FrameOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A frame of a stack. `locals` and `source…` are left out if they were not read."""

    function: str
    file: str | None
    line: int | None
    module: str | None
    language: str
    locals: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    source_from: int = 0
    source_note: str = ""


class StackOut(Struct, frozen=True, kw_only=True):
    """A stack, and the threads that have it."""

    threads: tuple[str, ...]
    frames: tuple[FrameOut, ...]


class EntityOut(Struct, frozen=True, kw_only=True):
    """A process, thread, task or resource. Unset keys are left out."""

    kind: str
    name: str
    state: str | None
    waits_for: str | tuple[str, ...] | None
    waiters: int
    stack: tuple[FrameOut, ...] | UnsetType = UNSET
    stack_of: str | UnsetType = UNSET
    stack_note: str | UnsetType = UNSET
    at: FrameOut | UnsetType = UNSET
    process: str | UnsetType = UNSET
    waits_in: str | UnsetType = UNSET
    called: str | UnsetType = UNSET
    since: str | UnsetType = UNSET
    kernel: str | UnsetType = UNSET
    where: tuple[str, ...] | UnsetType = UNSET
    pid: int | UnsetType = UNSET
    tid: int | UnsetType = UNSET
    rank: int | UnsetType = UNSET
    attributes: dict[str, str] | UnsetType = UNSET
    cpu_ms: float | UnsetType = UNSET
    behaviour: str | UnsetType = UNSET
    behaviour_reason: str | UnsetType = UNSET


class EdgeOut(Struct, frozen=True, kw_only=True):
    """An edge."""

    kind: str
    source: str = field(name="from")
    target: str = field(name="to")
    state: str
    evidence: str
    inferred: bool
    any_of: bool
    timed: bool


class ExceptionOut(Struct, frozen=True, kw_only=True):
    """An exception, a failure or an abort."""

    kind: str
    type: str
    message: str
    thread: str | None
    process: str | None
    at: str | None
    count: int
    stack: tuple[FrameOut, ...]
    paused_ms: float
    first: str | None = None
    catchpoint: str | None = None
    rank: int | None = None
    operation: str | None = None


class TouchOut(Struct, frozen=True, kw_only=True):
    """An intrusive action on a target."""

    target: str
    what: str
    why: str
    at: str | None
    paused_ms: float
    stops: int
    measured: bool


class IntrusionsOut(Struct, frozen=True, kw_only=True):
    """The intrusive actions on the targets."""

    paused_ms: float
    stops: int
    touches: tuple[TouchOut, ...]


class LogOut(Struct, frozen=True, kw_only=True):
    """A log that was read."""

    id: str
    name: str
    path: str | None
    format: str | None
    lines: int | None
    size: int | None


class LimitOut(Struct, frozen=True, kw_only=True):
    """Something that could not be seen."""

    source: str
    target: str
    health: str
    code: str
    sentence: str
    remedy: str


class ReportDocument(Struct, frozen=True, kw_only=True):
    """The whole report; `taken_at` is the time of the newest event (ISO 8601, UTC), or ""."""

    schema: str
    taken_at: str
    targets: tuple[TargetOut, ...]
    verdict: VerdictOut
    findings: tuple[FindingOut, ...]
    entities: dict[str, EntityOut]
    edges: tuple[EdgeOut, ...]
    exceptions: tuple[ExceptionOut, ...]
    intrusions: IntrusionsOut
    logs: tuple[LogOut, ...]
    limits: tuple[LimitOut, ...]
    omitted: dict[str, int]
    stacks: tuple[StackOut, ...] = ()
