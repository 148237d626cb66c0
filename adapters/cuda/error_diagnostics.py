"""Convert parsed CUDA errors to diagnostics, and count equal ones.

Invariants:
    error_diagnostics.B1. Equal errors of one process (or log, or rank in a log) are one Diagnostic, with their count
        and the range of threads and blocks, however many there are.
    error_diagnostics.B2. At most `MOST` different errors are kept apart; all others are counted in one more for each
        process (or log, or rank in a log).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from livedbg.adapters.cuda.facts import CudaFacts, cuda_facts
from livedbg.adapters.cuda.statement import Point, Statement
from livedbg.model import CauseClass, Diagnostic, Evidence, ExceptionHit
from livedbg.model.events import DiagnosticSeen, Event, ExceptionSeen, Stamp

MOST: Final = 500
_ON_DEVICE: Final = frozenset({"sanitizer", "device-assert", "device-exception"})


@dataclass(frozen=True, slots=True)
class Context:
    """A group of errors: those of one process, as far as a log tells.

    Attributes:
        source: id of the log.
        owner: `rank 3` or `pid 5304` if the log has those of several, else "".
        process: id of the process, if known.
    """

    source: str
    owner: str = ""
    process: str | None = None


@dataclass(slots=True)
class _Range:
    """The smallest and the largest coordinate of each axis."""

    low: Point
    high: Point

    def add(self, point: Point) -> None:
        low, high = self.low, self.high
        if low <= point <= high and low[1] <= point[1] <= high[1] and low[2] <= point[2] <= high[2]:
            return
        self.low = (min(low[0], point[0]), min(low[1], point[1]), min(low[2], point[2]))
        self.high = (max(high[0], point[0]), max(high[1], point[1]), max(high[2], point[2]))

    def text(self) -> str:
        """Return `(0,0,0)`, or `(0,0,0) to (31,0,0)`."""
        low, high = (f"({','.join(map(str, point))})" for point in (self.low, self.high))
        return low if low == high else f"{low} to {high}"


@dataclass(slots=True)
class _Entry:
    """Equal statements."""

    digest: str
    statement: Statement
    context: Context
    place: Evidence
    order: int
    count: int = 0
    threads: _Range | None = None
    blocks: _Range | None = None
    last: Evidence | None = None
    last_wall_ns: int | None = None
    ids: tuple[str, ...] = ()


class ErrorCounts:
    """The errors of one session, counted."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._changed: dict[str, _Entry] = {}
        self._order = 0
        self.fresh = False
        """Whether something was added that had not been there."""

    def add(self, statement: Statement, context: Context, place: Evidence) -> tuple[str, ...]:
        """Count a statement; return the ids of its diagnostic and hit."""
        digest = _digest(statement, context)
        entry = self._entries.get(digest)
        if entry is None:
            if len(self._entries) >= MOST:
                statement = Statement("more", "more errors than are kept apart", statement.severity)
                digest = _digest(statement, context)
                entry = self._entries.get(digest)
            if entry is None:
                self._order += 1
                entry = _Entry(digest, statement, context, place, self._order)
                entry.ids = _ids(entry)
                self._entries[digest] = entry
                self.fresh = True
        entry.count += 1
        entry.last = place
        entry.last_wall_ns = place.at_wall_ns or entry.last_wall_ns
        _widen(entry, statement)
        self._changed[entry.digest] = entry
        return entry.ids

    def again(self, name: str, block: Point, thread: Point, place: Evidence) -> tuple[str, ...] | None:
        """Count a known statement (by its first id) once more: asserts come by the hundred thousand."""
        entry = self._entries.get(name.rpartition("/")[2])
        if entry is None or entry.threads is None or entry.blocks is None:
            return None
        entry.count += 1
        entry.last = place
        entry.threads.add(thread)
        entry.blocks.add(block)
        self._changed[entry.digest] = entry
        return entry.ids

    def collect(self, stamp: Stamp) -> list[Event]:
        """Return the changes since the last call."""
        self.fresh = False
        changed, self._changed = self._changed, {}
        events: list[Event] = []
        for entry in changed.values():
            events.append(DiagnosticSeen(diagnostic=_diagnostic(entry), **stamp))
            if entry.statement.hit:
                events.append(ExceptionSeen(hit=_hit(entry), **stamp))
        return events


def _widen(entry: _Entry, statement: Statement) -> None:
    if statement.thread is not None:
        if entry.threads is None:
            entry.threads = _Range(statement.thread, statement.thread)
        entry.threads.add(statement.thread)
    if statement.block is not None:
        if entry.blocks is None:
            entry.blocks = _Range(statement.block, statement.block)
        entry.blocks.add(statement.block)


def _digest(statement: Statement, context: Context) -> str:
    parts = (context.source, context.owner, statement.code, statement.what, *statement.key)
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()


def _ids(entry: _Entry) -> tuple[str, ...]:
    names = [f"diagnostic:cuda/{entry.digest}"]
    if entry.statement.hit:
        names.append(f"exception:cuda/{entry.digest}")
    return tuple(names)


def _facts(entry: _Entry) -> CudaFacts:
    statement = entry.statement
    texts = {
        "what": statement.what,
        "kernel": statement.kernel,
        "thread": entry.threads.text() if entry.threads else "",
        "block": entry.blocks.text() if entry.blocks else "",
        "where": statement.where,
        "host": statement.host,
        "owner": entry.context.owner,
        "source": entry.context.source,
        "context": f"{entry.context.process or entry.context.source} {entry.context.owner}".strip(),
        "process": entry.context.process or "",
        "count": str(entry.count),
        "order": str(entry.place.line or entry.order),
        **statement.attributes,
    }
    return cuda_facts(texts)


def _diagnostic(entry: _Entry) -> Diagnostic:
    statement = entry.statement
    again = f" ({entry.count:,} times)" if entry.count > 1 else ""
    kernel = f" in {statement.kernel}" if statement.kernel else ""
    places = [entry.place, *([entry.last] if entry.last is not None and entry.last != entry.place else [])]
    return Diagnostic(
        id=f"diagnostic:cuda/{entry.digest}",
        system="cuda",
        code=statement.code,
        severity=statement.severity,
        sentence=f"{statement.what}{kernel}{again}.",
        entities=(entry.context.process,) if entry.context.process else (),
        facts=_facts(entry),
        evidence=tuple(places),
        at_wall_ns=entry.place.at_wall_ns,
        cause=_cause(statement),
        writer=entry.context.owner,
    )


def _cause(statement: Statement) -> CauseClass:
    """Return how near to the root cause it is: a kernel's error is the device's."""
    on_device = statement.code in _ON_DEVICE or bool(statement.attributes.get("sticky"))
    return CauseClass.DEVICE if on_device else CauseClass.PROCESS


def _hit(entry: _Entry) -> ExceptionHit:
    statement = entry.statement
    who = "".join(
        f", {word} {reach.text()}" for word, reach in (("block", entry.blocks), ("thread", entry.threads)) if reach
    )
    kernel = f" in {statement.kernel}" if statement.kernel else ""
    where = f" at {statement.where}" if statement.where else ""
    return ExceptionHit(
        id=f"exception:cuda/{entry.digest}",
        type=statement.hit,
        message=f"{statement.what}{kernel}{where}{who}",
        process=entry.context.process,
        stack=statement.frames,
        at_wall_ns=entry.last_wall_ns,
        first_wall_ns=entry.place.at_wall_ns,
        catchpoint=f"cuda: {statement.code}",
        count=entry.count,
    )
