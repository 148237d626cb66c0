"""One log from its file to records: reading ahead, skimming a big log, following a growing one.

Invariants:
    logfiles_feed.G1. The decoders see the records of a log in its order, each at most once, and every record
        that holds one of their triggers.
    logfiles_feed.G2. Of the initial content of a big log only the newest records are shown; the decoders still see
        every record that matters.
    logfiles_feed.G3. A big log's error lines that no decoder understands count like those of a small one; if there are
        so many that they are no longer searched for, the size of the part not searched is given in bytes.
    logfiles_feed.G4. The end of a log is read before its beginning, and kept until everything before it was read, so
    the
        end is known even if there was no time for the log.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.logs.bytesource import FileBytes, is_packed
from livedbg.logs.clock import SourceClock
from livedbg.logs.error_lines import ALARMS, EXACT
from livedbg.logs.formats import CORE, LogFormats
from livedbg.logs.lines import LineCutter
from livedbg.logs.naming import tag_of
from livedbg.logs.records import RecordAssembler
from livedbg.logs.search import with_escaped
from livedbg.logs.skim import Skimmer
from livedbg.logs.tail import PackedFile, Tail
from livedbg.model import LogRecord, LogSource
from livedbg.model.events import Stamp

SLICE: Final = 256 * 1024
"""Bytes that one step reads of a log that is read whole."""

_SKIM_SLICE: Final = 512 * 1024
_PREVIEW: Final = 256 * 1024  # bytes at the end of a big log that are shown at once
_PREVIEW_RECORDS: Final = 1000
ENDING: Final = 64 * 1024
"""Bytes at the end of a log that are read before all else, for the case that there is no time for the rest."""

_BACKLOG: Final = 64 << 20  # a log that has grown so far ahead is skimmed to catch up
_PACKED_RATIO: Final = 10  # how much bigger a packed log gets, about
_QUIET_S: Final = 0.5  # after which a record counts as complete
_QUIET_LINE_S: Final = 2.0  # after which a line without an end is shown
_REST_S: Final = 30.0  # after which a quiet file is closed
_PLACES: Final = 8  # of a big log in which is seen how its lines are wrapped
_LEARNED: Final = 64 * 1024  # bytes of each of them
_DESCRIBE_S: Final = 2.0  # between two descriptions of a log that grows


class SourceFeed:
    """One log; `source` describes it, and its `size`, `lines` and `format` are kept up to date here."""

    def __init__(self, source: LogSource, path: Path, decoding: Decoding, formats: LogFormats = CORE) -> None:
        self.source = source
        self.path = path
        self._decoding = decoding
        self.tail: Tail | PackedFile = PackedFile(path) if is_packed(path) else Tail(path)
        self.problem: str | None = None
        self._assembler = RecordAssembler(source.id, SourceClock(), formats, own=tag_of(source))
        self._formats = formats
        self._cutter = LineCutter()
        self._skimmer: Skimmer | None = None
        self._skim_until = 0
        self._unread = 0  # bytes that were passed over and not searched for errors
        self._format: str | None = None
        self._last_data = time.monotonic()
        self._described = 0.0
        self._newest_ns: int | None = None
        self._ending = (0, b"")  # where it begins, and what it is

    @property
    def skimming(self) -> bool:
        """True while the beginning of a big log is being skimmed."""
        return self._skimmer is not None

    def poll(self) -> bool:
        """Return whether there is something to read; raise SourceError if it can't be read."""
        ready = self.tail.poll()
        if self.tail.mtime_ns:
            self._assembler.clock.reference_ns = max(self.tail.mtime_ns, 0)
        return ready

    def begin(self, whole_limit: int, stamp: Stamp) -> list[LogRecord]:
        """Read the initial content; return the records to show at once.

        A log of more than `whole_limit` bytes is skimmed, and its newest records are shown.
        """
        self._decoding.opened(self.source, stamp)
        if isinstance(self.tail, PackedFile):
            self._assembler.learn(LineCutter().feed(self.tail.ahead[:_LEARNED]))
            if self.tail.packed_size * _PACKED_RATIO > whole_limit:
                self._skim(sys.maxsize)
            return []
        if self.tail.size <= whole_limit:
            return []
        self._learn()
        if not self._skim(self.tail.size):
            return []
        return self._preview(self.tail.size)

    def keep_ending(self) -> int:
        """Read and keep the end of the log, whatever its size; return the number of bytes; raise OSError on failure."""
        if isinstance(self.tail, PackedFile) or not self.tail.size:
            return 0
        data = FileBytes(self.path)
        try:
            begin = max(0, self.tail.size - ENDING)
            self._ending = begin, data.read(begin, self.tail.size - begin)
        finally:
            data.close()
        return len(self._ending[1])

    def ending(self) -> list[LogRecord]:
        """Return the records at the end of the log that were not read yet (G4), without line numbers."""
        begin, data = self._ending
        if not self.tail.backlog or not data:
            return []
        passed = min(max(0, self.tail.offset - begin), len(data))
        if begin + passed:
            passed = data.find(b"\n", max(0, passed - 1)) + 1 or len(data)
        assembler = RecordAssembler(
            self.source.id, SourceClock(self.tail.mtime_ns), self._formats, own=tag_of(self.source)
        )
        cutter = LineCutter(begin + passed, None)
        lines = [*cutter.feed(data[passed:]), *cutter.flush()]
        assembler.learn(lines)
        return (assembler.feed(lines) + assembler.flush())[-_PREVIEW_RECORDS:]

    def step(self, stamp: Stamp) -> list[LogRecord]:
        """Read one slice; return the records to show; raise SourceError on failure."""
        records: list[LogRecord] = []
        if self._skimmer is None and isinstance(self.tail, Tail) and self.tail.backlog > _BACKLOG:
            records = self._fed(self._assembler.flush(), stamp)
            self._skim(self.tail.size)
        limit = SLICE if self._skimmer is None else min(_SKIM_SLICE, self._skim_until - self.tail.offset)
        piece = self.tail.read(max(limit, 1))
        if piece is None:
            self._end_skim(stamp)
            return records
        self._last_data = time.monotonic()
        if piece.restart:
            return self._restart(stamp)
        if self._skimmer is not None:
            self._fed(self._skimmer.feed(piece.data), stamp)
            if self.tail.offset >= self._skim_until:
                self._end_skim(stamp)
            return records
        return self._fed(self._assembler.feed(self._cutter.feed(piece.data)), stamp)

    def settle(self, stamp: Stamp, final: bool = False) -> list[LogRecord]:
        """Flush held-back lines and records if the log was quiet long enough, or is complete (`final`)."""
        quiet_s = time.monotonic() - self._last_data
        records: list[LogRecord] = []
        if final or (self._cutter.holds and quiet_s >= _QUIET_LINE_S):
            records += self._assembler.feed(self._cutter.flush())
        if final or (self._assembler.waiting and quiet_s >= _QUIET_S and not self._cutter.holds):  # it may belong to it
            records += self._assembler.flush()
        return self._fed(records, stamp)

    def rest(self, at_once: bool) -> None:
        """Close the file while it does not change; it is opened again when it does."""
        if at_once or time.monotonic() - self._last_data > _REST_S:
            self.tail.release()

    def close(self) -> None:
        self.tail.close()

    @property
    def old(self) -> bool:
        """True if nothing was written to it lately: its last record is complete."""
        return time.time_ns() - self.tail.mtime_ns > _QUIET_S * 1e9

    def described(self, force: bool = False) -> LogSource | None:
        """Return the description of the log if it has changed and an update is due."""
        number = None if self._skimmer is not None else self._cutter.number
        lines = None if number is None else number - 1 + self._cutter.open
        errors = self._decoding.errors(self.source.id)
        now = msgspec.structs.replace(
            self.source,
            size=self.tail.size,
            lines=lines,
            format=self._assembler.format or self._format,
            last_wall_ns=self._newest_ns,
            undated=self._assembler.clock.is_guess(self._newest_ns),
            errors=errors.count,
            first_error_line=errors.first,
            first_error=errors.first_text,
            last_error=errors.last,
            pending=self.tail.backlog,
            unread=self._unread + (self._skimmer.unread if self._skimmer is not None else 0),
        )
        whole = not now.pending and self.source.pending
        if now == self.source or not (force or whole or time.monotonic() - self._described > _DESCRIBE_S):
            return None
        self.source = now
        self._described = time.monotonic()
        return now

    def _fed(self, records: list[LogRecord], stamp: Stamp) -> list[LogRecord]:
        """Feed the decoders, and keep the newest time."""
        for record in reversed(records):
            if record.wall_ns is not None:
                self._newest_ns = max(record.wall_ns, self._newest_ns or 0)
                break
        return self._decoding.feed(records, stamp)

    def _learn(self) -> None:
        """Learn how a big log's lines are wrapped, from samples of it."""
        data = FileBytes(self.path)
        try:
            for place in range(_PLACES):
                begin = self.tail.size * place // _PLACES
                block = data.read(begin, _LEARNED)
                first = block.find(b"\n") + 1 if begin else 0
                self._assembler.learn(LineCutter(begin + first, None).feed(block[first:]))
        finally:
            data.close()

    def _skim(self, until: int) -> bool:
        """Skim up to `until`, passing over lines without a trigger; return False if the decoders want every record."""
        triggers, opens, alarms = self._decoding.triggers, self._decoding.opens, ALARMS
        if triggers is None or self._assembler.door.rewrites:
            return False
        if self._assembler.door.escaped:
            triggers, opens, alarms = with_escaped(triggers), with_escaped(opens), with_escaped(alarms)
        self._skimmer = Skimmer(
            self._assembler,
            triggers,
            self._cutter.offset,
            self._cutter.number,
            self._decoding.beats,
            alarms=alarms,
            exact={**self._decoding.exact, **EXACT},
            opens=opens,
        )
        self.tail.seek(self._cutter.offset)
        self._skim_until = until
        return True

    def _end_skim(self, stamp: Stamp) -> None:
        """Go on line by line from the first line that is not complete."""
        if self._skimmer is None:
            return
        if isinstance(self.tail, PackedFile):
            self._fed(self._skimmer.feed(b"\n"), stamp)  # its last line may have no end
        self._fed(self._skimmer.flush(), stamp)
        self._unread += self._skimmer.unread
        self._cutter = LineCutter(self._skimmer.offset, self._skimmer.number)
        self.tail.seek(self._skimmer.offset)
        self._skimmer = None

    def _restart(self, stamp: Stamp) -> list[LogRecord]:
        """Handle a rotated or truncated file: flush the records of the old one."""
        if self._skimmer is not None:
            self._fed(self._skimmer.flush(), stamp)
            self._unread += self._skimmer.unread
            self._skimmer = None
            records = []
        else:
            records = self._assembler.feed(self._cutter.flush()) + self._assembler.flush()
        self._cutter = LineCutter()
        return self._fed(records, stamp)

    def _preview(self, size: int) -> list[LogRecord]:
        """Return the newest records of a big log, without links and numbers: the decoders have not reached them yet."""
        clock = SourceClock(self.tail.mtime_ns)
        assembler = RecordAssembler(self.source.id, clock, self._formats, own=tag_of(self.source))
        data = FileBytes(self.path)
        try:
            assembler.learn(LineCutter().feed(data.read(0, SLICE)))  # for the clock anchor
            begin = max(0, size - _PREVIEW)
            block = data.read(begin, size - begin)
        finally:
            data.close()
        first = block.find(b"\n") + 1 if begin else 0
        records = assembler.feed(LineCutter(begin + first, None).feed(block[first:])) + assembler.flush()
        self._format = assembler.format
        self._newest_ns = max((record.wall_ns for record in records if record.wall_ns is not None), default=None)
        return records[-_PREVIEW_RECORDS:]
