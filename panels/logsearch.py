"""Searching logs: the pattern, the next match, and all matches of whole logs, counted in the background."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from livedbg.logs.reader import LogReader
from livedbg.panels.logfind import MOST, Places
from livedbg.panels.pages import Search
from livedbg.text.wording import many


class LogSearch:
    """What is searched for, and what was found of it.

    Args:
        changed: called from another thread when there is more.

    Attributes:
        text: what was typed.
        pattern: of it, to highlight; None while nothing is searched for.
        places: all matches so far.
        step: the search for the next match while that goes on.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.text = ""
        self.pattern: re.Pattern[str] | None = None
        self.places: Places | None = None
        self.step: Search | None = None
        self._changed = changed

    def begin(self, text: str, reader: LogReader | None, sources: Sequence[str]) -> None:
        """Search for a regular expression in whole logs; one without capitals ignores case.

        Raises:
            ValueError: it is no regular expression.
        """
        self.end()
        try:
            self.pattern = re.compile(text, 0 if any(c.isupper() for c in text) else re.IGNORECASE)
        except re.error as error:
            raise ValueError(f"Not a regular expression: {error}") from error
        self.text = text
        if reader is not None and sources:
            self.places = Places(reader, self._changed).matching(text, sources)

    def end(self) -> None:
        """Search for nothing."""
        self.give_up()
        self.text, self.pattern, self.places = "", None, None

    def give_up(self) -> bool:
        """End what is under way; what was found stays.

        Returns:
            Whether anything was.
        """
        running = [job for job in (self.step, self.places) if job is not None and not job.done]
        for job in running:
            job.cancel()
        self.step = None
        return bool(running)

    def known(self, source: str, line: int, step: int) -> tuple[bool, int | None]:
        """The next match behind (1) or before (-1) a line, or that line, if all matches are known.

        Returns:
            Whether it is known, and its line; None where there is none in this direction.
        """
        places = self.places
        if places is None or places.error or not places.done or places.full:
            return False, None
        return True, places.next(source, line, step)

    def find(self, reader: LogReader, source: str, line: int, step: int) -> None:
        """Search for the next match from a line on, before all are counted."""
        if self.step is not None:
            self.step.cancel()
        self.step = Search(reader, source, self._changed)
        self.step.find(self.text, max(line, 0), backwards=step < 0)

    def summary(self, source: str, line: int, whole: bool) -> str:
        """`match 2 of 17`; over several logs `17 matches in 2 logs`.

        Args:
            source: the log that is shown.
            line: the line under the cursor.
            whole: all logs were searched.
        """
        places = self.places
        if places is None:
            return ""
        count = many(places.count, "match")
        if places.full:
            count = f"more than {MOST:,} matches"
        elif not places.done:
            count += f" so far, searching {places.share:.0%} (Escape cancels)"
        if whole:
            return f"{count} in {many(places.logs, 'log')}"
        ordinal = places.ordinal(source, line) if places.done else None
        return count if ordinal is None or places.full else f"match {ordinal:,} of {places.count:,}"
