"""What single messages of a runtime say, found by tables of forms: a decoder needs nothing but its table.

Invariants:
    said.S1. A message is reported once for each log and key, however often it comes; its first and its last line are
        the evidence.
    said.S2. A form that spans several records is found where they come near each other, from one writer.
    said.S3. An error line that is part of a message, or that says nothing more beside one (`asides`), is known.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from msgspec import Struct, field
from msgspec.structs import replace

from livedbg.logs.decoder import LogDecoder
from livedbg.model import CauseClass, Diagnostic, Evidence, ExceptionHit, LogRecord, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, Event, ExceptionSeen, Stamp

__all__ = ["Form", "Said", "SaidDecoder", "close", "found_in", "words_of"]

_MOST: Final = 200  # messages of one log and system that are told
_LONGEST: Final = 100_000  # characters that are searched
_TEXT: Final = 600
_WRITERS: Final = 256
_USED: Final = 10_000
_SHARED: Final = 16
_ASIDE: Final = 400  # characters of a line that are searched for what is printed beside errors


class Said(Struct, frozen=True, kw_only=True):
    """One message.

    Attributes:
        code: as in `Diagnostic.code`.
        key: tells it from others of its code.
        sentence: without its full stop, and without who it is about where `who` says that.
        who: who it is about: `Rank 3`; "" where the sentence is whole.
        severity: how bad it is.
        writer: `rank 3` where the text itself says it, else "".
        cause: as in `Diagnostic.cause`.
        steps: what to do.
        attributes: what the rules want to know.
        system: as in `Diagnostic.system`; that of the decoder where it is "".
        late: as in `Diagnostic.late`.
        exception: its type in the list of exceptions; "" for none.
    """

    code: str
    sentence: str
    key: str = ""
    who: str = ""
    severity: Severity = Severity.ERROR
    writer: str = ""
    cause: CauseClass | None = None
    steps: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    late: bool = False
    exception: str = ""

    @property
    def whole(self) -> str:
        """The sentence with who it is about."""
        return f"{self.who} {self.sentence}" if self.who else self.sentence


class Form(Struct, frozen=True):
    """How one kind of message looks.

    Attributes:
        words: one of them is in every such message.
        pattern: finds it.
        make: reads it; None if it is none after all.
    """

    words: tuple[str, ...]
    pattern: re.Pattern[str]
    make: Callable[[re.Match[str]], Said | None]


class _Entry(Struct):
    said: Said
    diagnostic: Diagnostic
    count: int = 1


class _Log(Struct):
    """What is known of one log."""

    source: LogSource
    before: dict[str, deque[LogRecord]] = field(default_factory=dict)
    told: dict[str, _Entry] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # of them, by system
    used: dict[int, None] = field(default_factory=dict)  # where records begin that are part of messages


def words_of(forms: Sequence[Form]) -> tuple[bytes, ...]:
    """The triggers that a table of forms needs."""
    return tuple(dict.fromkeys(word.encode() for form in forms for word in form.words))


def found_in(text: str, forms: Sequence[Form], begin: int = 0) -> Iterator[tuple[Said, int, int]]:
    """The messages of a text, each with where it begins and ends.

    Args:
        text: lines, without the prefixes of writers.
        forms: the table.
        begin: what ends before is left out: it was read earlier.
    """
    for form in forms:
        if not any(word in text for word in form.words):
            continue
        for match in form.pattern.finditer(text):
            if match.end() > begin:
                said = form.make(match)
                if said is not None:
                    yield said, match.start(), match.end()


class SaidDecoder(LogDecoder):
    """Makes a diagnostic of each message of a table.

    Class attributes:
        forms: the table.
        together: so many records can be one message.
        near: so many lines are between the first and the last of them, at most.
        asides: lines that programs print beside such errors and that say nothing more.
    """

    forms: ClassVar[Sequence[Form]] = ()
    together: ClassVar[int] = 4
    near: ClassVar[int] = 6
    asides: ClassVar[re.Pattern[str] | None] = None

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._changed: dict[str, _Entry] = {}

    def opened(self, source: LogSource) -> None:
        """A log begins."""
        self._logs[source.id] = _Log(source)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record."""
        log = self._logs.get(record.source)
        if log is None:
            return (), ()
        parts = [*self._near(record, log), record]
        texts = [one.text for one in parts]
        begin = sum(len(text) + 1 for text in texts[:-1])
        events: list[Event] = []
        links: dict[str, None] = {}
        joined = "\n".join(texts)[: begin + _LONGEST]
        for said, position, end in self.messages(parts, joined, begin):
            part, offset = _part(texts, position)
            _use(log, parts[part : _part(texts, end)[0] + 1])
            judged = self.judge(said, record)
            if judged is None:
                continue
            number = texts[part].count("\n", 0, offset)
            entry, new = self._keep(judged, parts[part], number, _lines(joined, position, end), log)
            if entry is None:
                continue
            links[entry.diagnostic.id] = None
            if new:
                events += _events(entry, stamp)
            else:
                self._changed[entry.diagnostic.id] = entry
        return events, tuple(links)

    def knows(self, record: LogRecord) -> bool:
        """A part of a message, or what is printed beside an error (S3)."""
        log = self._logs.get(record.source)
        if log is None:
            return False
        if record.offset is not None and record.offset in log.used:
            return True
        errors = (one.diagnostic for one in log.told.values() if one.diagnostic.severity.rank >= Severity.ERROR.rank)
        systems = {diagnostic.system for diagnostic in errors}
        return any(asides.search(record.text, 0, _ASIDE) is not None for asides in self.asides_of(systems))

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        """Those that came again since the last time."""
        changed, self._changed = self._changed, {}
        return [event for entry in changed.values() for event in _events(entry, stamp)]

    def messages(self, parts: Sequence[LogRecord], joined: str, begin: int) -> Iterator[tuple[Said, int, int]]:
        """The messages of some records, each with where it begins and ends.

        Args:
            parts: the records; the last one is new.
            joined: their texts as one.
            begin: where the new one begins there.
        """
        return found_in(joined, self.forms, begin)

    def asides_of(self, systems: Collection[str]) -> Iterable[re.Pattern[str]]:
        """What programs print beside the errors of systems, and that says nothing more."""
        return (self.asides,) if self.asides is not None and systems else ()

    def judge(self, said: Said, record: LogRecord) -> Said | None:
        """What a message amounts to in its record; None for nothing. For subclasses."""
        return said

    def _near(self, record: LogRecord, log: _Log) -> list[LogRecord]:
        """The records before one that may belong to its message."""
        if len(log.before) > _WRITERS:
            log.before.clear()
        before = log.before.setdefault(record.writer, deque(maxlen=self.together - 1))
        parts = [one for one in before if close(one, record, self.near)]
        before.append(record)
        return parts

    def _keep(self, said: Said, record: LogRecord, number: int, text: str, log: _Log) -> tuple[_Entry | None, bool]:
        """What is known of a message now, and whether it is new."""
        writer, system = said.writer or record.writer, said.system or self.name
        parts = (system, record.source, writer, said.code, said.key)
        name = hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()
        known = log.told.get(name)
        if known is None and log.counts[system] >= _MOST:
            return None, False
        proof = Evidence.of_record(record, log.source.name, text, number)
        if known is not None:
            first = known.diagnostic.evidence[0]
            same = proof.line is not None and proof.place == first.place
            if same and len(text) > len(first.text):  # more of its lines have come
                attributes = {**known.diagnostic.attributes, **said.attributes}
                known.diagnostic = replace(
                    known.diagnostic,
                    sentence=said.whole,
                    severity=said.severity,
                    attributes={**attributes, "next": "\n".join(said.steps)},
                    evidence=(proof, *known.diagnostic.evidence[1:]),
                )
            elif not same:
                known.count += 1
                attributes = {**known.diagnostic.attributes, "count": str(known.count)}
                known.diagnostic = replace(known.diagnostic, evidence=(first, proof), attributes=attributes)
                if said.severity.rank > known.diagnostic.severity.rank:  # what was a warning has ended the program
                    known.diagnostic = replace(
                        known.diagnostic,
                        severity=said.severity,
                        attributes={key: value for key, value in attributes.items() if key != "warned"},
                        evidence=(proof, first),
                        at_wall_ns=record.wall_ns,
                    )
            return known, False
        process = log.source.process
        until = str(record.last_line or 0)
        attributes = {
            "order": str(record.line or 0),
            "until": until,
            "source": record.source,
            "next": "\n".join(said.steps),
        }
        diagnostic = Diagnostic(
            id=f"diagnostic:{system}/{name}",
            system=system,
            code=said.code,
            severity=said.severity,
            sentence=said.whole,
            does=said.sentence if said.who else "",
            entities=(process,) if process else (),
            attributes={**attributes, **said.attributes},
            evidence=(proof,),
            at_wall_ns=record.wall_ns,
            cause=said.cause,
            writer=writer,
            late=said.late,
        )
        entry = log.told[name] = _Entry(said, diagnostic)
        log.counts[system] += 1
        return entry, True


