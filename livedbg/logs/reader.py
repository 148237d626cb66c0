"""Random access to the records of logs, for the log screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from livedbg.model import LogRecord, Severity

__all__ = ["LogReader"]


class LogReader(Protocol):
    """Reads records by number; thread-safe; memory does not grow with the size of a log."""

    def count(self, source: str) -> tuple[int, bool]:
        """How many lines `source` is known to have so far, and whether that is all of it."""
        ...

    def read(self, source: str, start: int, count: int) -> Sequence[LogRecord]:
        """Up to `count` lines from line `start` (from 0; negative counts from the end), one record a line."""
        ...

    def search(
        self,
        source: str,
        pattern: str,
        start: int = 0,
        *,
        backwards: bool = False,
        progress: Callable[[float], bool] | None = None,
    ) -> int | None:
        """Number of the next line that `pattern` (a regular expression) is found in.

        Args:
            source: id of a LogSource.
            pattern: regular expression, case-insensitive when it is all lower case.
            start: line to begin at.
            backwards: towards the beginning.
            progress: called with the share done (0 to 1) now and then; returns False to give up.

        Returns:
            The line's number from 0, or None: not found or given up.

        Raises:
            ValueError: `pattern` is no regular expression.
        """
        ...

    def matches(self, source: str, pattern: str, found: Callable[[list[int], float], bool], start: int = 0) -> None:
        """Numbers of all lines that `pattern` is found in.

        Args:
            source: id of a LogSource.
            pattern: as for `search`.
            found: called with more of them, in order, and the share that is done (0 to 1); returns False to give up.
            start: line to begin at.

        Raises:
            ValueError: `pattern` is no regular expression.
        """
        ...

    def severe(self, source: str, least: Severity, found: Callable[[list[int], float], bool]) -> None:
        """Numbers of all lines of records of at least the severity `least`, so of all lines of a traceback.

        Args:
            source: id of a LogSource.
            least: the least severity.
            found: as for `matches`; the lines of one rank come in order.
        """
        ...
