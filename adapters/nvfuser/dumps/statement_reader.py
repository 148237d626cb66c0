"""Read nvFuser's statements from a file that may be huge, mixed, truncated, and still growing.

Blocks are searched for the beginnings of statements (Aho-Corasick); lines are split only from there to the end of the
statement. If the first block shows wrapped lines (livedbg.logs.wrapping), all lines are read. Ranks that share a file
are distinguished by the prefix of their launcher. Memory: one block, one statement. Logs that a session wants are
followed from their beginning, as they grow.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ahocorasick_rs import BytesAhoCorasick
from msgspec import Struct, field

from livedbg.adapters.nvfuser.dumps.scan import LINES_BEFORE, Scanner
from livedbg.adapters.nvfuser.dumps.statements import Said
from livedbg.adapters.nvfuser.dumps.triggers import TRIGGERS
from livedbg.linux import target_files
from livedbg.logs.bytesource import Unpacked, is_packed
from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import Line, line_text
from livedbg.logs.wrapping.door import FrontDoor
from livedbg.model import LogSource
from livedbg.model.errors import SourceError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_bytes

if TYPE_CHECKING:
    from livedbg.adapters.nvfuser.model import NvfuserModel

_BLOCK: Final = 1 << 20
_LONGEST: Final = 1 << 20  # bytes of a line without an end that are kept
_LEARNED: Final = 256 << 10  # bytes at the beginning in which is seen how lines are wrapped
_LINE: Final = 64 << 10  # bytes of a line that are parsed
_PREFIXES: Final = 5_000
_ONE: Final = {""}
_PLAIN: Final = lazy_re(rb"[\n\t -~]*").fullmatch  # what `clean` leaves as it is
_WINDOW: Final = 4 << 10  # characters that are cut into lines at once
_PREFIXED: Final = [b"\n" + bytes([sign]) for sign in b"[(0123456789"]
_MAY_HAVE_PREFIX: Final = lazy_re(r"[\[(\d]").match  # most lines have none, and are spared the search


class StatementReader:
    """Reads the blocks of one file in order."""

    def __init__(self) -> None:
        self._matcher = BytesAhoCorasick(TRIGGERS)
        self._prefixes = BytesAhoCorasick(_PREFIXED)
        self._scanners: dict[str, Scanner] = {}
        self._busy: set[str] = set()
        self._rest = b""
        self._above: list[bytes] = []
        self._number = 1  # of the line that `_rest` begins with
        self._door = FrontDoor(SourceClock(0, 0))
        self._wrapped: bool | None = None  # None: no block came

    def feed(self, data: bytes) -> list[Said]:
        """Process a block; return the completed statements."""
        piece = self._rest + data
        cut = piece.rfind(b"\n") + 1
        if not cut and len(piece) > _LONGEST:
            piece, cut = piece[:_LONGEST] + b"\n", _LONGEST + 1
        self._rest = piece[cut:]
        return self._lines(piece[:cut]) if cut else []

    def end(self) -> list[Said]:
        """End all current statements, as nothing more comes now; later input starts new ones."""
        found = self._lines(self._rest + b"\n") if self._rest else []
        self._rest = b""
        for prefix in sorted(self._busy):
            found += [Said(prefix, statement) for statement in self._scanners[prefix].finish()]
        self._busy.clear()
        return found

    def _unwrapped(self, body: bytes) -> list[Said]:
        found: list[Said] = []
        for raw in body.split(b"\n")[:-1]:
            for plain in self._door.open(Line(line_text(raw), 0, self._number)):
                self._take(plain.tag.writer, plain.text, plain.line.number or self._number, found)
            self._number += 1
        return found

    def _lines(self, body: bytes) -> list[Said]:
        if self._wrapped is None:
            lines = body[:_LEARNED].split(b"\n")[:-1]
            self._door.learn(Line(line_text(raw), 0, None) for raw in lines)
            self._wrapped = self._door.proved
        if self._wrapped:
            return self._unwrapped(body)
        found: list[Said] = []
        plain = body.decode("ascii") if _PLAIN(body) is not None else None
        prefixed = [start + 1 for _, start, _ in self._prefixes.find_matches_as_indexes(body)] if plain else []
        prefixed.append(len(body))
        hits = iter(self._matcher.find_matches_as_indexes(body))
        hit = next(hits, (0, len(body), 0))[1]
        position = 0
        while position < len(body):
            if not self._busy:
                while hit < position:
                    hit = next(hits, (0, len(body), 0))[1]
                begin = body.rfind(b"\n", 0, hit) + 1 if hit < len(body) else len(body)
                if begin > position:
                    self._skip(body, position, begin)
                    position = begin
                    continue
            if plain is not None and position and self._busy == _ONE:
                after = self._many(plain, prefixed, position, found)
                if after > position:
                    position = after
                    continue
            end = body.find(b"\n", position)
            if plain is not None:
                self._line(plain[position : min(end, position + _LINE)], found)
            else:
                self._line(clean_bytes(body[position : min(end, position + _LINE)].rstrip(b"\r")), found)
            self._number += 1
            position = end + 1
        return found

    def _skip(self, body: bytes, begin: int, end: int) -> None:
        self._number += body.count(b"\n", begin, end)
        start = end
        for _ in range(LINES_BEFORE + 1):
            start = body.rfind(b"\n", begin, max(begin, start - 1)) + 1
            if start <= begin:
                start = begin
                break
        self._above = [*self._above, *body[start:end].split(b"\n")[:-1]][-LINES_BEFORE:]

    def _many(self, plain: str, prefixed: list[int], position: int, found: list[Said]) -> int:
        """Take the following lines without a prefix at once for the current statement; return their end.

        Args:
            plain: the lines.
            prefixed: starts of lines that may have a prefix, and the end.
            position: start of the next line.
            found: receives the completed statements.
        """
        scanner = self._scanners[""]
        long = scanner.long
        limit = prefixed[bisect_left(prefixed, position)]
        if long is not None:
            ends = (plain.find(f"\n{stop}", position - 1, limit) + 1 for stop in long.stops)
            end = min((end for end in ends if end), default=limit)
        else:
            end = limit if limit - position < _WINDOW else plain.rfind("\n", position, position + _WINDOW) + 1
        lines = plain[position:end].split("\n")[:-1]
        if max(map(len, lines), default=0) > _LINE:
            return position
        if long is not None:
            taken = long.take(lines)
        else:
            taken, statements = scanner.feed_lines(lines, self._number)
            found += [Said("", statement) for statement in statements]
            if scanner.idle:
                self._busy.clear()
        self._number += taken
        return end if taken == len(lines) else position + sum(len(line) + 1 for line in lines[:taken])

    def _line(self, line: str, found: list[Said]) -> None:
        writer = ""
        if _MAY_HAVE_PREFIX(line):
            plain = next(iter(self._door.open(Line(line, 0, None))), None)
            if plain is not None:
                writer, line = plain.tag.writer, plain.text
        self._take(writer, line, self._number, found)

    def _take(self, writer: str, line: str, number: int, found: list[Said]) -> None:
        scanner = self._scanners.get(writer)
        if scanner is None:
            if len(self._scanners) >= _PREFIXES:
                return
            scanner = self._scanners[writer] = Scanner()
        if self._above:
            above = [text for raw in self._above for text in self._door.peek(clean_bytes(raw[:4096]))]
            if scanner.idle:
                scanner.above(above)
            self._above = []
        if statements := scanner.feed(line, number):
            found += [Said(writer, statement) for statement in statements]
        (self._busy.discard if scanner.idle else self._busy.add)(writer)


def read_statements(path: Path) -> Iterator[Said]:
    """Yield all statements of a file, to its present end; raise SourceError if it can't be read."""
    reader, problem = StatementReader(), ""
    try:
        with target_files.open_binary(path) as file:
            if is_packed(path):
                pieces = Unpacked(file)
                for data in pieces:
                    yield from reader.feed(data)
                problem = pieces.problem and f"it {pieces.problem}"
            else:
                while data := file.read(_BLOCK):
                    yield from reader.feed(data)
    except OSError as error:
        problem = error.strerror or "reading failed"
    yield from reader.end()
    if problem:
        raise SourceError(f"{path} can't be read to its end: {problem}.", "", "unreadable")


