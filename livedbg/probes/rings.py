"""The rings that perf events write into: one a CPU, within one budget for all of them together.

Layouts: linux/perf_event.h (struct perf_event_mmap_page, struct perf_event_header).

Invariants:
    rings.B1. The rings of all events of ours together stay within `RINGS`, but for the least that each has.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.probes.perf_event import open_ring

RINGS: Final = 64 << 20
"""Bytes of all rings together."""

RING_BYTES: Final = 32 << 20
"""Of the rings of one set of events."""

_PAGE: Final = mmap.PAGESIZE
LEAST: Final = 64 << 10
"""Bytes of the smallest ring."""
_HEAD, _TAIL = 1024, 1032  # data_head and data_tail of struct perf_event_mmap_page


class Record(NamedTuple):
    """A record, with its header."""

    kind: int
    misc: int
    data: bytes


class _Budget:
    """The rest of `RINGS`. Thread-safe."""

    def __init__(self) -> None:
        self._left = RINGS
        self._one_at_a_time = threading.Lock()

    def take(self, most: int, least: int) -> int:
        """Take up to half of the remaining budget, but at least `least`."""
        with self._one_at_a_time:
            granted = max(least, min(most, self._left // 2))
            self._left -= granted
            return granted

    def give(self, granted: int) -> None:
        with self._one_at_a_time:
            self._left += granted


_budget: Final = _Budget()


class Rings:
    """A ring for every CPU. Close them.

    Args:
        most: upper limit of all of them together, in bytes; they get half of what is left of the budget, but 64 KB each
            at least.

    Attributes:
        files: CPU -> descriptor of its ring, for PERF_EVENT_IOC_SET_OUTPUT.

    Raises:
        NoPerf: not allowed.
        OSError: too many files are open, or too much memory is locked (perf_event_mlock_kb).
    """

    def __init__(self, most: int) -> None:
        self.files: dict[int, int] = {}
        self._maps: dict[int, tuple[int, mmap.mmap]] = {}
        self._poll = select.epoll()
        self._granted = 0
        try:
            cpus = _online()
            self._granted = _budget.take(most, len(cpus) * LEAST)
            for cpu in cpus:
                self._add(cpu, _power_below(self._granted // len(cpus)))
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        """Their size together, in bytes."""
        return sum(size for size, _ in self._maps.values())

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are records."""
        return self._poll.fileno()

    def drain(self) -> Iterator[Record]:
        """Yield the records since the last call, ring after ring."""
        for size, ring in self._maps.values():
            yield from records(ring, size)

    def close(self) -> None:
        """Close all rings, and return their memory to the budget."""
        for _, ring in self._maps.values():
            ring.close()
        for file in self.files.values():
            os.close(file)
        self._maps.clear()
        self.files.clear()
        self._poll.close()
        _budget.give(self._granted)
        self._granted = 0

    def _add(self, cpu: int, size: int) -> None:
        """Add the ring of a CPU, smaller if need be."""
        file = self.files[cpu] = open_ring(cpu)
        while True:
            try:
                self._maps[cpu] = (size, map_ring(file, size))
                break
            except OSError as error:
                if error.errno != errno.EPERM or size <= LEAST:  # perf_event_mlock_kb
                    raise
                size //= 2
        self._poll.register(file, select.EPOLLIN)


def map_ring(file: int, size: int) -> mmap.mmap:
    """Map the ring of an event; `size` is a power of two, of pages.

    Raises:
        OSError: too much memory is locked (perf_event_mlock_kb).
    """
    return mmap.mmap(file, _PAGE + size)


def records(ring: mmap.mmap, size: int) -> Iterator[Record]:
    """Yield the records that a ring has got since the last call; `size` is without the page in front of it."""
    head, tail = struct.unpack_from("<QQ", ring, _HEAD)
    while tail < head:
        kind, misc, length = struct.unpack("<IHH", _piece(ring, size, tail, 8))
        yield Record(kind, misc, _piece(ring, size, tail, length))
        tail += length
    struct.pack_into("<Q", ring, _TAIL, tail)


def _piece(ring: mmap.mmap, size: int, at: int, length: int) -> bytes:
    at %= size
    first = ring[_PAGE + at : _PAGE + min(at + length, size)]
    return first if len(first) == length else first + ring[_PAGE : _PAGE + length - len(first)]


def _power_below(number: int) -> int:
    return 1 << max(number.bit_length() - 1, LEAST.bit_length() - 1)


def _online() -> list[int]:
    """Return the online CPUs (/sys/devices/system/cpu/online: `0-3,8`)."""
    found: list[int] = []
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
