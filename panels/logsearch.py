"""Whole logs: pages read in another thread on demand, the next match, all matches and error lines.

Invariants:
    pages.G1. Memory holds at most PAGES pages, whatever the size of a log.
    pages.G2. Nothing here waits for a log on the caller's thread: missing data is None, and `changed` is called (from
        the reading thread) when it arrives.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from livedbg.logs.reader import LogReader
from livedbg.model import LogRecord, Severity
from livedbg.text.wording import many

PAGE: Final = 256
PAGES: Final = 64


class LogPages:
    """Cached pages of logs; `changed` is called from another thread when requested data arrives."""

    def __init__(self, reader: LogReader, changed: Callable[[], None]) -> None:
        self.reader = reader
        self._changed = changed
        self._pages: OrderedDict[tuple[str, int], Sequence[LogRecord]] = OrderedDict()
        self._counts: dict[str, tuple[int, bool]] = {}
        self._asked: set[object] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="livedbg-pages")

    def count(self, source: str) -> tuple[int, bool]:
        """Return the known number of lines, and whether that is final; requests an update."""
        self._ask(source, lambda: self._count(source))
        return self._counts.get(source, (0, False))

    def line(self, source: str, number: int) -> LogRecord | None:
        """Return a line, or None while it is being read."""
        page, at = divmod(number, PAGE)
        with self._lock:
            records = self._pages.get((source, page))
            if records is not None:
                self._pages.move_to_end((source, page))
        if records is None:
            self._ask((source, page), lambda: self._read(source, page))
            return None
        return records[at] if at < len(records) else None

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, what: object, job: Callable[[], bool]) -> None:
        with self._lock:
            if what in self._asked:
                return
            self._asked.add(what)

        def work() -> None:
            try:
                news = job()
            finally:
                with self._lock:
                    self._asked.discard(what)
            if news:
                self._changed()

        self._pool.submit(work)

    def _count(self, source: str) -> bool:
        fresh = self.reader.count(source)
        if fresh == self._counts.get(source):
            return False
        self._counts[source] = fresh
        with self._lock:  # a page that was the end is longer now
            for key in [key for key, page in self._pages.items() if key[0] == source and len(page) < PAGE]:
                del self._pages[key]
        return True

    def _read(self, source: str, page: int) -> bool:
        records = self.reader.read(source, page * PAGE, PAGE)
        with self._lock:
            self._pages[(source, page)] = records
            while len(self._pages) > PAGES:
                self._pages.popitem(last=False)
        return True


class Search:
    """One search of a log in a thread of its own, with `cancel`.

    Attributes:
        found: the matching line, once `done`.
        error: why it failed, or "".
    """

    def __init__(self, reader: LogReader, source: str, changed: Callable[[], None]) -> None:
        self.reader, self.source = reader, source
        self.done = False
        self.found: int | None = None
        self.error = ""
        self._changed = changed
        self._given_up = False

    def cancel(self) -> None:
        self._given_up = True

    def find(self, pattern: str, start: int, *, backwards: bool) -> None:
        """Search for the next line with `pattern`."""

        def goes_on(_share: float) -> bool:
            self._changed()
            return not self._given_up

        def work() -> None:
            try:
                self.found = self.reader.search(self.source, pattern, start, backwards=backwards, progress=goes_on)
            except ValueError as error:
                self.error = str(error)
            self.done = True
            if not self._given_up:
                self._changed()

        threading.Thread(target=work, name="livedbg-search", daemon=True).start()


MOST: Final = 1_000_000
"""Places that are collected at most."""


class Places:
    """Matching lines of one or several logs, collected in a thread of its own, log by log.

    Args:
        changed: called from another thread when there is more.
        most: maximum number of collected lines.

    Attributes:
        found: (log, line number from 0), log by log.
        share: progress, 0 to 1.
        done: the search is complete or cancelled.
        full: there may be more, but the maximum is reached.
        error: why it failed, or "".
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
        self._given_up = True

    def matching(self, pattern: str, sources: Sequence[str], start: int = 0) -> Places:
        """Collect the matches of a pattern in some logs, from line `start` of each on.

        It may be called again once it is done, for new lines.
        """

        def job(source: str, take: Callable[[list[int], float], bool]) -> None:
            self._reader.matches(source, pattern, take, start)

        return self._start(sorted(sources), job)

    def severe(self, least: Severity, source: str) -> Places:
        """Collect the lines of records of at least a severity."""
        return self._start((source,), lambda one, take: self._reader.severe(one, least, take))

    @property
    def count(self) -> int:
        return len(self.found)

    @property
    def logs(self) -> int:
        """Return the number of logs with matches."""
        return len({source for source, _line in self.found})

    def line(self, index: int) -> int | None:
        return self.found[index][1] if 0 <= index < len(self.found) else None

    def next(self, source: str, line: int, step: int) -> int | None:
        """Return the next match in a log at or after (1) or at or before (-1) a line."""
        at = bisect_left(self.found, (source, line)) if step > 0 else bisect_right(self.found, (source, line)) - 1
        return self.found[at][1] if 0 <= at < len(self.found) and self.found[at][0] == source else None

    def ordinal(self, source: str, line: int) -> int | None:
        """Return a match's ordinal, from 1; None if the line is no match."""
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


