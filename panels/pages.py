"""Lines of whole logs for drawing: pages read in another thread on demand, and searches.

Invariants:
    pages.G1. Memory holds at most PAGES pages, whatever the size of a log.
    pages.G2. Nothing here waits for a log on the caller's thread: missing data is None, and `changed` is called (from
        the reading thread) when it arrives.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from livedbg.logs.reader import LogReader
from livedbg.model import LogRecord

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
        share: progress, 0 to 1.
        found: the matching line, once `done`.
        error: why it failed, or "".
    """

    def __init__(self, reader: LogReader, source: str, changed: Callable[[], None]) -> None:
        self.reader, self.source = reader, source
        self.share = 0.0
        self.done = False
        self.found: int | None = None
        self.error = ""
        self._changed = changed
        self._given_up = False

    def cancel(self) -> None:
        self._given_up = True

    def find(self, pattern: str, start: int, *, backwards: bool) -> None:
        """Search for the next line with `pattern`."""

        def job() -> None:
            try:
                self.found = self.reader.search(
                    self.source, pattern, start, backwards=backwards, progress=self._progress
                )
            except ValueError as error:
                self.error = str(error)

        self._start(job)

    def _progress(self, share: float) -> bool:
        self.share = share
        self._changed()
        return not self._given_up

    def _start(self, job: Callable[[], None]) -> None:
        def work() -> None:
            job()
            self.done = True
            if not self._given_up:
                self._changed()

        threading.Thread(target=work, name="livedbg-search", daemon=True).start()
