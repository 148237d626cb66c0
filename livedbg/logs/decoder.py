"""The contract of a log decoder, which understands the records of a runtime's log.

The adapter that reads logs feeds every record to the decoders of the session. A decoder is a pure state machine:
records in, events out, no I/O, so that logs of files, pipes and recordings are understood alike.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

from livedbg.model import LogRecord, LogSource
from livedbg.model.events import Event, Stamp

Feed = Callable[[LogRecord, Stamp], tuple[Sequence[Event], tuple[str, ...]]]
"""Takes a record: `LogDecoder.feed`."""

FOLLOWED: Final = 256
"""Lines behind one that opens something that its decoder gets, whatever is in them."""

_NONE: Final[Mapping[bytes, re.Pattern[bytes]]] = MappingProxyType({})


class LogDecoder(ABC):
    """A decoder of one runtime's records.

    Class attributes:
        name: the system of its events (`System.name`), or what it reads.
        triggers: byte strings, at least one of which is in every record that this decoder can use. A reader may skip
            records (and whole blocks of a big file) without any.
        exact: for a trigger that is in many ordinary lines: the pattern that must match where it begins. It sees the
            bytes of the file: escape sequences for colours may be between two words.
        opens: triggers after which the next FOLLOWED lines are for this decoder too: rows of a table, for one.
        beats: byte strings of lines that only show that the log goes on, and when. Of consecutive ones a reader may
            leave out all but the last; they get no links.
    """

    name: ClassVar[str]
    triggers: ClassVar[tuple[bytes, ...]]
    exact: ClassVar[Mapping[bytes, re.Pattern[bytes]]] = _NONE
    opens: ClassVar[tuple[bytes, ...]] = ()
    beats: ClassVar[tuple[bytes, ...]] = ()

    def opened(self, source: LogSource) -> None:  # noqa: B027 (optional hook)
        """Called before the first record of a source."""

    @abstractmethod
    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record.

        Args:
            record: sanitised; `text` may hold several lines.
            stamp: for the resulting events. It is now, even for old records read from a file, whose own time is in
                `record.wall_ns` / `record.mono_ns`.

        Returns:
            The resulting events, and the identifiers of the entities that the record mentions (they become its
                `links`).
        """

    def alone(self, trigger: bytes) -> Feed:
        """Return a function for records in which one trigger occurs once, and no other of this decoder's: `feed` or
        quicker.
        """
        return self.feed

    def knows(self, record: LogRecord) -> bool:
        """Return whether an error record that led to no event of its own is understood all the same.

        It may be one of several lines of which a conclusion is made later, or a runtime's output while it ends for an
        error that was reported. Such a record is not counted as unknown.
        """
        return False

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        """Return the conclusions from all records fed so far."""
        return ()

    def over(self) -> None:  # noqa: B027 (optional hook)
        """Called when nothing more will be fed: all logs have ended, or nobody reads them any more."""
