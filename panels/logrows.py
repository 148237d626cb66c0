"""What the rows of the Logs screen are: newest records of all logs, the lines of one log, or chosen lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.model import LogRecord, Severity
from livedbg.panels.logfind import Places
from livedbg.panels.logfold import Said
from livedbg.panels.pages import LogPages

_NOTHING: Final[Sequence[int]] = ()


class LogRows(ABC):
    """Rows of records."""

    @abstractmethod
    def count(self) -> int:
        """How many there are."""

    @abstractmethod
    def record(self, row: int) -> LogRecord | None:
        """The record of a row; None while it is being read, or where there is no such row."""

    def ranks(self, row: int) -> str:
        """Which ranks said it, where several did: `ranks 0,1,3-7`."""
        return ""

    def errors(self) -> Iterable[int]:
        """Rows that are errors, as far as is known."""
        return _NOTHING


class NewestRecords(LogRows):
    """Records that the state keeps, equal ones of several ranks as one row."""

    def __init__(self, said: Sequence[Said]) -> None:
        self.said = said

    def count(self) -> int:
        """Records."""
        return len(self.said)

    def record(self, row: int) -> LogRecord | None:
        """The record of a row."""
        return self.said[row].record if 0 <= row < len(self.said) else None

    def ranks(self, row: int) -> str:
        """Which ranks said it."""
        return self.said[row].who if 0 <= row < len(self.said) else ""

    def errors(self) -> Iterable[int]:
        """Records of severity ERROR and worse."""
        return (row for row, one in enumerate(self.said) if one.record.severity.rank >= Severity.ERROR.rank)


class LogLines(LogRows):
    """All lines of one log."""

    def __init__(self, pages: LogPages | None, source: str, errors: Places | None) -> None:
        self.pages = pages
        self.source = source
        self.marks = errors

    def count(self) -> int:
        """Lines that are known of."""
        return self.pages.count(self.source)[0] if self.pages is not None else 0

    def record(self, row: int) -> LogRecord | None:
        """One line."""
        return self.pages.line(self.source, row) if self.pages is not None else None

    def errors(self) -> Iterable[int]:
        """Lines that call themselves errors."""
        return (line for _source, line in self.marks.found) if self.marks is not None else _NOTHING


class ChosenLines(LogRows):
    """Lines of one or several logs: matches, or lines of severe records."""

    def __init__(self, pages: LogPages | None, places: Places) -> None:
        self.pages = pages
        self.places = places

    def count(self) -> int:
        """Lines that have been found."""
        return self.places.count

    def record(self, row: int) -> LogRecord | None:
        """One of them."""
        if self.pages is None or not 0 <= row < self.places.count:
            return None
        source, line = self.places.found[row]
        return self.pages.line(source, line)
