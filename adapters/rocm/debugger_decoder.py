"""Decodes a rocgdb session in a log: dispatches as tasks, the places of their waves, and faults of kernels.

Invariants:
    debugger_decoder.G1. A session shows one moment: a dispatch in it runs, which is no hang.
    debugger_decoder.G2. A kernel is reported as faulted only if the debugger stopped at a signal that ends a program
        and switched to a lane of a GPU for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

from msgspec import Struct, field

from livedbg.adapters.rocm import debugger_lines as lines
from livedbg.logs.decoder import LogDecoder
from livedbg.model import CauseClass, Diagnostic, Evidence, LogRecord, LogSource, Severity, Task, TaskState, ids
from livedbg.model.events import DiagnosticSeen, Event, Stamp, TasksSeen
from livedbg.model.facts import MessageFacts
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


class _Stop(Struct):
    """A signal whose lane and frame follow."""

    signal: str
    meaning: str
    begin: int
    lane: lines.Lane | None = None
    function: str = ""
    texts: list[str] = field(default_factory=list)


class _Session(Struct):
    """The session in one log.

    Attributes:
        places: dispatch -> number of waves at each place.
        open: dispatch and function of a wave whose line is incomplete.
        row: line number of the newest row.
        changed: there is more to report.
    """

    source: LogSource
    number: int
    queues: dict[str, lines.Queue] = field(default_factory=dict)
    dispatches: dict[str, lines.Dispatch] = field(default_factory=dict)
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
        found: lines.Queue | lines.Dispatch | lines.Wave | None
        if (found := lines.queue(line)) is not None:
            session.queues[found.id] = found
        elif (found := lines.dispatch(line)) is not None:
            if not session.dispatches or session.row < number - _MOST:
                session.first = number
            if len(session.dispatches) < _MOST:
                session.dispatches[found.id] = found
        elif (found := lines.wave(line)) is not None and found.function:
            session.open = (found.dispatch, found.function)
            _close(session, found.frame)
        if found is not None:
            session.row, session.changed = number, True


def _close(session: _Session, line: str) -> None:
    """Complete a wave's frame with the line that has its place."""
    if session.open is None:
        return
    of, function = session.open
    _, where = lines.place(line)
    complete = where or " () " in f"{line} " or line.rstrip().endswith(")")
    if complete:
        told = f"{function} ({where})" if where else function
        session.places.setdefault(of, Counter())[told] += 1
        session.open, session.changed = None, True


def _stopping(session: _Session, line: str, number: int) -> Diagnostic | None:
    """Return the fault of a kernel once its frame was read."""
    if "precise memory violation" in line:
        session.precise = False
    signal = lines.signalled(line)
    if signal is not None:
        session.stop = _Stop(*signal, begin=number, texts=[line])
        return None
    stop = session.stop
    if stop is None:
        return None
    if number - stop.begin > _NEAR:
        session.stop = None
        return None
    stop.texts.append(line)
    lane = lines.lane(line) if "Switching to" in line else None
    if lane is not None:
        stop.lane = lane
        return None
    function, where = lines.place(line)
    stop.function = stop.function or (function if stop.lane is not None else "")
    if stop.lane is not None and (where or (stop.function and " () from " in line)):
        session.stop = None
        return _fault(session, stop, stop.lane, where)
    return None


def _fault(session: _Session, stop: _Stop, lane: lines.Lane, where: str) -> Diagnostic:
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


def _queue_of(dispatch_id: str) -> str:
    return dispatch_id.rpartition(":")[0]


def _task(session: _Session, one: lines.Dispatch) -> Task:
    waves = session.places.get(one.id, Counter())
    attributes = {
        "grid": one.grid,
        "work-group": one.group,
        "fence": one.fence,
        "packet": str(one.packet) if one.packet is not None else "",
        "waves": "; ".join(f"{count} at {where}" for where, count in waves.most_common(_SHOWN)),
    }
    scope = (f"session{session.number}",) if session.number else ()
    return Task(
        id=ids.task("rocm", "dispatch", *scope, one.id),
        system="rocm",
        name=one.id,
        kernel=one.kernel,
        state=TaskState.RUNNING,
        where=(f"queue {_queue_of(one.id)}",),
        attributes={name: text for name, text in attributes.items() if text},
    )


def _told(session: _Session, one: lines.Dispatch) -> str:
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
        f"{many(found.waiting, 'packet')} not taken from queue {found.id}"
        for found in session.queues.values()
        if found.waiting and any(_queue_of(one.id) == found.id for one in dispatches)
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
