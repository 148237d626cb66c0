"""Decodes a rocgdb session in a log: dispatches as tasks, the places of their waves, and faults of kernels.

Source: ROCgdb's manual, "Heterogeneous Debugging" (`info queues`, `info dispatches`, `info threads`, `info lanes`), and
gdb/amd-dbgapi-target.c for the names of targets: `AMDGPU Queue AGENT:QUEUE (QID n)`, `AMDGPU Dispatch
AGENT:QUEUE:DISPATCH (PKID n)`, `AMDGPU Wave AGENT:QUEUE:DISPATCH:WAVE (x,y,z)/n`, `AMDGPU Lane …/LANE (x,y,z)[x,y,z]`.

Invariants:
    debugger_decoder.G1. A session shows one moment: a dispatch in it runs, which is no hang.
    debugger_decoder.G2. A kernel is reported as faulted only if the debugger stopped at a signal that ends a program
        and switched to a lane of a GPU for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import ClassVar, Final

from msgspec import Struct, field, structs

from livedbg.logs.decoder import LogDecoder
from livedbg.model import CauseClass, Diagnostic, Evidence, LogRecord, LogSource, Severity, Task, TaskState, ids
from livedbg.model.events import DiagnosticSeen, Event, Stamp, TasksSeen
from livedbg.model.facts import MessageFacts
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import many

DISPATCHES: Final = "debugger-dispatches"
STOPPED: Final = "debugger-stopped"

_NEAR: Final = 8  # lines between a signal and its frame
_SHOWN: Final = 3  # dispatches in a sentence, and places of one
_MOST: Final = 1_000  # dispatches of one session
_TEXT: Final = 600
_PRECISE: Final = "set amdgpu precise-memory on   (in rocgdb, before `run`: else the place may be after the fault)"
_THREADS: Final = "info threads   (in rocgdb: where each wave is)"
_QUEUES: Final = "info queues   (in rocgdb, twice: a queue whose packets are taken is not stuck)"

_QUEUE: Final = lazy_re(
    r"AMDGPU Queue (?P<agent>\d{1,6}):(?P<queue>\d{1,9})(?: \(QID \d{1,20}\))? +(?P<type>\S.{0,40}?) +"
    r"(?P<read>\d{1,20}) +(?P<write>\d{1,20}) +(?P<size>\d{1,20}) +0x[0-9a-f]{1,16}"
)
_DISPATCH: Final = lazy_re(
    r"AMDGPU Dispatch (?P<id>\d{1,6}:\d{1,9}:\d{1,12})(?: \(PKID (?P<packet>\d{1,20})\))? {1,50}"
    r"(?P<grid>\[[\d,]{1,60}\]) {1,50}"
    r"(?P<group>\[[\d,]{1,60}\]) {1,50}(?P<fence>[A-Za-z|]{0,20}) {1,50}(?P<kernel>\S.{0,1000})"
)
_WAVE: Final = lazy_re(
    r"^\s{0,100}(?:\* )?\s{0,100}\d{1,9} {1,50}AMDGPU Wave (?P<id>\d{1,6}:\d{1,9}:\d{1,12}:\d{1,12}|\?:\?:\?:\d{1,12})"
    r" \((?P<group>[\d,?]{1,60})\)/(?:\d{1,9}|\?)(?: {1,50}\"(?P<name>[^\"]{0,64})\")? {1,50}(?P<frame>\S.{0,4000})"
)
_LANE: Final = lazy_re(
    r"AMDGPU Lane (?P<id>\d{1,6}:\d{1,9}:\d{1,12}:\d{1,12})/(?P<lane>\d{1,4}) \((?P<group>[\d,]{1,60})\)"
    r"\[(?P<item>[\d,]{1,60})\]"
)
_SIGNAL: Final = lazy_re(
    r"^(?:Thread \d{1,9}|Program)(?: \"[^\"]{0,64}\")? received signal (?P<name>SIG[A-Z]{2,8}), (?P<text>[^.\n]{1,60})"
)
_FATAL: Final = frozenset({"SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"})
_FRAME: Final = lazy_re(r"^(?:#\d{1,4} +)?(?:0x[0-9a-f]{1,16} in )?(?P<function>[^\s(][^(\n]{0,500}?) ?\(")
_PLACE: Final = lazy_re(r"\) at (?P<file>[^\s:][^:\n]{0,400}):(?P<line>\d{1,9})\s*$")


class _Dispatch(Struct, frozen=True):
    """A kernel that was launched and has not completed.

    Attributes:
        id: `AGENT:QUEUE:DISPATCH`.
        packet: its number in its queue.
        grid: work items, as `[x,y,z]`.
        group: work items of a work-group.
        fence: barrier and fences, as abbreviations.
    """

    id: str
    packet: str | None
    grid: str
    group: str
    fence: str
    kernel: str

    @property
    def queue(self) -> str:
        return self.id.rpartition(":")[0]


class _Lane(Struct, frozen=True):
    """One work item: its dispatch, work-group, and position in that."""

    dispatch: str
    group: str
    item: str


class _Stop(Struct):
    """A signal whose lane and frame follow."""

    signal: str
    meaning: str
    begin: int
    lane: _Lane | None = None
    function: str = ""
    texts: list[str] = field(default_factory=list)


class _Session(Struct):
    """The session in one log.

    Attributes:
        queues: by id `AGENT:QUEUE`, the number of packets that are written but not taken yet.
        places: dispatch -> number of waves at each place.
        open: dispatch and function of a wave whose line is incomplete.
        row: line number of the newest row.
        changed: there is more to report.
    """

    source: LogSource
    number: int
    queues: dict[str, int] = field(default_factory=dict)
    dispatches: dict[str, _Dispatch] = field(default_factory=dict)
    places: dict[str, Counter[str]] = field(default_factory=dict)
    open: tuple[str, str] | None = None
    first: int = 0
    row: int = 0
    stop: _Stop | None = None
    precise: bool = True
    changed: bool = False


class DebuggerDecoder(LogDecoder):
    """Decodes what rocgdb prints of queues, dispatches, waves and lanes."""

    name: ClassVar[str] = "rocm"
    triggers: ClassVar[tuple[bytes, ...]] = (b"AMDGPU ", b" received signal SIG", b"precise memory violation signal")
    opens: ClassVar[tuple[bytes, ...]] = (
        b"AMDGPU ",
        b" received signal SIG",
    )  # the rest of a frame has no word of its own

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def opened(self, source: LogSource) -> None:
        self._sessions[source.id] = _Session(source, len(self._sessions))

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        session = self._sessions.get(record.source)
        if session is None:
            return (), ()
        events: list[Event] = []
        for number, line in enumerate(record.text.split("\n"), start=record.line or 0):
            self._row(session, line, number)
            if (stopped := _stopping(session, line, number)) is not None:
                events.append(DiagnosticSeen(diagnostic=stopped, **stamp))
        return events, ()

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        events: list[Event] = []
        for session in self._sessions.values():
            if session.changed and session.dispatches:
                session.changed = False
                events.append(
                    TasksSeen(tasks=tuple(_task(session, one) for one in session.dispatches.values()), **stamp)
                )
                events.append(DiagnosticSeen(diagnostic=_shown(session), **stamp))
        return events

    def _row(self, session: _Session, line: str, number: int) -> None:
        if "AMDGPU " not in line:
            if session.open is not None:
                _close(session, line)
            return
        session.open = None
        if (found := _QUEUE.search(line)) is not None:
            session.queues[f"{found['agent']}:{found['queue']}"] = max(0, int(found["write"]) - int(found["read"]))
        elif (found := _DISPATCH.search(line)) is not None:
            if not session.dispatches or session.row < number - _MOST:
                session.first = number
            if len(session.dispatches) < _MOST:
                one = _Dispatch(**found.groupdict())
                session.dispatches[one.id] = structs.replace(one, kernel=one.kernel.strip())
        elif (found := _WAVE.match(line)) is not None:
            frame = found["frame"]
            at = None if frame.startswith("(running)") else _FRAME.match(frame)
            if at is not None:
                known = "" if found["id"].startswith("?") else found["id"].rpartition(":")[0]
                session.open = (known, at["function"])
                _close(session, frame)
        if found is not None:
            session.row, session.changed = number, True


def _place(line: str) -> tuple[str, str]:
    """Return `(function, file:line)` of a frame, each "" if the line does not have it."""
    at, where = _FRAME.match(line), _PLACE.search(line)
    function = at["function"] if at is not None and not at["function"].startswith("<") else ""
    return function, f"{PurePath(where['file']).name}:{where['line']}" if where is not None else ""


def _close(session: _Session, line: str) -> None:
    """Complete a wave's frame with the line that has its place."""
    if session.open is None:
        return
    of, function = session.open
    _, where = _place(line)
    complete = where or " () " in f"{line} " or line.rstrip().endswith(")")
    if complete:
        told = f"{function} ({where})" if where else function
        session.places.setdefault(of, Counter())[told] += 1
        session.open, session.changed = None, True


