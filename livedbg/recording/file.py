"""The event stream in a file: zstd-compressed lines of JSON, appended and readable meanwhile.

Layout: zstd frames of text lines. The first frame is one line, the header (`Header`); each line of the further
ones is an event (livedbg.model.events). The writer ends a zstd block (RFC 8878, 3.1.1.2) at least each second while
events come, so that a reader of the growing file sees all that is older, and a frame, which ends with a
checksum, every _FRAME_S seconds.

Invariants:
    recording.R1. What was written before a flush can be read, however the writer ends.
    recording.R2. A truncated recording gives its events up to the last whole one, a damaged one those of the frames
        before the damage; both say so.
    recording.R3. An event that this version doesn't know is skipped and counted; a recording of another
        schema version is refused with what to do.
    recording.R4. Reading never runs anything from the file and keeps at most one line of it beside the events.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import zstandard

from livedbg import __version__
from livedbg.linux.private_files import open_private
from livedbg.model.errors import RecordingError
from livedbg.model.events import SCHEMA_VERSION, Event, encode
from livedbg.model.gate import gated_line
from livedbg.recording.old_names import renamed
from livedbg.text.json_text import clean_value, json_bytes

__all__ = ["MAGIC", "Header", "Recorder", "RecordingReader", "is_recording"]

MAGIC: Final = "livedbg.recording"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_FLUSH_S: Final = 1.0
_FRAME_S: Final = 15.0
_MOST_HELD: Final = 100_000  # lines of one frame that wait for its checksum
_LEVEL: Final = 3
_READ: Final = 1 << 13  # what a hostile file unpacks from one read stays below some 300 MB
_LONGEST_LINE: Final = 64 << 20


class Header(msgspec.Struct, frozen=True):
    """The first line of a recording.

    Attributes:
        format: MAGIC.
        schema: version of the event schema (livedbg.model.events.SCHEMA_VERSION).
        livedbg: version of the program that wrote it.
        host: host that it was written on.
        title: the target.
        started_wall_ns: when it began.
    """

    format: str
    schema: int
    livedbg: str
    host: str
    title: str
    started_wall_ns: int


class Recorder:
    """Writes a recording; use it as the sink of a session, and close it at the end.

    Args:
        path: a file that must not exist yet, unless `replace`.
        host: this host.
        title: the target.

    Raises:
        RecordingError: the file exists or can't be made.
    """

    def __init__(self, path: Path, host: str, title: str, *, replace: bool = False) -> None:
        try:
            self._file: BinaryIO = os.fdopen(open_private(path, replace=replace), "wb", buffering=0)
        except FileExistsError:
            raise RecordingError(f"{path} already exists.", "choose another name, or add --force", "exists") from None
        except OSError as error:
            raise RecordingError(f"{path} can't be written: {error.strerror}.", "choose another path with -o") from None
        self._zstd = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._compress = self._zstd.compressobj()
        self._lock = threading.Lock()
        self._flushed = self._framed = time.monotonic()
        self.failed = ""
        header = Header(MAGIC, SCHEMA_VERSION, __version__, host, title, time.time_ns())
        self._write(self._compress.compress(json_bytes(header) + b"\n"))
        self._end_frame()

    def __call__(self, events: Sequence[Event]) -> None:
        """Append events. A full disk ends the recording (`failed` says so), never the session."""
        with self._lock:
            if self._file.closed or self.failed:
                return
            self._write(self._compress.compress(b"".join(encode(event) + b"\n" for event in events)))
            if time.monotonic() - self._flushed >= _FLUSH_S:
                self._flush()

    def close(self) -> None:
        """Write what is left and close the file."""
        with self._lock:
            if not self._file.closed:
                if not self.failed:
                    self._write(self._compress.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
                self._file.close()

    def _flush(self) -> None:
        if time.monotonic() - self._framed >= _FRAME_S:
            self._end_frame()
        self._write(self._compress.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self._flushed = time.monotonic()

    def _end_frame(self) -> None:
        self._write(self._compress.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
        self._compress = self._zstd.compressobj()
        self._framed = time.monotonic()

    def _write(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            self.failed = f"the recording ended: {error.strerror}"


class RecordingReader:
    """Reads a recording, also one that is being written.

    Args:
        path: the file.

    Raises:
        RecordingError: it can't be opened, is no recording, or of another schema version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self.damage = ""
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise RecordingError(
                f"{path} can't be read: {error.strerror}.", "check the path and its permissions", "unreadable"
            ) from None
        self._lines = self._read_lines()
        try:
            self.header = self._read_header()
        except RecordingError:
            self._file.close()
            raise

    def events(self) -> Iterator[Event]:
        """The events that are there and were not given yet; call it again when the file has grown."""
        for line in self._lines:
            if line is None:
                return
            try:
                yield renamed(gated_line(line))
            except (ValueError, RecursionError):  # msgspec's errors are the former
                self.skipped += 1

    @property
    def incomplete(self) -> str:
        """What is wrong with the recording so far, one sentence, or ""."""
        parts = [self.damage] if self.damage else []
        if self.skipped:
            events = "1 event is" if self.skipped == 1 else f"{self.skipped} events are"
            parts.append(f"{events} of a kind that this version does not know, and skipped.")
        return " ".join(parts)

    @property
    def size(self) -> int:
        """Bytes of the file now."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_header(self) -> Header:
        hint = "create one: livedbg record TARGET -o FILE"
        line = next(self._lines)
        if line is None:
            raise RecordingError(f"{self.path} is not a livedbg recording.", hint, "not-a-recording")
        try:
            start = msgspec.json.decode(line, type=dict[str, object])
            if start.get("format") != MAGIC:
                raise RecordingError(f"{self.path} is not a livedbg recording.", hint, "not-a-recording")
            header = msgspec.convert(clean_value(start), Header)
        except (ValueError, RecursionError):
            raise RecordingError(f"{self.path} is not a livedbg recording.", hint, "not-a-recording") from None
        if header.schema != SCHEMA_VERSION:
            raise RecordingError(
                f"{self.path} has event schema {header.schema}; livedbg {__version__} reads {SCHEMA_VERSION}.",
                f"read it with the livedbg that wrote it: pip install livedbg=={header.livedbg}",
                "schema",
            )
        return header

    def _read_lines(self) -> Iterator[bytes | None]:
        """Whole lines; None whenever there is no whole line yet. A frame whose checksum is wrong gives none."""
        unpack = zstandard.ZstdDecompressor().decompressobj()
        packed = self._file.read(_READ)
        rest = b""  # of what was unpacked, the line that has not ended
        begun = False  # a frame that has not ended
        held: list[bytes] = []  # lines of a frame that has not ended
        if packed[:4] != _ZSTD_MAGIC:
            while True:
                yield None
        while True:
            if not packed:
                yield from held
                held = []
                self._note_end(rest, inside=begun)
                yield None
            try:
                begun = begun or bool(packed)
                *lines, rest = (rest + unpack.decompress(packed)).split(b"\n")
                ended, packed = unpack.eof, unpack.unused_data
            except zstandard.ZstdError:
                self.damage = "The recording is damaged; events before the damage are shown."
                break
            held += lines
            if ended or len(held) > _MOST_HELD:
                yield from held
                held = []
            if ended:
                begun = False
                unpack = zstandard.ZstdDecompressor().decompressobj()
            if len(rest) > _LONGEST_LINE:
                self.damage = "The recording is damaged: a line without an end."
                yield from held
                break
            packed = packed or self._file.read(_READ)
        while True:
            yield None

    def _note_end(self, rest: bytes, *, inside: bool) -> None:
        if rest:
            self.damage = "The recording ends in the middle of an event; events before it are shown."
        elif inside:
            self.damage = (
                "The recording has no end: it is still being written, or was truncated. Its events so far are shown."
            )
        else:
            self.damage = ""


def is_recording(path: Path) -> bool:
    """Whether a file begins like a recording."""
    try:
        with path.open("rb") as opened:
            return opened.read(4) == _ZSTD_MAGIC
    except OSError:
        return False
