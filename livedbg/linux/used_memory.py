"""Which pages of a process's memory are there (`/proc/PID/pagemap`): a page that was never used would be mapped by
reading it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from livedbg.linux.maps import Mapping
from livedbg.linux.procfs import living_task

_CHUNK: Final = 4 << 20
_PAGE: Final = 4096
_THERE: Final = 3 << 62  # present, or swapped (Documentation/admin-guide/mm/pagemap.rst)


def is_heap(mapping: Mapping) -> bool:
    """Whether a mapping is private anonymous memory that can be written to, other than a main thread's stack."""
    named = mapping.path and mapping.path != "[heap]" and not mapping.path.startswith("[anon")
    return mapping.permissions == "rw-p" and not mapping.inode and not named


def used_pieces(pid: int, mapping: Mapping, most: int) -> Iterator[tuple[int, int]]:
    """The memory of a mapping that is there: address and size of each piece; all of it where that isn't known.

    Args:
        pid: the process.
        mapping: one of its mappings.
        most: bytes of a piece.
    """
    try:
        pages = os.open(f"/proc/{living_task(pid)}/pagemap", os.O_RDONLY)
    except OSError:
        yield from _pieces(mapping.start, mapping.end, most)
        return
    try:
        for start in range(mapping.start, mapping.end, _CHUNK):
            size = min(_CHUNK, mapping.end - start)
            for first, end in _runs(os.pread(pages, size // _PAGE * 8, start // _PAGE * 8)):
                yield from _pieces(start + first * _PAGE, start + end * _PAGE, most)
    finally:
        os.close(pages)


def _pieces(start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    return ((at, min(most, end - at)) for at in range(start, end, most))


def _runs(entries: bytes) -> Iterator[tuple[int, int]]:
    """The first page of each run of pages that are there, and the one behind it."""
    if not entries.strip(b"\0"):
        return
    at = 0
    for there, run in groupby(bool(entry & _THERE) for entry in memoryview(entries).cast("Q")):
        first, at = at, at + sum(1 for _ in run)
        if there:
            yield first, at