def _stopping(session: _Session, line: str, number: int) -> Diagnostic | None:
    """Return the fault of a kernel once its frame was read."""
    if "precise memory violation" in line:
        session.precise = False
    signal = _SIGNAL.match(line)
    if signal is not None and signal["name"] in _FATAL:
        session.stop = _Stop(signal["name"], signal["text"].strip(), begin=number, texts=[line])
        return None
    stop = session.stop
    if stop is None:
        return None
    if number - stop.begin > _NEAR:
        session.stop = None
        return None
    stop.texts.append(line)
    lane = _LANE.search(line) if "Switching to" in line else None
    if lane is not None:
        stop.lane = _Lane(lane["id"].rpartition(":")[0], lane["group"], lane["item"])
        return None
    function, where = _place(line)
    stop.function = stop.function or (function if stop.lane is not None else "")
    if stop.lane is not None and (where or (stop.function and " () from " in line)):
        session.stop = None
        return _fault(session, stop, stop.lane, where)
    return None


def _fault(session: _Session, stop: _Stop, lane: _Lane, where: str) -> Diagnostic:
    agent = lane.dispatch.partition(":")[0]
    at = f"in {stop.function} ({where})" if stop.function and where else f"in {stop.function or where}"
    return Diagnostic(
        id=f"diagnostic:rocm/debugger/{session.number}/{stop.begin}",
        system="rocm",
        code=STOPPED,
        severity=Severity.CRITICAL,
        sentence=(
            f"GPU {agent}: a kernel got {stop.signal} ({stop.meaning}) {at}, work-group ({lane.group}), "
            f"work item ({lane.item})"
        ),
        facts=MessageFacts(first=stop.begin, steps=(_THREADS,) if session.precise else (_PRECISE, _THREADS)),
        evidence=(_proof(session, stop.begin, "\n".join(stop.texts)[:_TEXT]),),
        cause=CauseClass.DEVICE,
    )