def _events(entry: _Entry, stamp: Stamp) -> Iterator[Event]:
    said = entry.diagnostic
    yield DiagnosticSeen(diagnostic=said, **stamp)
    if entry.said.exception:
        hit = ExceptionHit(
            id=said.id.replace("diagnostic:", "exception:", 1),
            type=entry.said.exception,
            message=said.sentence,
            process=said.entities[0] if said.entities else None,
            at_wall_ns=said.evidence[-1].at_wall_ns,
            first_wall_ns=said.at_wall_ns,
            catchpoint=f"{said.system}: {said.code}",
            count=entry.count,
        )
        yield ExceptionSeen(hit=hit, **stamp)


def _use(log: _Log, parts: Sequence[LogRecord]) -> None:
    for part in parts:
        if part.offset is not None and len(log.used) < _USED:
            log.used[part.offset] = None


def _lines(text: str, begin: int, end: int) -> str:
    """The whole lines of a part of a text, cut."""
    begin = text.rfind("\n", 0, begin) + 1
    stop = text.find("\n", end)
    return text[begin : stop if stop >= 0 else len(text)].strip()[:_TEXT]


def close(one: LogRecord, other: LogRecord, near: int) -> bool:
    """Whether a record begins at most so many lines after another one; more where others share the log."""
    if one.last_line is None or other.line is None:
        return False
    far = near * _SHARED if other.writer else near  # lines of others that share the log stand between them
    return one.last_line < other.line <= one.last_line + far


def _part(texts: Sequence[str], position: int) -> tuple[int, int]:
    """Which of the texts that were joined holds a position, and where in it."""
    for number, text in enumerate(texts):
        if position <= len(text):
            return number, position
        position -= len(text) + 1
    return len(texts) - 1, 0
