"""Messages that signatures found in the records of a log, with their merged state.

Invariants:
    said.S1. A message is reported once for each log and key, however often it is repeated; its first and its last line
        are the evidence.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from livedbg.model import CauseClass, Diagnostic, Evidence, ExceptionHit, Frame, LogRecord, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, Event, ExceptionSeen, Stamp
from livedbg.model.facts import MessageFacts

_MOST: Final = 200  # messages of one log and system that are told
_TOGETHER: Final = 48  # records that can be one message
_TEXT: Final = 600
_WRITERS: Final = 256
_USED: Final = 10_000
_SHARED: Final = 16


class Said(Struct, frozen=True, kw_only=True):
    """A message.

    Attributes:
        code: as in `Diagnostic.code`.
        key: tells it from others of its code.
        sentence: without its full stop, and without `who`.
        who: its subject: `Rank 3`; "" if the sentence is whole.
        writer: `rank 3` if the text itself names it, else "".
        exception: its type in the list of exceptions, or "".
        raised: index of the line of the text that names it; None: of the line where the text begins.
    """

    system: str
    code: str
    sentence: str
    key: str = ""
    who: str = ""
    severity: Severity = Severity.ERROR
    writer: str = ""
    cause: CauseClass | None = None
    facts: MessageFacts = MessageFacts()
    late: bool = False
    exception: str = ""
    stack: tuple[Frame, ...] = ()
    related: str = ""
    raised: int | None = None

    @property
    def whole(self) -> str:
        """Return the sentence with its subject."""
        return f"{self.who} {self.sentence}" if self.who else self.sentence


class Told(Struct):
    """A reported message.

    Attributes:
        said: as it was found first.
        length: of its text so far.
        count: how often it came.
    """

    said: Said
    diagnostic: Diagnostic
    length: int
    count: int = 1


class LogTold:
    """The messages of one log."""

    def __init__(self, source: LogSource) -> None:
        self.source = source
        self.told: dict[str, Told] = {}
        self._counts: Counter[str] = Counter()  # of them, by system
        self._before: dict[str, deque[LogRecord]] = {}
        self._used: dict[int, None] = {}  # where records begin that are part of messages

    def near(self, record: LogRecord, most: int) -> list[LogRecord]:
        """Return the records before one that may belong to its message, in at most `most` lines."""
        if len(self._before) > _WRITERS:
            self._before.clear()
        before = self._before.setdefault(record.writer, deque(maxlen=_TOGETHER - 1))
        parts = [one for one in before if close(one, record, most)]
        before.append(record)
        return parts

    def use(self, parts: Sequence[LogRecord]) -> None:
        for part in parts:
            if part.offset is not None and len(self._used) < _USED:
                self._used[part.offset] = None

    def used(self, record: LogRecord) -> bool:
        return record.offset is not None and record.offset in self._used

    def keep(self, said: Said, record: LogRecord, number: int, text: str) -> tuple[Told | None, bool]:
        """Add a message; return its merged state, and whether it is new."""
        writer, system = said.writer or record.writer, said.system
        parts = (system, record.source, writer, said.code, said.key)
        name = hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()
        known = self.told.get(name)
        if known is None and self._counts[system] >= _MOST:
            return None, False
        proof = Evidence.of_record(record, self.source.name, text[:_TEXT], number)
        if known is not None:
            first, facts = known.diagnostic.evidence[0], known.diagnostic.message
            same = proof.line is not None and proof.place == first.place
            if same and len(text) > known.length:  # more of its lines have come
                known.length = len(text)
                facts = replace(said.facts, first=facts.first, last=facts.last, count=facts.count, over=facts.over)
                known.diagnostic = replace(
                    known.diagnostic,
                    sentence=said.whole,
                    severity=said.severity,
                    facts=facts,
                    evidence=(proof, *known.diagnostic.evidence[1:]),
                    cause=said.cause,
                    stack=() if said.exception else said.stack,
                    late=said.late,
                )
            elif not same:
                known.count += 1
                facts = replace(facts, count=known.count)
                known.diagnostic = replace(known.diagnostic, evidence=(first, proof), facts=facts)
                if said.severity.rank > known.diagnostic.severity.rank:  # what was a warning has ended the program
                    known.diagnostic = replace(
                        known.diagnostic,
                        severity=said.severity,
                        facts=replace(facts, warned=False),
                        evidence=(proof, first),
                        at_wall_ns=record.wall_ns,
                    )
            return known, False
        process = self.source.process
        diagnostic = Diagnostic(
            id=f"diagnostic:{system}/{name}",
            system=system,
            code=said.code,
            severity=said.severity,
            sentence=said.whole,
            does=said.sentence if said.who else "",
            entities=(process,) if process else (),
            facts=replace(said.facts, first=record.line or 0, last=record.last_line or 0),
            evidence=(proof,),
            at_wall_ns=record.wall_ns,
            cause=said.cause,
            writer=writer,
            stack=() if said.exception else said.stack,
            late=said.late,
        )
        entry = self.told[name] = Told(said, diagnostic, len(text))
        self._counts[system] += 1
        return entry, True


def events(entry: Told, stamp: Stamp) -> Iterator[Event]:
    """Yield a diagnostic for a message, and an exception if it is one."""
    said = entry.diagnostic
    yield DiagnosticSeen(diagnostic=said, **stamp)
    if entry.said.exception:
        hit = ExceptionHit(
            id=said.id.replace("diagnostic:", "exception:", 1),
            type=entry.said.exception,
            message=said.sentence,
            stack=entry.said.stack,
            process=said.entities[0] if said.entities else None,
            at_wall_ns=said.evidence[-1].at_wall_ns,
            first_wall_ns=said.at_wall_ns,
            catchpoint=f"{said.system}: {said.code}",
            count=entry.count,
        )
        yield ExceptionSeen(hit=hit, **stamp)


def lines_of(text: str, begin: int, end: int) -> str:
    """Return the whole lines of a part of a text."""
    begin = text.rfind("\n", 0, begin) + 1
    stop = text.find("\n", end)
    return text[begin : stop if stop >= 0 else len(text)].strip()


def close(one: LogRecord, other: LogRecord, near: int) -> bool:
    """Return whether a record begins at most `near` lines after another one; more if others share the log."""
    if one.last_line is None or other.line is None:
        return False
    far = near * _SHARED if other.writer else near  # lines of others that share the log stand between them
    return one.last_line < other.line <= one.last_line + far


def part_of(texts: Sequence[str], position: int) -> tuple[int, int]:
    """Return which of the joined texts holds a position, and the position in it."""
    for number, text in enumerate(texts):
        if position <= len(text):
            return number, position
        position -= len(text) + 1
    return len(texts) - 1, 0