_QUIET_S: Final = 1.0  # after which a statement counts as whole


class _Followed(Struct):
    source: LogSource
    path: Path
    reader: StatementReader = field(default_factory=StatementReader)
    inode: int = 0
    offset: int = 0
    live: bool = False  # its first end was reached: what comes now is new
    fresh: bool = False  # what was read last was new
    open: bool = False  # something was read since the last end
    changed: float = 0.0
    packed: bool = False
    unpacked: Iterator[Said] = field(default_factory=lambda: iter(()))


class LogFollower:
    """Reads the logs that the model wants, and feeds it their statements. Blocking: call it in a thread."""

    def __init__(self, model: NvfuserModel) -> None:
        self._model = model
        self._files: dict[str, _Followed] = {}
        self.problems: dict[str, str] = {}

    def read(self, for_s: float, final: bool) -> bool:
        """Read for some time; return whether there is more. If `final`, current statements are ended."""
        deadline = time.monotonic() + for_s
        with self._model.lock:
            wanted = dict(self._model.wanted)
        for name, source in wanted.items():
            if name not in self._files and source.path:
                path = Path(source.path)
                self._files[name] = _Followed(source, path, packed=is_packed(path))
        for file in self._files.values():
            try:
                for _ in self._file(file, final):
                    if time.monotonic() > deadline:
                        return True
            except SourceError as error:
                self.problems[str(file.path)] = error.message
            except OSError as error:
                self.problems[str(file.path)] = f"{file.path} can't be read: {error.strerror}."
        return False

    def _file(self, file: _Followed, final: bool) -> Iterator[None]:
        """Continue reading one log; yields after each block."""
        if file.packed:
            if not file.live:
                file.live, file.unpacked = True, read_statements(file.path)
            for said in file.unpacked:  # goes on where the last call ended
                with self._model.lock:
                    self._model.take(file.source, said, False, time.time_ns())
                yield
            return
        descriptor = target_files.open_fd(file.path)
        try:
            status = os.fstat(descriptor)
            if file.inode != status.st_ino or status.st_size < file.offset:
                file.reader, file.offset, file.inode = StatementReader(), 0, status.st_ino
            while data := os.pread(descriptor, _BLOCK, file.offset):
                file.offset += len(data)
                file.open, file.changed, file.fresh = True, time.monotonic(), file.live
                self._take(file, data)
                yield
            old = not file.live and time.time() - status.st_mtime > _QUIET_S
            if file.open and (final or old or time.monotonic() - file.changed > _QUIET_S):
                file.open = False
                self._take(file, None)
            file.live = True
        finally:
            os.close(descriptor)

    def _take(self, file: _Followed, data: bytes | None) -> None:
        now_ns = time.time_ns()
        with self._model.lock:
            for said in file.reader.end() if data is None else file.reader.feed(data):
                self._model.take(file.source, said, file.fresh, now_ns)
