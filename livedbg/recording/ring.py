"""Keeps the last minutes of the event stream in memory, and writes them to a file on request.

The ring consists of parts. Each begins with a keyframe (livedbg.state.keyframe), so the oldest part can be dropped. A
part takes at least as many bytes of events as its keyframe has, so that keyframes of a large state cost no more than
the events: the ring then keeps longer than was asked.

Invariants:
    ring.G1. What is written covers the time that was asked for, as far as there were events and the memory limit
        allows.
    ring.G2. Memory depends on the time that is kept, the size of the state and the memory limit, not on how long it
        runs.
    ring.G3. What is written replays to the state that the session had.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import zstandard

from livedbg.model.errors import RecordingError
from livedbg.model.events import Event
from livedbg.recording.recorder import Keyframe, encoded, open_recording, packed_header
from livedbg.text.quantities import byte_size, clock, duration

MOST_RING_BYTES: Final = 256 << 20
"""Memory limit where none is given."""

_PARTS: Final = 8  # that the time is divided into
_FRAME_BYTES: Final = 1 << 20  # unpacked
_LEVEL: Final = 3


class _Part:
    """A packed block of events.

    Attributes:
        began_mono_ns: CLOCK_MONOTONIC of its first event.
        taken: bytes of its events before packing, without the keyframe.
        least: minimum of `taken` before the next part begins.
    """

    def __init__(self, first: Event, keyframe: Sequence[Event]) -> None:
        self.began_mono_ns, self.began_wall_ns = first.mono_ns, first.wall_ns
        self.size = self.taken = 0
        self._frames: list[bytes] = []
        self._zstd = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._open = bytearray()
        state = encoded(keyframe)
        self.least = len(state)
        self._open += state
        self.frames()

    def add(self, events: Sequence[Event]) -> None:
        lines = encoded(events)
        self.taken += len(lines)
        self._open += lines
        if len(self._open) >= _FRAME_BYTES:
            self.frames()

    def frames(self) -> tuple[bytes, ...]:
        if self._open:
            frame = self._zstd.compress(bytes(self._open))
            self._frames.append(frame)
            self.size += len(frame)
            self._open = bytearray()
        return tuple(self._frames)


class RingRecorder:
    """Keeps the last events; use it as the sink of a session.

    Args:
        path: file for `write`; must not exist yet, unless `replace`. Later ones get a number.

    Attributes:
        keyframe: returns the state as events; nothing is dropped before it is set.

    Raises:
        RecordingError: the file exists, or its directory does not.
    """

    def __init__(
        self,
        path: Path,
        host: str,
        title: str,
        *,
        last_s: float,
        replace: bool = False,
        most_bytes: int = MOST_RING_BYTES,
    ) -> None:
        if path.exists() and not replace:
            raise RecordingError(f"{path} already exists.", "choose another name, or add --force", "exists")
        if not path.absolute().parent.is_dir():
            raise RecordingError(f"{path.parent} is not a directory.", "choose another path with -o")
        self.keyframe: Keyframe | None = None
        self._path, self._replace = path, replace
        self._title = (host, title)
        self._last_ns = int(last_s * 1e9)
        self._most = most_bytes
        self._lock = threading.Lock()
        self._parts: deque[_Part] = deque()
        self._dropped = ""
        self._written = 0

    def __call__(self, events: Sequence[Event]) -> None:
        if not events:
            return
        with self._lock:
            now_ns = events[-1].mono_ns
            newest = self._parts[-1] if self._parts else None
            if newest is None or (self.keyframe is not None and self._is_full(newest, now_ns)):
                newest = _Part(events[0], self.keyframe() if self.keyframe is not None else ())
                self._parts.append(newest)
            newest.add(events)
            self._forget(now_ns)

    @property
    def size(self) -> int:
        """Packed bytes in memory."""
        with self._lock:
            return sum(part.size for part in self._parts)

    def write(self) -> Path:
        """Write the kept events to a new file: the given path, or the same with a number; return it.

        Raises:
            RecordingError: it can't be written.
        """
        with self._lock:
            frames = [frame for part in self._parts for frame in part.frames()]
            dropped = self._dropped
        path = self._path
        if self._written:
            path = path.with_name(f"{path.stem}-{self._written + 1}{path.suffix}")
        try:
            with open_recording(path, replace=self._replace or self._written > 0) as file:
                for data in (packed_header(*self._title, dropped=dropped), *frames):
                    view = memoryview(data)
                    while view:
                        view = view[file.write(view) :]
        except OSError as error:
            raise RecordingError(f"{path} can't be written: {error.strerror}.", "free disk space") from None
        self._written += 1
        return path

    def _is_full(self, part: _Part, now_ns: int) -> bool:
        too_large = part.size >= self._most // 2 and part.taken > 0
        old = now_ns - part.began_mono_ns >= self._last_ns // _PARTS
        return too_large or (old and part.taken >= part.least)

    def _forget(self, now_ns: int) -> None:
        """Drop the oldest parts that are outside the time or above the memory limit."""
        while len(self._parts) > 1:
            outdated = self._parts[1].began_mono_ns <= now_ns - self._last_ns
            if not outdated and sum(part.size for part in self._parts) <= self._most:
                return
            self._parts.popleft()
            why = f"--last {duration(self._last_ns)}" if outdated else f"its memory limit, {byte_size(self._most)}"
            self._dropped = (
                f"It begins at {clock(self._parts[0].began_wall_ns)}: older events were dropped because of {why}."
            )
