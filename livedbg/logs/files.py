"""Random access to the logs of a live session, straight from their files.

One background thread (started on first use) indexes the requested logs and keeps up with their growth; a log's end can
be read before the index has reached it.

The index keeps one number for each block of the file: how many lines end before the block's end. To find a line, the
block is searched by bisection and scanned again. Counting is one pass of `bytes.count`, about the speed of `wc -l`; the
memory is 8 bytes for each 64 KiB of log.

Invariants:
    files.B1. Memory does not grow with a log, except 8 bytes for each 64 KiB of it (livedbg.logs.index), nor with the
        number of logs: the least recently used are closed.
    files.B2. A file that was replaced or cut short is opened and indexed anew.
    files.B3. A method never raises for the content of a file or for a file that can't be read: it has no lines.
    files.W1. A line is one of a severe record if the record that it is part of has at least the requested severity.
    files.X1. For every indexed line n: `line_at(offset_of(n)) == n`, and `offset_of` agrees with splitting the whole
        file at newlines.
    files.X2. The index of a file that grew is the index of the longer file.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from livedbg.linux import target_files
from livedbg.logs.bytesource import ByteSource, open_bytes
from livedbg.logs.clock import SourceClock
from livedbg.logs.formats import CORE, LogFormats
from livedbg.logs.lines import LINE_LIMIT, Line, LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.logs.search import (
    Matcher,
    Progress,
    ShownMatcher,
    compile_pattern,
    search_all,
    search_backward,
    search_forward,
)
from livedbg.logs.wrapping.door import FrontDoor
from livedbg.model import LogRecord, LogSource, Severity

BLOCK = 64 * 1024
"""Bytes of the file for one entry of the index."""

_STEP = 4 * BLOCK


class LineIndex:
    """Index of line ends by block. Not thread-safe: the owner locks."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        self._ends = array("Q")  # line ends before the end of each whole block
        self._scanned = 0
        self._newlines = 0
        self._ends_with_newline = True

    @property
    def scanned(self) -> int:
        """Return how many bytes from the beginning are indexed."""
        return self._scanned

    @property
    def lines(self) -> int:
        """Return the number of indexed lines; a last line without an end counts."""
        return self._newlines + (not self._ends_with_newline)

    def extend(self, size: int, budget: int = 16 * BLOCK) -> bool:
        """Index up to `budget` more bytes of the first `size`; return whether there is more to do."""
        while budget > 0 and self._scanned < size:
            data = self._read(self._scanned, min(_STEP - self._scanned % BLOCK, size - self._scanned))
            if not data:
                return False
            self._count(data)
            budget -= len(data)
        return self._scanned < size

    def _count(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            end = min(len(data), position + BLOCK - self._scanned % BLOCK)
            self._newlines += data.count(b"\n", position, end)
            self._scanned += end - position
            position = end
            if self._scanned % BLOCK == 0:
                self._ends.append(self._newlines)
        self._ends_with_newline = data.endswith(b"\n")

    def offset_of(self, line: int) -> int | None:
        """Return the offset of line `line` (from 0); None if not indexed."""
        if line == 0:
            return 0
        if line < 0 or line >= self.lines:
            return None
        block = bisect_left(self._ends, line)  # the first block that holds the line's start or the newline before it
        left = line - (self._ends[block - 1] if block else 0)
        data = self._read(block * BLOCK, BLOCK)
        position = -1
        for _ in range(left):
            position = data.find(b"\n", position + 1)
            if position < 0:
                return None  # the file changed behind the index
        return block * BLOCK + position + 1

    def line_at(self, offset: int) -> int:
        """Return the number (from 0) of the line of the byte at `offset`, which must be indexed."""
        block = offset // BLOCK
        before = self._ends[block - 1] if block else 0
        return before + self._read(block * BLOCK, offset - block * BLOCK).count(b"\n")

    def next_line_end(self, offset: int) -> int:
        """Return `offset`, or the later beginning of the first indexed block in which a line ends.

        Only the beginning of a block can be moved.
        """
        block, rest = divmod(offset, BLOCK)
        if rest or block >= len(self._ends):
            return offset
        before = self._ends[block - 1] if block else 0
        return bisect_right(self._ends, before, lo=block) * BLOCK


_OPEN_AT_ONCE = 32  # files kept open
_CHECK_S = 0.25  # how often growth and replacement are checked
_LINES = 2_000  # read at once where all lines are read


class FileLogReader:
    """A livedbg.logs.reader.LogReader over the files of log sources. Lines not indexed yet are missing, except at the
    end.

    `shown` masks or cleans the texts of consecutive lines for display.
    """

    def __init__(
        self,
        source: Callable[[str], LogSource | None],
        formats: LogFormats = CORE,
        shown: Callable[[Sequence[str]], Sequence[str]] = tuple,
    ) -> None:
        self._shown = shown
        self._source = source
        self._formats = formats
        self._logs: OrderedDict[str, _OpenLog] = OrderedDict()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def count(self, source: str) -> tuple[int, bool]:
        log = self._log(source)
        if log is None:
            return 0, True
        with log.lock:
            return log.index.lines, log.complete

    def read(self, source: str, start: int, count: int) -> Sequence[LogRecord]:
        log = self._log(source)
        if log is None or count <= 0:
            return ()
        with log.lock:
            if log.closed:
                return ()
            number: int | None = start
            if start < 0:
                offset, number = self._from_end(log, -start)
                records = self._records(log, offset, number, min(count, -start))
            else:
                found = log.index.offset_of(start)
                records = [] if found is None else self._records(log, found, number, count)
        shown = self._shown([record.text for record in records])
        return [replace(record, text=text) for record, text in zip(records, shown, strict=True)]

    def _shown_alone(self, text: str) -> str:
        return self._shown((text,))[0]

    def search(
        self,
        source: str,
        pattern: str,
        start: int = 0,
        *,
        backwards: bool = False,
        progress: Progress | None = None,
    ) -> int | None:
        compile_pattern(pattern)
        log = self._log(source)
        if log is None:
            return None
        matcher = log.matcher(pattern, self._shown_alone)
        data, size = log.data, log.data.size
        if not self._indexed(log, start, backwards, progress):
            return None
        with log.lock:
            if log.closed:
                return None
            total = log.index.lines
            start = max(0, total + start) if start < 0 else start
            if start >= total and not backwards:
                return None
            begin = log.index.offset_of(min(start, total - 1)) if total else None
            after = log.index.offset_of(start + 1) if start + 1 < total else size
        try:
            if not backwards:
                if begin is None:
                    return None
                return search_forward(data.read, matcher, offset=begin, number=start, size=size, progress=progress)
            return search_backward(data.read, matcher, size if after is None else after, log.index.line_at, progress)
        except (OSError, ValueError):  # closed or cut short while it was searched
            return None

    def matches(self, source: str, pattern: str, found: Callable[[list[int], float], bool], start: int = 0) -> None:
        compile_pattern(pattern)
        log = self._log(source)
        if log is None or not self._indexed(log, start, False, lambda share: found([], share)):
            return
        matcher = log.matcher(pattern, self._shown_alone)
        with log.lock:
            offset = None if log.closed else log.index.offset_of(start)
        if offset is None:
            return
        try:
            search_all(log.data.read, matcher, offset=offset, number=start, size=log.data.size, found=found)
        except (OSError, ValueError):  # closed or cut short while it was searched
            return

    def severe(self, source: str, least: Severity, found: Callable[[list[int], float], bool]) -> None:
        log = self._log(source)
        if log is None:
            return
        severe = _SevereLines(source, log.assembler.clock, self._formats, least)
        position = 0
        while lines := self._more(log, position):
            position += len(lines)
            if not found(severe.feed(lines), min(position / max(log.index.lines, 1), 1.0)):
                return
        found(severe.flush(), 1.0)

    def close(self) -> None:
        with self._lock:
            logs, self._logs = list(self._logs.values()), OrderedDict()
        for log in logs:
            log.close()

    # the parts

    def _log(self, source: str) -> _OpenLog | None:
        """Return the open log of a source; open it, again if the file was replaced (B2)."""
        described = self._source(source)
        if described is None or described.path is None:
            return None
        with self._lock:
            log = self._logs.get(source)
            now = time.monotonic()
            if log is not None and now - log.checked > _CHECK_S:
                log.checked = now
                if str(log.path) != described.path or not log.data.current():
                    log.close()
                    del self._logs[source]
                    log = None
                else:
                    log.complete = log.complete and log.index.scanned >= log.data.size
            if log is None:
                try:
                    log = _OpenLog(described, Path(described.path), self._formats)
                except OSError:
                    return None
                self._logs[source] = log
                if len(self._logs) > _OPEN_AT_ONCE:
                    self._logs.popitem(last=False)[1].close()
                log.work()
            self._logs.move_to_end(source)
            if not log.complete:
                self._start()
            return log

    def _start(self) -> None:
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="livedbg-log-index", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            busy = True
            while busy:
                with self._lock:
                    logs = [log for log in self._logs.values() if not log.complete]
                busy = False
                for log in logs:
                    try:
                        busy = log.work() or busy
                    except (OSError, ValueError):
                        log.complete = True

    def _indexed(self, log: _OpenLog, start: int, backwards: bool, progress: Progress | None) -> bool:
        while not log.complete and not log.closed:
            with log.lock:
                if not backwards and 0 <= start < log.index.lines:
                    return True
                done, size = log.index.scanned, log.data.size
            if progress is not None and not progress(0.0 if size == 0 else min(1.0, done / size) * 0.1):
                return False
            log.work()
        return not log.closed

    def _more(self, log: _OpenLog, start: int) -> list[Line]:
        if not self._indexed(log, start, False, None):
            return []
        with log.lock:
            offset = None if log.closed else log.index.offset_of(start)
            return [] if offset is None else self._lines(log, offset, start, _LINES)

    def _from_end(self, log: _OpenLog, lines: int) -> tuple[int, int | None]:
        size = log.data.size
        position, left, skip_last = size, lines, True
        while position > 0:
            begin = max(0, position - _BLOCK)
            data = log.data.read(begin, position - begin)
            end = len(data)
            if skip_last and data.endswith(b"\n"):
                end -= 1
            skip_last = False
            while (newline := data.rfind(b"\n", 0, end)) >= 0:
                left -= 1
                if left == 0:
                    return begin + newline + 1, self._number(log, begin + newline + 1)
                end = newline
            position = begin
        return 0, 0

    def _number(self, log: _OpenLog, offset: int) -> int | None:
        return log.index.line_at(offset) if offset <= log.index.scanned else None

    def _records(self, log: _OpenLog, offset: int, number: int | None, count: int) -> list[LogRecord]:
        return [log.assembler.single(line) for line in self._lines(log, offset, number, count)]

    def _lines(self, log: _OpenLog, offset: int, number: int | None, count: int) -> list[Line]:
        cutter = LineCutter(offset, None if number is None else number + 1)
        lines: list[Line] = []
        position, size = offset, log.data.size
        while len(lines) < count and position < size:
            step = _BLOCK - position % _BLOCK
            data = log.data.read(position, step)
            if not data:
                break
            position += len(data)
            lines.extend(cutter.feed(data)[: count - len(lines)])
            if cutter.open and position - cutter.offset > LINE_LIMIT:
                further = log.index.next_line_end(position)
                cutter.skip(further - position)
                position = further
        if len(lines) < count and position >= size:
            lines.extend(cutter.flush())
        return lines


_BLOCK: Final = 64 * 1024
"""Bytes at the beginning that show how the lines are wrapped; so many are read at once."""


class _OpenLog:
    """An open log. Its lock guards the index and the position of the reader."""

    def __init__(self, source: LogSource, path: Path, formats: LogFormats) -> None:
        self.path = path
        self.data: ByteSource = open_bytes(path)
        self.index = LineIndex(self.data.read)
        self.lock = threading.Lock()
        self.checked = time.monotonic()
        self.complete = False
        self.closed = False
        mtime_ns = target_files.status(path).st_mtime_ns
        self.assembler = RecordAssembler(source.id, SourceClock(mtime_ns), formats)
        self.assembler.learn(LineCutter().feed(self.data.read(0, _BLOCK)))  # also finds the clock anchor

    def matcher(self, pattern: str, shown: Callable[[str], str]) -> Matcher:
        """Return a matcher of a pattern for lines as they are shown.

        Raises:
            ValueError: it is no regular expression.
        """
        matcher = compile_pattern(pattern)
        door = FrontDoor(SourceClock(0, 0))  # the reader's own is used by another thread
        door.learn(LineCutter().feed(self.data.read(0, _BLOCK)))
        return ShownMatcher(pattern, matcher, door, shown) if door.wraps else matcher

    def work(self) -> bool:
        """Index a bounded piece; return False if all present bytes are indexed."""
        with self.lock:
            if self.closed:
                return False
            filled = self.data.fill()
            more = self.index.extend(self.data.size)
            self.complete = not (filled or more)
            return not self.complete

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self.data.close()


class _SevereLines:
    """Assembles lines to records, and returns the numbers of the lines of severe ones."""

    def __init__(self, source: str, clock: SourceClock, formats: LogFormats, least: Severity) -> None:
        self._assembler = RecordAssembler(source, clock, formats, self._end)
        self._least = least
        self._found: list[int] = []

    def feed(self, lines: Iterable[Line]) -> list[int]:
        """Take more lines; return the numbers (from 0) of lines of severe records that ended."""
        self._assembler.feed(lines)
        return self._taken()

    def flush(self) -> list[int]:
        self._assembler.flush()
        return self._taken()

    def _end(self, record: LogRecord, numbers: list[int | None]) -> None:
        if record.severity.rank >= self._least.rank:
            self._found += (number - 1 for number in dict.fromkeys(numbers) if number is not None)

    def _taken(self) -> list[int]:
        found, self._found = self._found, []
        return found
