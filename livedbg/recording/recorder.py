"""Writes the event stream to a file (layout: livedbg.recording.file), and replays recorded events.

A zstd block (RFC 8878, 3.1.1.2) ends at least each second while events come, so that a reader of the growing file has
all that is older, and a frame, which ends with a checksum, every _FRAME_S seconds.

At its size limit a recording loses its oldest part. It is written in parts, each of which begins with a keyframe:
events that stand for the state there (livedbg.state.keyframe).

Invariants:
    recorder.C1. What was written before a flush can be read, however the writer ends.
    recorder.C2. The file does not exceed its size limit by more than one batch of events and one keyframe, and replays
        correctly from where it begins.
    recorder.T1. `state(n)` equals the fold of the first `n` events, whatever was asked for before.
    recorder.T2. Memory grows with the packed size of the recording, not with its events: at most KEPT stores and one
        unpacked chunk are kept.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import zstandard

from livedbg import __version__
from livedbg.model.errors import RecordingError
from livedbg.model.events import SCHEMA_VERSION, Event, decode, encode
from livedbg.recording.file import MAGIC, Header
from livedbg.state.store import Store
from livedbg.text.json_text import json_bytes
from livedbg.text.private_files import open_private
from livedbg.text.quantities import byte_size, clock

MOST_BYTES: Final = 2 << 30
"""Size limit of a recording where none is given."""

Keyframe = Callable[[], Sequence[Event]]
"""Gives the events that stand for all events before the newest batch (livedbg.session.session.Session.keyframe)."""

_FLUSH_S: Final = 1.0
_FRAME_S: Final = 15.0
_LEVEL: Final = 3
_PARTS: Final = 3  # of the size limit: a part is begun after one, and the older one is dropped after two


class Recorder:
    """Writes a recording; use it as the sink of a session, and close it at the end.

    Args:
        path: a file that must not exist yet, unless `replace`.

    Attributes:
        keyframe: returns the state as events; without it, the recording ends at its size limit.
        failed: why it ended early, or "".

    Raises:
        RecordingError: the file exists or can't be created.
    """

    def __init__(
        self, path: Path, host: str, title: str, *, replace: bool = False, most_bytes: int = MOST_BYTES
    ) -> None:
        self.keyframe: Keyframe | None = None
        self.failed = ""
        self._path = path
        self._title = (host, title)
        self._most = most_bytes
        self._file = open_recording(path, replace=replace)
        self._zstd = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._compress = self._zstd.compressobj()
        self._lock = threading.Lock()
        self._flushed = self._framed = time.monotonic()
        self._size = 0
        self._part: int | None = None  # where the part begins that is kept
        self._part_began_wall_ns = 0
        self._gone = 0  # bytes of events that were dropped
        self._write(packed_header(host, title))
        self._header_size = self._size

    def __call__(self, events: Sequence[Event]) -> None:
        """Append events. A full disk ends the recording (`failed` says so), never the session."""
        with self._lock:
            if self._file.closed or self.failed:
                return
            if self._size < self._most // _PARTS or self._has_room():
                self._write(self._compress.compress(encoded(events)))
                if time.monotonic() - self._flushed >= _FLUSH_S:
                    self._flush()

    def close(self) -> None:
        """Flush and close the file."""
        with self._lock:
            if not self._file.closed:
                if not self.failed:
                    self._write(self._compress.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
                self._file.close()

    def _has_room(self) -> bool:
        """Begin a part when the first third is full, and drop the older one when two thirds are."""
        if self.keyframe is None or not self._regular():
            if self._size >= self._most:
                self._give_up(f"it reached its size limit of {byte_size(self._most)}")
        elif self._part is None:
            self._end_frame()
            self._part = self._size
            self._write(self._compress.compress(encoded(self.keyframe())))
            self._part_began_wall_ns = time.time_ns()
            self._end_frame()
        elif self._size >= 2 * self._most // _PARTS:
            self._end_frame()
            try:
                self._drop(self._part)
            except OSError as error:
                self.failed = f"the recording ended: {error.strerror}"
                return False
            self._part = None
            if self._size >= 2 * self._most // _PARTS:  # the state alone is too large
                self._give_up(f"its size limit of {byte_size(self._most)} has no room for the state")
        return not self.failed

    def _drop(self, begin: int) -> None:
        """Replace the file by one that starts at `begin`; the old file stays until the new one is complete."""
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        file = os.fdopen(open_private(beside, replace=True), "wb", buffering=0)
        try:
            since = clock(self._part_began_wall_ns)
            why = f"It begins at {since}: older events were dropped at its size limit of {byte_size(self._most)}."
            gone = self._gone + begin - self._header_size
            file.write(packed_header(*self._title, dropped=why, begins_at=gone))
            header_size = file.tell()
            with self._path.open("rb") as old:
                old.seek(begin)
                shutil.copyfileobj(old, file, 1 << 20)
            size = file.tell()
            beside.replace(self._path)
        except BaseException:
            file.close()
            beside.unlink(missing_ok=True)
            raise
        self._file.close()
        self._file, self._size = file, size
        self._gone, self._header_size = gone, header_size

    def _regular(self) -> bool:
        return self._path.is_file() and not self._path.is_symlink()

    def _give_up(self, why: str) -> None:
        self._write(self._compress.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
        self.failed = self.failed or f"the recording ended: {why}"

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
                written = self._file.write(view)
                self._size += written
                view = view[written:]
        except OSError as error:
            self.failed = f"the recording ended: {error.strerror}"


def open_recording(path: Path, *, replace: bool) -> BinaryIO:
    """Create a file for a recording that only its owner can read.

    Raises:
        RecordingError: it exists and is not to be replaced, or can't be created.
    """
    try:
        return os.fdopen(open_private(path, replace=replace), "wb", buffering=0)
    except FileExistsError:
        raise RecordingError(f"{path} already exists.", "choose another name, or add --force", "exists") from None
    except OSError as error:
        raise RecordingError(f"{path} can't be written: {error.strerror}.", "choose another path with -o") from None


def packed_header(host: str, title: str, dropped: str = "", begins_at: int = 0) -> bytes:
    """Return the first frame of a recording."""
    header = Header(MAGIC, SCHEMA_VERSION, __version__, host, title, time.time_ns(), dropped, begins_at)
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(json_bytes(header) + b"\n")


def encoded(events: Iterable[Event]) -> bytes:
    return b"".join(encode(event) + b"\n" for event in events)


_CHUNK: Final = 1_000
_KEPT: Final = 24
_STEP_NS: Final = 100_000_000  # events closer than this to the first of their step belong to it


class Tape:
    """Events in order of arrival; time runs along their wall clock, made monotonic."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._open: list[Event] = []
        self._pack = zstandard.ZstdCompressor(level=1)
        self._unpack = zstandard.ZstdDecompressor()
        self._unpacked: tuple[int, list[Event]] = (-1, [])
        self._stores: dict[int, Store] = {0: Store()}
        self.steps: list[int] = [0]
        """How many events come before the end of each step; the first step is the empty state."""
        self.times: list[int] = [0]
        """Wall clock at the end of each step, ns, never falling."""
        self._step_began = -_STEP_NS

    def __len__(self) -> int:
        return len(self._chunks) * _CHUNK + len(self._open)

    def extend(self, events: Iterable[Event]) -> int:
        """Append events; return how many."""
        count = 0
        for event in events:
            self._open.append(event)
            count += 1
            wall_ns = max(event.wall_ns, self.times[-1])
            if wall_ns - self._step_began >= _STEP_NS or len(self.steps) == 1:
                self._step_began = wall_ns
                self.steps.append(self.steps[-1] + 1)
                self.times.append(wall_ns)
            else:
                self.steps[-1] += 1
                self.times[-1] = wall_ns
            if len(self._open) == _CHUNK:
                self._chunks.append(self._pack.compress(b"\n".join(encode(one) for one in self._open)))
                self._open = []
        return count

    @property
    def start_wall_ns(self) -> int:
        """Wall clock of the first event."""
        return self.times[1] if len(self.times) > 1 else 0

    @property
    def end_wall_ns(self) -> int:
        """Wall clock of the last event."""
        return self.times[-1]

    def step_at(self, wall_ns: int) -> int:
        """Return the last step that ends at or before a time (at least the first one with events)."""
        return max(min(1, len(self.steps) - 1), bisect_right(self.times, wall_ns) - 1)

    def state(self, count: int) -> Store:
        """Return the fold of the first `count` events. Don't change it, copy it."""
        base = max(known for known in self._stores if known <= count)
        if base == count:
            return self._stores[base]
        store = self._stores[base].copy()
        for event in self._between(base, count):
            store.apply(event)
        self._stores[count] = store
        if len(self._stores) > _KEPT:
            self._thin()
        return store

    def _between(self, begin: int, end: int) -> Iterable[Event]:
        number = begin
        while number < end:
            chunk, first = divmod(number, _CHUNK)
            events = self._chunk(chunk)
            last = min(len(events), end - chunk * _CHUNK)
            yield from events[first:last]
            number = chunk * _CHUNK + last

    def _chunk(self, number: int) -> list[Event]:
        if number >= len(self._chunks):
            return self._open
        if self._unpacked[0] != number:
            packed = self._unpack.decompress(self._chunks[number])
            self._unpacked = (number, [decode(line) for line in packed.split(b"\n")])
        return self._unpacked[1]

    def _thin(self) -> None:
        """Forget the store that leaves the smallest gap."""
        known = sorted(self._stores)
        gaps = {known[i]: known[i + 1] - known[i - 1] for i in range(1, len(known) - 1)}
        del self._stores[min(gaps, key=lambda count: gaps[count])]
