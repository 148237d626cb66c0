"""The decoder of all signatures.

Invariants:
    signature_decoder.D1. What a logger calls a warning is a note, and what it calls less is nothing, where a file says
        that levels count (`heeds_levels`).
    signature_decoder.D2. Near a line of a tuner (`quiet`) nothing of that file's system is a failure.
    signature_decoder.D3. What a later line says to be over (`over`) is a note, until it is said again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from livedbg.logs.said import Said, SaidDecoder
from livedbg.model import LogRecord, Severity
from livedbg.model.events import Event, Stamp
from livedbg.signatures.book import Book
from livedbg.signatures.model import Quiet

__all__ = ["SignatureDecoder"]


class SignatureDecoder(SaidDecoder):
    """Makes a diagnostic of each message that a signature finds.

    Args:
        book: gives the signatures: they are read when a log is.
    """

    name = "signatures"
    together = 6

    def __init__(self, book: Callable[[], Book]) -> None:
        super().__init__()
        self._given = book
        self._quiet_until: dict[tuple[str, str], int] = {}  # by system and log: the last line of it

    @property
    def triggers(self) -> tuple[bytes, ...]:  # type: ignore[override]
        """See LogDecoder."""
        return self._book.triggers

    @property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:  # type: ignore[override]
        """See LogDecoder."""
        return self._book.exact

    @property
    def opens(self) -> tuple[bytes, ...]:  # type: ignore[override]
        """See LogDecoder: what goes on in other lines, or may soon be over."""
        ends = (entry for entry in self._book.entries if entry.signature.over and not entry.parts)
        entries = (*ends, *(entry for entry in self._book.entries if entry.signature.follows))
        return tuple(word.encode() for entry in entries for word in entry.words)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record."""
        for system, quiet, pattern in self._quiet:
            held = any(word in record.text for word in quiet.words)
            if held and pattern.search(record.text) is not None:
                self._quiet_until[system, record.source] = (record.last_line or 0) + quiet.lines
        events, links = super().feed(record, stamp)
        self._end(record, links)
        return events, links

    def _end(self, record: LogRecord, links: Collection[str]) -> None:
        """What a record says to be over (D3), and what it says again."""
        log = self._logs.get(record.source)
        for told in log.told.values() if log is not None else ():
            over = self._over.get((told.diagnostic.system, told.said.attributes["signature"]))
            if over is None:
                continue
            said, ended = told.diagnostic, told.diagnostic.id not in links and over.search(record.text) is not None
            if ended or (said.id in links and "over" in said.attributes):
                attributes = {name: value for name, value in said.attributes.items() if name != "over"}
                told.diagnostic = replace(said, attributes=attributes | ({"over": "yes"} if ended else {}))
                self._changed[said.id] = told

    @cached_property
    def _over(self) -> dict[tuple[str, str], re.Pattern[str]]:
        entries = (entry for entry in self._book.entries if entry.signature.over)
        return {(one.room.system, one.signature.id): re.compile(one.signature.over) for one in entries}

    def messages(self, texts: Sequence[str], joined: str, begin: int) -> Iterator[tuple[Said, int, int]]:
        """See SaidDecoder."""
        own = joined[begin:]
        for number in self._book.of_words(joined):
            entry = self._book.entries[number]
            if begin and entry.lines:
                yield from ((one.said, one.begin, one.end) for one in entry.found(joined, begin))
            else:
                yield from ((one.said, begin + one.begin, begin + one.end) for one in entry.found(own))

    def judge(self, said: Said, record: LogRecord) -> Said | None:
        """See SaidDecoder."""
        until = self._quiet_until.get((said.system, record.source))
        if until is not None and (record.line or 0) <= until:
            return None
        if said.system not in self._heeding:
            return said
        if record.severity is Severity.DEBUG:
            return None
        return replace(said, severity=Severity.WARNING) if record.severity is Severity.WARNING else said

    def asides_of(self, systems: Collection[str]) -> Iterable[re.Pattern[str]]:
        """See SaidDecoder."""
        return (pattern for system, pattern in self._asides if system in systems)

    @cached_property
    def _book(self) -> Book:
        return self._given()

    @cached_property
    def _heeding(self) -> frozenset[str]:
        return frozenset(room.system for room in self._book.rooms if room.file.heeds_levels)

    @cached_property
    def _quiet(self) -> list[tuple[str, Quiet, re.Pattern[str]]]:
        files = ((room.system, room.file.quiet) for room in self._book.rooms)
        return [(system, quiet, re.compile(quiet.pattern)) for system, quiet in files if quiet is not None]

    @cached_property
    def _asides(self) -> list[tuple[str, re.Pattern[str]]]:
        return [(room.system, re.compile(aside)) for room in self._book.rooms for aside in room.file.asides]
