"""Finding the objects of some types in the memory of another process, by the pointers to these types.

Only pages that are there are read (`/proc/PID/pagemap`): a page that was never used would be mapped by reading it.

Invariants:
    heap_search.S1. At most MOST_SEARCHED bytes are read by one search.
    heap_search.S2. After a search that found nothing, none is made for a time 500 times as long as it took.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Final

from livedbg.linux import memory
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.procfs import living_task

__all__ = ["MOST_SEARCHED", "HeapSearch"]

MOST_SEARCHED: Final = 256 << 20
"""Bytes that one search reads."""

_CHUNK: Final = 4 << 20
_PAGE: Final = 4096
_THERE: Final = 3 << 62  # present, or swapped (Documentation/admin-guide/mm/pagemap.rst)
_TYPE_AT: Final = 8
_REST: Final = 500


class HeapSearch:
    """Searches one process.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._rests_until = 0.0

    def find(self, types: Collection[int]) -> tuple[list[int], bool]:
        """What may be objects of some types, by address, and whether there may be more.

        Raises:
            OSError: the process is gone, or reading it is not allowed.
        """
        if time.monotonic() < self._rests_until:
            return [], False
        began = time.thread_time()
        import numpy as np

        wanted = np.array(sorted(types), dtype="<u8")
        found: list[int] = []
        left = MOST_SEARCHED
        cut = False
        for start, size in self._ranges():
            if size > left:
                cut = True
                break
            left -= size
            try:
                data = memory.read(self._pid, start, size)
            except OSError as error:
                if isinstance(error, (ProcessLookupError, PermissionError)):
                    raise
                continue  # unmapped meanwhile
            words = np.frombuffer(data, dtype="<u8")[1::2]  # objects begin at multiples of 16
            found += (start + 16 * int(at) for at in np.flatnonzero(np.isin(words, wanted)))
        if not found:
            self._rests_until = time.monotonic() + _REST * (time.thread_time() - began)
        return found, cut

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Private, writable memory that is there, in pieces."""
        try:
            pages: IO[bytes] | None = Path(f"/proc/{living_task(self._pid)}/pagemap").open("rb", buffering=0)
        except OSError:
            pages = None
        try:
            for mapping in parse_maps(self._pid):
                if _is_heap(mapping):
                    for start in range(mapping.start, mapping.end, _CHUNK):
                        size = min(_CHUNK, mapping.end - start)
                        yield from _used(pages, start, size) if pages is not None else [(start, size)]
        finally:
            if pages is not None:
                pages.close()


def _is_heap(mapping: Mapping) -> bool:
    named = mapping.path and mapping.path != "[heap]" and not mapping.path.startswith("[anon")
    return mapping.permissions == "rw-p" and not mapping.inode and not named


def _used(pages: IO[bytes], start: int, size: int) -> Iterator[tuple[int, int]]:
    """The runs of pages of a range that are there."""
    import numpy as np

    try:
        pages.seek(start // _PAGE * 8)
        entries = np.frombuffer(pages.read(size // _PAGE * 8), dtype="<u8")
    except OSError:
        return
    there = np.concatenate(([0], (entries & np.uint64(_THERE) != 0).astype(np.int8), [0]))
    edges = np.flatnonzero(np.diff(there))
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        yield start + int(first) * _PAGE, int(end - first) * _PAGE
