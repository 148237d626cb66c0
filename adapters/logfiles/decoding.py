"""Feeding records to the decoders of the session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

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
        # the triggers of a decoder in the order of their last hits: the next record is often like the last one
        self._decoders = [(decoder, [t.decode("utf-8", "replace") for t in decoder.triggers]) for decoder in decoders]
        self._events: list[Event] = []
        self.fed = False

    @property
    def triggers(self) -> tuple[bytes, ...] | None:
        """All triggers; None when some decoder wants every record."""
        if any(not decoder.triggers for decoder, _ in self._decoders):
            return None
        return tuple(dict.fromkeys(t for decoder, _ in self._decoders for t in decoder.triggers))

    def opened(self, source: LogSource, stamp: Stamp) -> None:
        """A source begins."""
        for decoder, _ in tuple(self._decoders):
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
        for decoder, _ in tuple(self._decoders):
            try:
                self._events.extend(decoder.flush(stamp))
            except Exception as error:
                self._failed(decoder, error, stamp)

    def take(self) -> Sequence[Event]:
        """The events that came out since the last time."""
        events, self._events = self._events, []
        return events

    def _one(self, record: LogRecord, stamp: Stamp) -> LogRecord:
        text = record.text
        links: tuple[str, ...] = ()
        for decoder, triggers in self._decoders:
            for number, trigger in enumerate(triggers):
                if trigger in text:
                    if number:
                        triggers.insert(0, triggers.pop(number))
                    break
            else:
                if triggers:
                    continue
            try:
                events, found = decoder.feed(record, stamp)
            except Exception as error:
                self._failed(decoder, error, stamp)
                break
            self.fed = True
            self._events.extend(events)
            links += found
        return msgspec.structs.replace(record, links=links) if links else record

    def _failed(self, decoder: LogDecoder, error: Exception, stamp: Stamp) -> None:
        self._decoders = [(other, triggers) for other, triggers in self._decoders if other is not decoder]
        status = SourceStatus(
            source="logs",
            target=f"decoder {decoder.name}",
            health=SourceHealth.FAILED,
            code="internal-error",
            sentence=clean_line(f"the {decoder.name} log decoder failed: {type(error).__name__}: {error}"),
            remedy="please report this; the other decoders go on",
        )
        self._events.append(StatusSeen(status=status, **stamp))
