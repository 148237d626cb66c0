"""Finding the objects of some types in the memory of another process, by the pointers to these types.

Only pages that are there are read (livedbg.linux.used_memory).

Invariants:
    heap_search.S1. At most MOST_SEARCHED bytes are read by one search.
    heap_search.S2. After a search, what it found is given again for a time 100 times as long as it took.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from typing import Final

from livedbg.linux import memory
from livedbg.linux.maps import parse_maps
from livedbg.linux.used_memory import is_heap, used_pieces

__all__ = ["MOST_SEARCHED", "HeapSearch"]

MOST_SEARCHED: Final = 256 << 20
"""Bytes that one search reads."""

_MOST_MAPPED: Final = 64 << 30  # bytes whose pages are looked for
_PIECE: Final = 64 << 10
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
        for mapping in filter(is_heap, parse_maps(self._pid)):
            mapped -= mapping.end - mapping.start
            if mapped < 0:
                return found, True
            for start, size in used_pieces(self._pid, mapping, _PIECE):
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
