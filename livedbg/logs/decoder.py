"""The contract for what understands the records of a runtime's log.

The adapter that reads logs feeds every record to the decoders of the session. A decoder is a
pure state machine: records in, events out, no I/O, so that a log of a file, of a pipe and of a
recording are understood alike.
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
    """Understands one runtime's records.

    Class attributes:
        name: the system it speaks for (`System.name`), or what it reads.
        triggers: byte strings, at least one of which is in every record that this decoder can
            use. A reader may skip records (and whole blocks of a big file) without any.
        exact: of a trigger that stands in many ordinary lines: what begins with it in those that count. It sees the
            bytes of the file: between two words may stand what colours them.
        opens: triggers behind which the next FOLLOWED lines are for this decoder too: rows of a table, for one.
        beats: byte strings of lines that say no more than that the log goes on, and when. Of such lines in a row a
            reader may leave out all but the last; they get no links.
    """

    name: ClassVar[str]
    triggers: ClassVar[tuple[bytes, ...]]
    exact: ClassVar[Mapping[bytes, re.Pattern[bytes]]] = _NONE
    opens: ClassVar[tuple[bytes, ...]] = ()
    beats: ClassVar[tuple[bytes, ...]] = ()

    def opened(self, source: LogSource) -> None:  # noqa: B027 (optional hook)
        """A source begins. Called before its first record."""

    @abstractmethod
    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take one record.

        Args:
            record: sanitised; `text` may hold several lines.
            stamp: the stamp for the events that this makes. For a live source `stamp` is now; for
                old records read from a file it is now too, and the record's own time is in
                `record.wall_ns` / `record.mono_ns`.

        Returns:
            The events that follow from it, and the identifiers of the entities that it speaks of
            (they become the record's `links`).
        """

    def alone(self, trigger: bytes) -> Feed:
        """What takes records in which one trigger stands once, and no other of this decoder's: `feed` or quicker.

        Args:
            trigger: one of `triggers`.
        """
        return self.feed

    def knows(self, record: LogRecord) -> bool:
        """Whether an error record that led to no event of its own is understood all the same.

        It may be one of several lines of which a conclusion is made later, or what a runtime writes while it ends
        for an error that was reported. Such a record is not counted among those that nobody understands.
        """
        return False

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        """All records that are there now have been fed: what can be concluded from that."""
        return ()

    def over(self) -> None:  # noqa: B027 (optional hook)
        """Nothing more will be fed: all logs have ended, or nobody reads them any more."""
