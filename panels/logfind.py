"""All places in whole logs in which something is found: collected in a thread of its own, log by log."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from livedbg.logs.reader import LogReader
from livedbg.model import Severity

MOST: Final = 1_000_000
"""Places that are collected at most."""


class Places:
    """Lines of one or several logs.

    Args:
        reader: where the lines come from.
        changed: called from another thread when there is more.
        most: lines that are collected at most.

    Attributes:
        found: (log, number of the line from 0), log by log.
        share: how much is done, 0 to 1.
        done: all that there is has been searched, or it was given up.
        full: there may be more, but no more are collected.
        error: why it could not be done, or "".
    """

    def __init__(self, reader: LogReader, changed: Callable[[], None], most: int = MOST) -> None:
        self.found: list[tuple[str, int]] = []
        self.share = 0.0
        self.done = False
        self.full = False
        self.error = ""
        self._reader = reader
        self._changed = changed
        self._most = most
        self._given_up = False

    def cancel(self) -> None:
        """Give up."""
        self._given_up = True

    def matching(self, pattern: str, sources: Sequence[str], start: int = 0) -> Places:
        """Collect the lines of some logs that a pattern is found in, from line `start` of each on.

        It may be called again once it is done, for what has come since.
        """

        def job(source: str, take: Callable[[list[int], float], bool]) -> None:
            self._reader.matches(source, pattern, take, start)

        return self._start(sorted(sources), job)

    def severe(self, least: Severity, source: str) -> Places:
        """Collect the lines of records of at least a severity."""
        return self._start((source,), lambda one, take: self._reader.severe(one, least, take))

    @property
    def count(self) -> int:
        """Lines found so far."""
        return len(self.found)

    @property
    def logs(self) -> int:
        """In how many logs something was found."""
        return len({source for source, _line in self.found})

    def line(self, index: int) -> int | None:
        """The number of a line in its log."""
        return self.found[index][1] if 0 <= index < len(self.found) else None

    def next(self, source: str, line: int, step: int) -> int | None:
        """The next line of a log, behind (1) or before (-1) a line, or that line."""
        at = bisect_left(self.found, (source, line)) if step > 0 else bisect_right(self.found, (source, line)) - 1
        return self.found[at][1] if 0 <= at < len(self.found) and self.found[at][0] == source else None

    def ordinal(self, source: str, line: int) -> int | None:
        """The how manieth match a line is, from 1; None if it is none."""
        at = bisect_left(self.found, (source, line))
        return at + 1 if at < len(self.found) and self.found[at] == (source, line) else None

    def _start(self, sources: Sequence[str], job: Callable[[str, Callable[[list[int], float], bool]], None]) -> Places:
        def taking(source: str, before: int) -> Callable[[list[int], float], bool]:
            def take(lines: list[int], share: float) -> bool:
                free = self._most - len(self.found)
                more = [(source, line) for line in lines[:free]]
                if more and self.found and more[0] < self.found[-1]:  # ranks that write at once
                    self.found = sorted(self.found + more)
                else:
                    self.found.extend(more)
                self.full = self.full or len(lines) > free
                self.share = (before + share) / len(sources)
                if lines:
                    self._changed()
                return not (self._given_up or self.full)

            return take

        def work() -> None:
            for before, source in enumerate(sources):
                try:
                    job(source, taking(source, before))
                except ValueError as error:
                    self.error = str(error)
                if self._given_up or self.full or self.error:
                    break
            self.done = True
            self._changed()

        self.done = False
        threading.Thread(target=work, name="livedbg-places", daemon=True).start()
        return self
