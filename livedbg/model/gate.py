"""The gate between event producers and the state: cleans all strings of control characters.

Adapters clean what they read (entities.M4). The gate does not rely on it: a single forgotten name would reach the
terminal, and a recording may be made by hand.

Invariants:
    gate.G1. Each string of an event that has passed is clean (livedbg.text.sanitize), and each integer fits into 64
        bits. One exception: `LogSource.path` of a live session, by which the file is opened.
    gate.G2. An event that is clean passes as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from livedbg.model.events import Event, LogSourceSeen, decode
from livedbg.text.json_text import clean_value, needs_cleaning
from livedbg.text.patterns import lazy_re

_encoder = msgspec.json.Encoder()
_WIDE: Final = lazy_re(rb"[0-9]{19}")  # digits of an integer that may need more than 63 bits


def gated(events: Iterable[Event]) -> list[Event]:
    """Clean the events of a live session."""
    return [_gated(event) for event in events]


def gated_line(line: bytes) -> Event:
    """Decode and clean the event of a recording's line.

    Raises:
        msgspec.DecodeError: not JSON, not an event, or of a type that this version does not know.
        ValueError: not UTF-8.
        RecursionError: nested too deeply.
    """
    event = decode(line)
    return _cleaned(event) if needs_cleaning(line) or _WIDE.search(line) else event


def _gated(event: Event) -> Event:
    try:
        if not needs_cleaning(_encoder.encode(event)):
            return event
    except (UnicodeEncodeError, OverflowError):
        pass
    cleaned = _cleaned(event)
    if isinstance(cleaned, LogSourceSeen) and isinstance(event, LogSourceSeen):
        source = msgspec.structs.replace(cleaned.source, path=event.source.path)
        return msgspec.structs.replace(cleaned, source=source)
    return cleaned


def _cleaned(event: Event) -> Event:
    return msgspec.convert(clean_value(msgspec.to_builtins(event)), type(event))
