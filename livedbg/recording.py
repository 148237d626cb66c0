"""The event stream in a file: zstd-compressed lines of JSON, appended and readable meanwhile.

Layout: one zstd frame of text lines. The first line is the header (`Header`), each further one an
event (livedbg.events). The writer ends a zstd block (RFC 8878, 3.1.1.2) at least each second while
events come, so that a reader of the growing file sees all that is older.

Invariants:
    R1. What was written before a flush can be read, however the writer ends.
    R2. A truncated or damaged recording gives its events up to the last whole one, and says so.
    R3. An event that this version doesn't know is skipped and counted; a recording of another
        schema version is refused with what to do.
    R4. Reading never runs anything from the file and keeps at most one line of it beside the events.
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
from livedbg.errors import RecordingError
from livedbg.events import SCHEMA_VERSION, Event, decode, encode

__all__ = ["MAGIC", "Header", "Recorder", "RecordingReader", "is_recording"]

MAGIC: Final = "livedbg.recording"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_FLUSH_S: Final = 1.0
_LEVEL: Final = 3
_READ: Final = 1 << 13  # what a hostile file unpacks from one read stays below some 300 MB
_LONGEST_LINE: Final = 64 << 20


class Header(msgspec.Struct, frozen=True):
    """The first line of a recording.

    Attributes:
        format: MAGIC.
        schema: version of the event schema (livedbg.events.SCHEMA_VERSION).
        livedbg: version of the program that wrote it.
        host: host that it was written on.
        title: what was looked at.
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
        title: what is looked at.

    Raises:
        RecordingError: the file exists or can't be made.
    """

    def __init__(self, path: Path, host: str, title: str, *, replace: bool = False) -> None:
        try:
            self._file: BinaryIO = path.open("wb" if replace else "xb", buffering=0)
        except FileExistsError:
            raise RecordingError(f"{path} exists already.", "choose another name, or add --force", "exists") from None
        except OSError as error:
            raise RecordingError(
                f"{path} can't be written: {error.strerror}.", "choose another place with -o"
            ) from None
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        self._lock = threading.Lock()
        self._flushed = time.monotonic()
        self.failed = ""
        header = Header(MAGIC, SCHEMA_VERSION, __version__, host, title, time.time_ns())
        self._write(self._compress.compress(msgspec.json.encode(header) + b"\n"))
        self._flush()

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
        self._write(self._compress.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self._flushed = time.monotonic()

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
            raise RecordingError(f"{path} can't be read: {error.strerror}.", "", "unreadable") from None
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
                yield decode(line)
            except msgspec.DecodeError:
                self.skipped += 1

    @property
    def incomplete(self) -> str:
        """What is wrong with the recording so far, one sentence, or ""."""
        parts = [self.damage] if self.damage else []
        if self.skipped:
            parts.append(f"{self.skipped} events are of no kind that this version knows and were skipped.")
        return " ".join(parts)

    @property
    def size(self) -> int:
        """Bytes of the file now."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_header(self) -> Header:
        hint = "livedbg record TARGET -o FILE makes one"
        line = next(self._lines)
        if line is None:
            raise RecordingError(f"{self.path} is not a livedbg recording.", hint, "not-a-recording")
        try:
            start = msgspec.json.decode(line, type=dict[str, object])
            if start.get("format") != MAGIC:
                raise RecordingError(f"{self.path} is not a livedbg recording.", hint, "not-a-recording")
            header = msgspec.convert(start, Header)
        except msgspec.MsgspecError:
            raise RecordingError(f"{self.path} is not a livedbg recording.", hint, "not-a-recording") from None
        if header.schema != SCHEMA_VERSION:
            raise RecordingError(
                f"{self.path} is of event schema {header.schema}; this livedbg {__version__} reads {SCHEMA_VERSION}.",
                f"read it with the livedbg that wrote it: pip install livedbg=={header.livedbg}",
                "schema",
            )
        return header

    def _read_lines(self) -> Iterator[bytes | None]:
        """Whole lines; None whenever there is no whole line yet."""
        unpack = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
        rest = b""
        first = True
        while True:
            data = self._file.read(_READ)
            if first and data[:4] != _ZSTD_MAGIC:
                while True:
                    yield None
            first = False
            if not data:
                self._note_end(rest)
                yield None
                continue
            try:
                rest += unpack.decompress(data)
            except zstandard.ZstdError:
                self.damage = "The recording is damaged; what stands before the damage is shown."
                while True:
                    yield None
            *lines, rest = rest.split(b"\n")
            yield from lines
            if len(rest) > _LONGEST_LINE:
                self.damage = "The recording is damaged: a line without an end."
                while True:
                    yield None

    def _note_end(self, rest: bytes) -> None:
        if rest:
            self.damage = "The recording ends in the middle of an event; what stands before it is shown."
        elif self.damage.startswith("The recording ends"):
            self.damage = ""


def is_recording(path: Path) -> bool:
    """Whether a file begins like a recording."""
    try:
        with path.open("rb") as opened:
            return opened.read(4) == _ZSTD_MAGIC
    except OSError:
        return False
