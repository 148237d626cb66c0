"""Feeding records to the decoders of the session.

Each record is searched once for the triggers of all decoders (Aho-Corasick: searching for 65 triggers one by one costs
more than everything else that is done to a line).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from ahocorasick_rs import AhoCorasick, Implementation

from livedbg.logs.decoder import FOLLOWED, Feed, LogDecoder
from livedbg.logs.error_lines import ERROR_CHARACTERS, EXPLICIT, ErrorLines, UnreadErrors
from livedbg.logs.last_words import stores_others
from livedbg.model import SOURCE_FAILED, LogRecord, LogSource, Severity, SourceHealth, SourceStatus
from livedbg.model.events import DiagnosticSeen, Event, Stamp, StatusSeen
from livedbg.model.foreign_code import in_words, plain
from livedbg.text.sanitize import clean_line

_NO_ERRORS: Final = ErrorLines()
_AT_ONCE: Final = 500  # records that are searched at once
_MANY: Final = 50_000  # records after which an automaton of 5 MB, which is faster, is worth its making


@functools.lru_cache(maxsize=2)
def _matcher_of(words: tuple[bytes, ...], *, large: bool = False) -> AhoCorasick:
    """Return an automaton that finds words; building it costs more than searching a log of some thousand lines.

    Args:
        large: it searches faster, and takes more memory and time to build.
    """
    implementation = Implementation.DFA if large else None
    return AhoCorasick([word.decode("utf-8", "replace") for word in words], implementation=implementation)


class Decoding:
    """Feeds the decoders one record at a time, in the order of each source.

    A decoder that raises is reported, and not fed any more; the others go on.
    """

    def __init__(self, decoders: Iterable[LogDecoder]) -> None:
        self._events: list[Event] = []
        self.fed = False
        self._understood = False  # some decoder has made an event of the record
        self._unread: dict[str, UnreadErrors] = {}
        self._decoders = list(decoders)
        self._order = {decoder: number for number, decoder in enumerate(self._decoders)}
        self._ready = False

    def _use(self, decoders: list[LogDecoder]) -> None:
        """Read the triggers of the decoders: lazily, since it is not needed before a log is read."""
        self._ready = True
        self._decoders = decoders
        self._order = {decoder: number for number, decoder in enumerate(decoders)}
        self._eager = tuple(decoder for decoder in decoders if not decoder.triggers)
        words = [(word, decoder) for decoder in decoders for word in decoder.triggers]
        self._first_beat = len(words)
        words += [(word, decoder) for decoder in decoders for word in decoder.beats]
        self._owners = [decoder for _, decoder in words]
        opens = {decoder: frozenset(decoder.opens) for decoder in decoders}
        self._opening = frozenset(number for number, (word, decoder) in enumerate(words) if word in opens[decoder])
        self._following: dict[str, dict[LogDecoder, int]] = {}
        self._only = functools.cache(self._wanted_by)
        self._words = tuple(word for word, _ in words)
        self._matcher = _matcher_of(self._words)
        self._left = _MANY

    def _wanted_by(self, number: int) -> tuple[LogDecoder, Feed] | None:
        """Return the decoder of a record with this one trigger, if nothing else has to be done with the record."""
        owner = self._owners[number]
        more = self._eager or number >= self._first_beat or number in self._opening
        return None if more else (owner, owner.alone(self._words[number]))

    @property
    def triggers(self) -> tuple[bytes, ...] | None:
        """All triggers; None if some decoder wants every record."""
        if any(not decoder.triggers for decoder in self._decoders):
            return None
        return tuple(dict.fromkeys(t for decoder in self._decoders for t in decoder.triggers))

    @property
    def exact(self) -> Mapping[bytes, re.Pattern[bytes]]:
        """Triggers -> the pattern that must match where they begin, if all decoders with that trigger have the same."""
        found: dict[bytes, set[re.Pattern[bytes] | None]] = {}
        for decoder in self._decoders:
            for word in decoder.triggers:
                found.setdefault(word, set()).add(decoder.exact.get(word))
        return {word: only for word, forms in found.items() if len(forms) == 1 and (only := next(iter(forms)))}

    @property
    def opens(self) -> tuple[bytes, ...]:
        """Triggers after which a decoder wants the following lines."""
        return tuple(dict.fromkeys(word for decoder in self._decoders for word in decoder.opens))

    @property
    def beats(self) -> tuple[bytes, ...]:
        """Texts of lines of which only the last in a row is fed."""
        return tuple(dict.fromkeys(t for decoder in self._decoders for t in decoder.beats))

    def errors(self, source: str) -> ErrorLines:
        """Return the records of a source with severity ERROR or worse that no decoder understands."""
        unread = self._unread.get(source)
        return unread.lines() if unread is not None else _NO_ERRORS

    def opened(self, source: LogSource, stamp: Stamp) -> None:
        for decoder in tuple(self._decoders):
            try:
                decoder.opened(source)
            except BaseException as error:
                self._failed(decoder, plain(error), stamp)

    def feed(self, records: Iterable[LogRecord], stamp: Stamp) -> list[LogRecord]:
        """Feed records of one source; return them with their links."""
        if not self._ready:
            self._use(self._decoders)
        beats: dict[LogDecoder, LogRecord] = {}
        waiting, fed = list(records), list[LogRecord]()
        for begin in range(0, len(waiting), _AT_ONCE):
            self._some(waiting[begin : begin + _AT_ONCE], beats, stamp, fed)
        for decoder, record in beats.items():
            self._hand(decoder, record, stamp)
        return fed

    def flush(self, stamp: Stamp) -> None:
        """Flush the decoders after everything there is has been fed."""
        self.fed = False
        for decoder in tuple(self._decoders):
            try:
                self._events.extend(decoder.flush(stamp))
            except BaseException as error:
                self._failed(decoder, plain(error), stamp)

    def take(self) -> Sequence[Event]:
        """Return and reset the collected events."""
        events, self._events = self._events, []
        return events

    def _some(
        self, records: Sequence[LogRecord], beats: dict[LogDecoder, LogRecord], stamp: Stamp, fed: list[LogRecord]
    ) -> None:
        """Feed some records, all of which are searched at once."""
        text = "\0".join([record.text for record in records])
        if self._left > 0:
            self._left -= len(records)
            if self._left <= 0:
                self._matcher = _matcher_of(self._words, large=True)
        matcher = self._matcher
        of_each = _of_each(records, matcher.find_matches_as_indexes(text, overlapping=True))
        stored = "level=" in text or ': {"' in text
        for record, these in zip(records, of_each, strict=True):
            words = these
            if matcher is not self._matcher:  # a decoder has failed: others have these numbers now
                found = self._matcher.find_matches_as_indexes(record.text, overlapping=True)
                words = tuple(word for word, _, _ in found)
            if words and stored and stores_others(record):
                fed.append(record)  # what others logged
            elif len(words) == 1 and not (beats or self._following) and (only := self._only(words[0])) is not None:
                fed.append(self._alone(*only, record, stamp))
            elif words or self._eager or self._following:
                fed.append(self._one(record, words, beats, stamp))
            else:
                self._understood = False
                fed.append(self._done(record, ()))

    def _alone(self, decoder: LogDecoder, feed: Feed, record: LogRecord, stamp: Stamp) -> LogRecord:
        """Feed a record to the only decoder that wants it."""
        self.fed = True
        try:
            events, links = feed(record, stamp)
        except BaseException as error:
            self._failed(decoder, plain(error), stamp)
            events, links = (), ()
        severity = record.severity
        if not (events or links or severity is Severity.ERROR or severity is Severity.CRITICAL):
            return record
        self._understood = bool(events)
        self._events.extend(_with_writer(event, record) for event in events)
        return self._done(record, links)

    def _done(self, record: LogRecord, links: tuple[str, ...]) -> LogRecord:
        """Return a fed record with its links; count it if it is an error that was not understood."""
        severity = record.severity
        if (severity is Severity.ERROR or severity is Severity.CRITICAL) and not (self._understood or links):
            self._not_understood(record)
        return msgspec.structs.replace(record, links=links) if links else record

    def _one(
        self, record: LogRecord, words: Sequence[int], beats: dict[LogDecoder, LogRecord], stamp: Stamp
    ) -> LogRecord:
        self._understood = False
        followed = self._followed(record) if record.source in self._following else ()
        owners, opening, first_beat = self._owners, self._opening, self._first_beat  # others, when a decoder fails
        wanted, beating = [*self._eager, *followed], list[LogDecoder]()
        for word in words:
            owner = owners[word]
            if word >= first_beat:
                beating.append(owner)
            elif owner not in wanted:
                wanted.append(owner)
            if word in opening:
                self._following.setdefault(record.source, {})[owner] = FOLLOWED
        if len(wanted) > 1:
            wanted.sort(key=self._order.__getitem__)
        links: tuple[str, ...] = ()
        for decoder in wanted:
            earlier = beats.pop(decoder, None) if beats else None
            if earlier is not None:
                self._hand(decoder, earlier, stamp)
            links += self._hand(decoder, record, stamp)
        for decoder in beating:
            if decoder not in wanted:
                beats[decoder] = record
        return self._done(record, links)

    def _followed(self, record: LogRecord) -> Sequence[LogDecoder]:
        """Return the decoders that want a record because it follows one of theirs."""
        following = self._following[record.source]
        decoders = tuple(following)
        lines = record.text.count("\n") + 1
        for decoder in decoders:
            following[decoder] -= lines
            if following[decoder] <= 0:
                del following[decoder]
        if not following:
            del self._following[record.source]
        return decoders

    def _not_understood(self, record: LogRecord) -> None:
        if EXPLICIT.search(record.text, 0, ERROR_CHARACTERS) is None:
            return
        if record.source not in self._unread:
            self._unread[record.source] = UnreadErrors(self._knows)
        self._unread[record.source].add(record)

    def _knows(self, record: LogRecord) -> bool:
        return any(decoder.knows(record) for decoder in self._decoders)

    def _hand(self, decoder: LogDecoder, record: LogRecord, stamp: Stamp) -> tuple[str, ...]:
        if decoder not in self._order:
            return ()  # it has failed
        try:
            events, links = decoder.feed(record, stamp)
        except BaseException as error:
            self._failed(decoder, plain(error), stamp)
            return ()
        self.fed = True
        if events:
            self._understood = True
            self._events.extend(_with_writer(event, record) for event in events)
        return links

    def _failed(self, decoder: LogDecoder, error: Exception, stamp: Stamp) -> None:
        self._use([other for other in self._decoders if other is not decoder])
        status = SourceStatus(
            source="logs",
            target=f"decoder {decoder.name}",
            health=SourceHealth.FAILED,
            code=SOURCE_FAILED,
            sentence=clean_line(f"the {decoder.name} log decoder failed: {in_words(error)}"),
            remedy="please report this bug; the other decoders continue",
        )
        self._events.append(StatusSeen(status=status, **stamp))


def _of_each(records: Sequence[LogRecord], found: Iterable[tuple[int, int, int]]) -> list[tuple[int, ...]]:
    """Return the words in each of several records, whose texts were joined by one character; `found` by end."""
    words: list[tuple[int, ...]] = [()] * len(records)
    number, end = -1, -1
    for word, begin, _ in found:
        while begin > end:
            number += 1
            end += len(records[number].text) + 1
        words[number] += (word,)
    return words


def _with_writer(event: Event, record: LogRecord) -> Event:
    """Set a diagnostic's writer to that of its record, unless it names one."""
    if isinstance(event, DiagnosticSeen) and not event.diagnostic.writer:
        writer = record.writer
        if writer:
            said = msgspec.structs.replace(event.diagnostic, writer=writer)
            return msgspec.structs.replace(event, diagnostic=said)
    return event