def _proof(session: _Session, line: int, text: str) -> Evidence:
    return Evidence(kind="log", text=text, file=session.source.name, line=line or None, log=session.source.id)


def _task(session: _Session, one: _Dispatch) -> Task:
    waves = session.places.get(one.id, Counter())
    attributes = {
        "grid": one.grid,
        "work-group": one.group,
        "fence": one.fence,
        "packet": one.packet,
        "waves": "; ".join(f"{count} at {where}" for where, count in waves.most_common(_SHOWN)),
    }
    scope = (f"session{session.number}",) if session.number else ()
    return Task(
        id=ids.task("rocm", "dispatch", *scope, one.id),
        system="rocm",
        name=one.id,
        kernel=one.kernel,
        state=TaskState.RUNNING,
        where=(f"queue {one.queue}",),
        attributes={name: text for name, text in attributes.items() if text},
    )


def _told(session: _Session, one: _Dispatch) -> str:
    """Return `saxpy(int) on GPU 1, grid [256,1,1]: 4 waves, 3 at saxpy (saxpy.hip:57)`."""
    waves = session.places.get(one.id, Counter())
    text = f"{one.kernel} on GPU {one.id.partition(':')[0]}, grid {one.grid}"
    if not waves:
        return text
    where, count = waves.most_common(1)[0]
    total = waves.total()
    return f"{text}: {many(total, 'wave')}, {'all' if count == total else count} at {where}"


def _shown(session: _Session) -> Diagnostic:
    dispatches = list(session.dispatches.values())
    told = "; ".join(_told(session, one) for one in dispatches[:_SHOWN])
    more = f"; {len(dispatches) - _SHOWN:,} more" if len(dispatches) > _SHOWN else ""
    behind = [
        f"{many(waiting, 'packet')} not taken from queue {name}"
        for name, waiting in session.queues.items()
        if waiting and any(one.queue == name for one in dispatches)
    ]
    last = f". {'; '.join(behind[:_SHOWN])}" if behind else ""
    name = "a kernel" if len(dispatches) == 1 else many(len(dispatches), "kernel")
    return Diagnostic(
        id=f"diagnostic:rocm/debugger/{session.number}/dispatches",
        system="rocm",
        code=DISPATCHES,
        severity=Severity.WARNING,
        sentence=f"When rocgdb looked, {name} ran: {told}{more}{last}",
        entities=tuple(_task(session, one).id for one in dispatches[:20]),
        facts=MessageFacts(steps=(_THREADS, _QUEUES)),
        evidence=(_proof(session, session.first, told[:_TEXT]),),
    )
