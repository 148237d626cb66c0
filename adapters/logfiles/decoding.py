"""Feeding records to the decoders of the session.

Each record is searched once for the triggers of all decoders (Aho-Corasick: looking for 65 triggers one by one costs
more than everything else that is done to a line).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from ahocorasick_rs import AhoCorasick

from livedbg.events import Event, Stamp, StatusSeen
from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, LogSource, SourceHealth, SourceStatus
from livedbg.sanitize import clean_line

__all__ = ["Decoding"]


class Decoding:
    """The decoders, fed one record at a time, in the order of each source.

    A decoder that raises is reported, and not fed any more; the others go on.

    Args:
        decoders: the session's decoders.
    """

    def __init__(self, decoders: Iterable[LogDecoder]) -> None:
        self._events: list[Event] = []
        self.fed = False
        self._use(list(decoders))

    def _use(self, decoders: list[LogDecoder]) -> None:
        self._decoders = decoders
        self._eager = frozenset(n for n, decoder in enumerate(decoders) if not decoder.triggers)
        wanted = [(t.decode("utf-8", "replace"), n) for n, decoder in enumerate(decoders) for t in decoder.triggers]
        self._owners = [number for _, number in wanted]
        self._matcher = AhoCorasick([trigger for trigger, _ in wanted])

    @property
    def triggers(self) -> tuple[bytes, ...] | None:
        """All triggers; None when some decoder wants every record."""
        if self._eager:
            return None
        return tuple(dict.fromkeys(t for decoder in self._decoders for t in decoder.triggers))

    def opened(self, source: LogSource, stamp: Stamp) -> None:
        """A source begins."""
        for decoder in tuple(self._decoders):
            try:
                decoder.opened(source)
            except Exception as error:
                self._failed(decoder, error, stamp)

    def feed(self, records: Iterable[LogRecord], stamp: Stamp) -> list[LogRecord]:
        """Feed records; gives them with their links."""
        return [self._one(record, stamp) for record in records]

    def flush(self, stamp: Stamp) -> None:
        """All that is there has been fed."""
        self.fed = False
        for decoder in tuple(self._decoders):
            try:
                self._events.extend(decoder.flush(stamp))
            except Exception as error:
                self._failed(decoder, error, stamp)

    def take(self) -> Sequence[Event]:
        """The events that came out since the last time."""
        events, self._events = self._events, []
        return events

    def _one(self, record: LogRecord, stamp: Stamp) -> LogRecord:
        hits = self._matcher.find_matches_as_indexes(record.text, overlapping=True)
        if not hits and not self._eager:
            return record
        links: tuple[str, ...] = ()
        decoders = self._decoders
        for number in sorted(self._eager.union([self._owners[trigger] for trigger, _, _ in hits])):
            decoder = decoders[number]
            try:
                events, found = decoder.feed(record, stamp)
            except Exception as error:
                self._failed(decoder, error, stamp)
                continue
            self.fed = True
            self._events.extend(events)
            links += found
        return msgspec.structs.replace(record, links=links) if links else record

    def _failed(self, decoder: LogDecoder, error: Exception, stamp: Stamp) -> None:
        self._use([other for other in self._decoders if other is not decoder])
        status = SourceStatus(
            source="logs",
            target=f"decoder {decoder.name}",
            health=SourceHealth.FAILED,
            code="internal-error",
            sentence=clean_line(f"the {decoder.name} log decoder failed: {type(error).__name__}: {error}"),
            remedy="please report this; the other decoders go on",
        )
        self._events.append(StatusSeen(status=status, **stamp))