class LogSearch:
    """Current search and its results.

    Args:
        changed: called from another thread when there is more.

    Attributes:
        text: as typed.
        pattern: for highlighting; None without a search.
        places: all matches so far.
        step: the running search for the next match.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.text = ""
        self.pattern: re.Pattern[str] | None = None
        self.places: Places | None = None
        self.step: Search | None = None
        self._changed = changed

    def begin(self, text: str, reader: LogReader | None, sources: Sequence[str]) -> None:
        """Search whole logs for a regex, ignoring case if it has no capitals; raise ValueError if it is invalid."""
        self.end()
        try:
            self.pattern = re.compile(text, 0 if any(c.isupper() for c in text) else re.IGNORECASE)
        except re.error as error:
            raise ValueError(f"Not a regular expression: {error}") from error
        self.text = text
        if reader is not None and sources:
            self.places = Places(reader, self._changed).matching(text, sources)

    def end(self) -> None:
        """End the search."""
        self.give_up()
        self.text, self.pattern, self.places = "", None, None

    def give_up(self) -> bool:
        """Cancel running jobs, keeping results; return whether there were any."""
        running = [job for job in (self.step, self.places) if job is not None and not job.done]
        for job in running:
            job.cancel()
        self.step = None
        return bool(running)

    def known(self, source: str, line: int, step: int) -> tuple[bool, int | None]:
        """Return whether the next match from a line in a direction is known, and its line (None for no match)."""
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
        """Return `match 2 of 17` for the line under the cursor; over several logs (`whole`) `17 matches in 2 logs`."""
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


_ERRORS: Final = (
    r"Traceback \(most recent call|\b(?:ERROR|FATAL|CRITICAL|PANIC)\b|(?:Error|Exception|error|fatal): "
    r"|^[EF]\d{4} |terminate called|Segmentation fault|\bXid \("
)
"""What such lines hold: much quicker to find than to decode every record."""
_MOST: Final = 100_000
_LOGS: Final = 8
_BYTES: Final = 256 * 1024 * 1024
"""A log that is bigger is not searched for marks: it would take seconds of CPU time."""
_GROWN: Final = 200
"""So many lines, and a hundredth of the log, have to come before it is searched on."""


@dataclass(slots=True)
class _Marked:
    places: Places
    lines: int


class ErrorMarks:
    """Error lines of the most recently shown logs; `changed` is called from another thread when there are more."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._of: OrderedDict[str, _Marked] = OrderedDict()

    def of(self, source: str) -> Places | None:
        marked = self._of.get(source)
        return marked.places if marked is not None else None

    def look(self, reader: LogReader, source: str, lines: int, size: int | None) -> None:
        """Search a log, or its new lines."""
        marked = self._of.get(source)
        if marked is None:
            if size is None or size <= _BYTES:
                self._of[source] = _Marked(Places(reader, self._changed, _MOST).matching(_ERRORS, [source]), lines)
                if len(self._of) > _LOGS:
                    self._of.popitem(last=False)[1].places.cancel()
            return
        self._of.move_to_end(source)
        if marked.places.done and lines - marked.lines >= max(_GROWN, marked.lines // 100):
            start, marked.lines = marked.lines, lines
            marked.places.matching(_ERRORS, [source], start)
