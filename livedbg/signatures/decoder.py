"""The decoder of all signatures.

Invariants:
    signature_decoder.D1. A message that a logger calls a warning, in its first record, is a note, and one at a lower
        level is none, if a file says that levels count (`heeds_levels`).
    signature_decoder.D2. Near a line of a tuner (`quiet`) no message of that file's system is a failure.
    signature_decoder.D3. A message that a later line says to be over (`over`) is a note, until it is repeated. Names in
        such a line (a pod, a server) are the same as in the message.
    signature_decoder.D4. A message that spans several records is found where they come near each other, from one
        writer.
    signature_decoder.D5. An error line that is part of a message, that adds nothing beside one (`asides`), or that is a
        tuner's (`quiet`), is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Final

from msgspec.structs import replace

from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, LogSource, Severity
from livedbg.model.events import Event, Stamp
from livedbg.signatures.book import Book
from livedbg.signatures.hung_tasks import HungTasks
from livedbg.signatures.model import NEAR, Quiet
from livedbg.signatures.said import LogTold, Said, Told, close, events, lines_of, part_of

_LONGEST: Final = 100_000  # characters that are searched
_ASIDE: Final = 400  # characters of a line that are searched for what is printed beside errors
_compiled = cache(re.compile)  # re's own cache is smaller than the signatures are many


class SignatureDecoder(LogDecoder):
    """Makes a diagnostic of each message that a signature finds. The book is read when a log is.

    Args:
        readers: of what stands below such messages.
    """

    name = "signatures"
    together = 6

    def __init__(self, book: Callable[[], Book], readers: Sequence[HungTasks] = ()) -> None:
        self._given = book
        self._readers = readers
        self._logs: dict[str, LogTold] = {}
        self._changed: dict[str, Told] = {}
        self._quiet_until: dict[tuple[str, str], int] = {}  # by system and log: the last line of it

    @property
    def triggers(self) -> tuple[bytes, ...]:  # type: ignore[override]
        return (*self._book.triggers, *self._read)

    @property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:  # type: ignore[override]
        return self._book.exact

    @property
    def opens(self) -> tuple[bytes, ...]:  # type: ignore[override]
        return (*self._book.opens, *self._read)

    @property
    def _read(self) -> Iterator[bytes]:
        return (word.encode() for reader in self._readers for word in reader.words)

    def opened(self, source: LogSource) -> None:
        self._logs[source.id] = LogTold(source)
        for reader in self._readers:
            reader.opened(source)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        log = self._logs.get(record.source)
        if log is None:
            return (), ()
        for reader in self._readers:
            reader.take(record)
        for system, quiet, pattern in self._quiet:
            held = any(word in record.text for word in quiet.words)
            if held and pattern.search(record.text) is not None:
                self._quiet_until[system, record.source] = (record.last_line or 0) + quiet.lines
                log.use([record])
        parts = [*log.near(record, self._near), record]
        texts = [one.text for one in parts]
        begin = sum(len(text) + 1 for text in texts[:-1])
        found: list[Event] = []
        links: dict[str, int] = {}  # where each message ends in the record
        joined = "\n".join(texts)[: begin + _LONGEST]
        for said, position, end in self._messages(parts, joined, begin):
            part, offset = part_of(texts, position)
            log.use(parts[part : part_of(texts, end)[0] + 1])
            judged = self._judged(said, parts[part])
            if judged is None:
                continue
            number = texts[part].count("\n", 0, offset)
            entry, new = log.keep(judged, parts[part], number, lines_of(joined, position, end))
            if entry is None:
                continue
            links[entry.diagnostic.id] = max(0, end - begin)
            if new:
                found += events(entry, stamp)
            else:
                self._changed[entry.diagnostic.id] = entry
        self._end(record, links, log)
        return found, tuple(links)

    def knows(self, record: LogRecord) -> bool:
        """Return whether a record is part of a message, a tuner's, or adds nothing beside an error (D5)."""
        log = self._logs.get(record.source)
        if log is None:
            return False
        if log.used(record):
            return True
        errors = (one.diagnostic for one in log.told.values() if one.diagnostic.severity.rank >= Severity.ERROR.rank)
        systems = {diagnostic.system for diagnostic in errors}
        asides = (pattern for system, pattern in self._asides if system in systems)
        return any(pattern.search(record.text, 0, _ASIDE) is not None for pattern in asides)

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        """Return the messages repeated since the last call, and what the readers have read."""
        changed, self._changed = self._changed, {}
        again = (event for entry in changed.values() for event in events(entry, stamp))
        return [*again, *(event for reader in self._readers for event in reader.told(stamp))]

    def _end(self, record: LogRecord, links: Mapping[str, int], log: LogTold) -> None:
        """Mark messages that a record says to be over (D3), and those that it repeats."""
        for told in log.told.values():
            over = self._over.get((told.diagnostic.system, told.said.facts.signature))
            if over is None:
                continue
            said = told.diagnostic
            ended = _is_over(told, over, record.text[links.get(said.id, 0) :])
            if ended or (said.id in links and said.message.over):
                told.diagnostic = replace(said, facts=replace(said.message, over=ended))
                self._changed[said.id] = told

    @cached_property
    def _over(self) -> dict[tuple[str, str], re.Pattern[str]]:
        entries = (entry for entry in self._book.entries if entry.signature.over)
        return {(one.room.system, one.signature.id): _compiled(one.signature.over) for one in entries}

    def _messages(self, parts: Sequence[LogRecord], joined: str, begin: int) -> Iterator[tuple[Said, int, int]]:
        """Yield the messages of some records, each with its begin and end."""
        given = self._given_of(parts[-1])
        numbers = set(self._book.of_words(joined[begin:]))
        if begin:
            numbers.update(one for one in self._book.of_words(joined) if self._book.entries[one].lines)
        for number in sorted(numbers):
            entry = self._book.entries[number]
            first = _first(parts, entry.signature.near) if begin and entry.lines else begin
            text = joined[first:] if first else joined
            found = entry.found(text, begin - first, given)
            yield from ((one.said, first + one.begin, first + one.end) for one in found)

    def _given_of(self, record: LogRecord) -> Mapping[str, str]:
        process = self._logs[record.source].source.process
        owner = f"pid {record.pid}" if record.writer and record.pid is not None else record.writer
        return {
            "level": record.severity.value,
            "owner": owner,
            "writer_rank": "" if record.rank is None else str(record.rank),
            "source": record.source,
            "process": process or "",
        }

    def _judged(self, said: Said, record: LogRecord) -> Said | None:
        """Return the message with its severity in its record; None if it does not count (D1, D2)."""
        until = self._quiet_until.get((said.system, record.source))
        if until is not None and (record.line or 0) <= until:
            return None
        if said.system not in self._heeding:
            return said
        if record.severity is Severity.DEBUG:
            return None
        if record.severity is not Severity.WARNING or said.severity.rank < Severity.ERROR.rank:
            return said
        return replace(said, severity=Severity.WARNING, facts=replace(said.facts, warned=True))

    @cached_property
    def _book(self) -> Book:
        return self._given()

    @cached_property
    def _near(self) -> int:
        return max((entry.signature.near for entry in self._book.entries), default=NEAR)

    @cached_property
    def _heeding(self) -> frozenset[str]:
        return frozenset(room.system for room in self._book.rooms if room.file.heeds_levels)

    @cached_property
    def _quiet(self) -> list[tuple[str, Quiet, re.Pattern[str]]]:
        files = ((room.system, room.file.quiet) for room in self._book.rooms)
        return [(system, quiet, _compiled(quiet.pattern)) for system, quiet in files if quiet is not None]

    @cached_property
    def _asides(self) -> list[tuple[str, re.Pattern[str]]]:
        return [(room.system, _compiled(aside)) for room in self._book.rooms for aside in room.file.asides]


def _is_over(told: Told, over: re.Pattern[str], text: str) -> bool:
    """Return whether a text says that a message is over, with the same names as the message."""
    known = told.diagnostic.message.values
    named = (match.groupdict() for match in over.finditer(text))
    return any(all(not value or (known.get(name) or value) == value for name, value in one.items()) for one in named)


def _first(parts: Sequence[LogRecord], near: int) -> int:
    begin = 0
    for part in parts[:-1]:
        if close(part, parts[-1], near):
            break
        begin += len(part.text) + 1
    return begin
