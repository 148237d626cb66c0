"""The events of a recording in memory, packed, with the positions that a replay can have.

Invariants:
    tape.T1. `state(n)` equals the fold of the first `n` events, whatever was asked for before.
    tape.T2. Memory grows with the packed size of the recording, not with its events: at most KEPT stores and
        one unpacked chunk are kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import zstandard

from livedbg.model.events import Event, decode, encode
from livedbg.state.store import Store

_CHUNK: Final = 1_000
_KEPT: Final = 24
_STEP_NS: Final = 100_000_000  # events closer than this to the first of their step belong to it


class Tape:
    """Events in order of their arrival; time runs along their wall clock, made monotonic."""

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
        """Append events; returns how many."""
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
        """The last step that ends at or before a time (at least the first one with events)."""
        return max(min(1, len(self.steps) - 1), bisect_right(self.times, wall_ns) - 1)

    def state(self, count: int) -> Store:
        """The fold of the first `count` events; not to be changed (copy it)."""
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
