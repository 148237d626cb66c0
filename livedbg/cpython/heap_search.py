"""Finding the objects of some types in the memory of another process, by the pointers to these types.

Only pages that are there are read (`/proc/PID/pagemap`): a page that was never used would be mapped by reading it.

Invariants:
    heap_search.S1. At most MOST_SEARCHED bytes are read by one search.
    heap_search.S2. After a search, what it found is given again for a time 100 times as long as it took.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Set
from itertools import groupby
from typing import Final

from livedbg.linux import memory
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.procfs import living_task

__all__ = ["MOST_SEARCHED", "HeapSearch"]

MOST_SEARCHED: Final = 256 << 20
"""Bytes that one search reads."""

_MOST_MAPPED: Final = 64 << 30  # bytes whose pages are looked for
_CHUNK: Final = 4 << 20
_PIECE: Final = 64 << 10
_PAGE: Final = 4096
_THERE: Final = 3 << 62  # present, or swapped (Documentation/admin-guide/mm/pagemap.rst)
_REST: Final = 100


class HeapSearch:
    """Searches one process.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._rests_until = 0.0
        self._last: tuple[list[int], bool] = ([], False)

    def find(self, types: Set[int]) -> tuple[list[int], bool]:
        """What may be objects of some types, by address, and whether there may be more.

        Raises:
            OSError: the process is gone, or reading it is not allowed.
        """
        if time.monotonic() >= self._rests_until:
            began = time.thread_time()
            self._last = self._search(types)
            self._rests_until = time.monotonic() + _REST * (time.thread_time() - began)
        return self._last

    def _search(self, types: Set[int]) -> tuple[list[int], bool]:
        found: list[int] = []
        left, mapped = MOST_SEARCHED, _MOST_MAPPED
        for mapping in filter(_is_heap, parse_maps(self._pid)):
            mapped -= mapping.end - mapping.start
            if mapped < 0:
                return found, True
            for start, size in self._used(mapping):
                if size > left:
                    return found, True
                left -= size
                found += self._in(start, size, types)
        return found, False

    def _in(self, start: int, size: int, types: Set[int]) -> Iterator[int]:
        """Objects begin at multiples of 16, and the pointer to the type is their second word."""
        try:
            data = memory.read(self._pid, start, size)
        except (ProcessLookupError, PermissionError):
            raise
        except OSError:
            return  # unmapped meanwhile
        words = memoryview(data).cast("Q")[1::2]
        if not types.isdisjoint(words):
            yield from (start + 16 * place for place, word in enumerate(words) if word in types)

    def _used(self, mapping: Mapping) -> Iterator[tuple[int, int]]:
        """The memory of a mapping that is there, in pieces."""
        try:
            pages = os.open(f"/proc/{living_task(self._pid)}/pagemap", os.O_RDONLY)
        except OSError:
            yield from _pieces(mapping.start, mapping.end)
            return
        try:
            for start in range(mapping.start, mapping.end, _CHUNK):
                size = min(_CHUNK, mapping.end - start)
                for first, end in _runs(os.pread(pages, size // _PAGE * 8, start // _PAGE * 8)):
                    yield from _pieces(start + first * _PAGE, start + end * _PAGE)
        finally:
            os.close(pages)


def _is_heap(mapping: Mapping) -> bool:
    named = mapping.path and mapping.path != "[heap]" and not mapping.path.startswith("[anon")
    return mapping.permissions == "rw-p" and not mapping.inode and not named


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    return ((at, min(_PIECE, end - at)) for at in range(start, end, _PIECE))


def _runs(entries: bytes) -> Iterator[tuple[int, int]]:
    """The first page of each run of pages that are there, and the one behind it."""
    if not entries.strip(b"\0"):
        return
    at = 0
    for there, run in groupby(bool(entry & _THERE) for entry in memoryview(entries).cast("Q")):
        first, at = at, at + sum(1 for _ in run)
        if there:
            yield first, at
