"""A copy of a process's private anonymous memory, where a runtime keeps its objects; and the mapped IREE runtime.

Invariants:
    iree_image.I1. At most MOST bytes are copied; `cut` says that there were more.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct

from livedbg.linux import memory, target_files
from livedbg.linux.maps import Mapping
from livedbg.linux.memory import is_heap, used_pieces
from livedbg.text.patterns import lazy_re

Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

MOST: Final = 256 << 20
"""Bytes that are copied."""

_PIECE: Final = 1 << 20
_NOTHING: Final[tuple[int, Words]] = (0, np.empty(0, np.uint64))


class Image:
    """A copy of memory.

    Raises:
        OSError: the process is gone or not permitted.
    """

    def __init__(self, pid: int, mappings: Sequence[Mapping]) -> None:
        self._pid = pid
        self.pieces: list[tuple[int, Words]] = []
        self.cut = False
        left = MOST
        for mapping in filter(is_heap, mappings):
            for start, size in used_pieces(pid, mapping, _PIECE):
                if size > left:
                    self.cut = True
                    return
                left -= size
                self._copy(start, size)

    def _copy(self, start: int, size: int) -> None:
        try:
            data = memory.read(self._pid, start, size)
        except (ProcessLookupError, PermissionError):
            raise
        except OSError:
            return  # unmapped meanwhile
        last_at, last = self.pieces[-1] if self.pieces else _NOTHING
        words: Words = np.frombuffer(data, np.uint64)
        if last_at + last.nbytes == start:
            self.pieces[-1] = (last_at, np.concatenate((last, words)))
        else:
            self.pieces.append((start, words))

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return sum(words.nbytes for _, words in self.pieces)

    def __contains__(self, address: int) -> bool:
        start, words = self._piece(address)
        return address < start + words.nbytes

    def _piece(self, address: int) -> tuple[int, Words]:
        """Return the last piece that begins at or before an address; an empty one if there is none."""
        index = bisect_right(self.pieces, address, key=lambda piece: piece[0]) - 1
        return self.pieces[index] if index >= 0 else _NOTHING

    def places(self, values: Collection[int]) -> list[tuple[int, int]]:
        """Return (address, value) of each occurrence of some values, in address order."""
        wanted = np.array(sorted(values), np.uint64)
        found: list[tuple[int, int]] = []
        for start, words in self.pieces if len(wanted) else ():
            (near,) = np.nonzero((words >= wanted[0]) & (words <= wanted[-1]))
            (hits,) = np.nonzero(np.isin(words[near], wanted))
            found += [(start + 8 * int(place), int(words[place])) for place in near[hits]]
        return found

    def pointers(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return (address, value) of pointers into some ranges (begin, end), both in address order."""
        found: list[tuple[int, int]] = []
        begins = np.array([begin for begin, _ in ranges], np.uint64)
        ends = np.array([end for _, end in ranges], np.uint64)
        for start, words in self.pieces if len(ranges) else ():
            (near,) = np.nonzero((words >= begins[0]) & (words < ends[-1]))
            inside = words[near] < ends[np.searchsorted(begins, words[near], "right") - 1]
            found += [(start + 8 * int(place), int(words[place])) for place in near[inside]]
        return found

    def bytes_at(self, address: int, size: int) -> bytes | None:
        """Return bytes of the copy, or else of the process; None if unreadable."""
        start, words = self._piece(address)
        if address + size <= start + words.nbytes:
            data = words.view(np.uint8)[address - start : address - start + size]
            return data.tobytes()
        try:
            return memory.read(self._pid, address, size)
        except (ProcessLookupError, PermissionError):
            raise
        except (OSError, OverflowError):
            return None

    def unpack(self, form: struct.Struct, address: int) -> tuple[int, ...] | None:
        """Return the fields of a structure; None if it can't be read."""
        data = self.bytes_at(address, form.size) if 0 < address < 1 << 63 else None
        return None if data is None else form.unpack(data)


_FILE: Final = lazy_re(
    r"/(?:iree-(?:run|benchmark|check)-module|iree-run-replay|iree-benchmark-replay|_runtime\.cpython[^/]*\.so|"
    r"libIREERuntime[^/]*\.so|libiree_runtime[^/]*\.so|libireert[^/]*\.so)$"
)
_VERSION: Final = lazy_re(r'^VERSION = "([^"]{1,40})"', re.MULTILINE)


class Runtime(Struct, frozen=True):
    """One copy of the runtime.

    Attributes:
        path: of its file, as the process names it.
        code: begin and end of its executable mappings.
        version: of its package, e.g. `3.13.0`; "" if not known.
    """

    path: str
    start: int
    end: int
    code: tuple[tuple[int, int], ...]
    version: str = ""

    def has_code(self, address: int) -> bool:
        return any(start <= address < end for start, end in self.code)


def runtime_in(pid: int, mappings: Sequence[Mapping]) -> Runtime | None:
    """Return the runtime of a process; None if none is mapped."""
    path = next((one.path for one in mappings if one.executable and _FILE.search(one.path)), None)
    if path is None:
        return None
    own = [one for one in mappings if one.path == path]
    code = tuple((one.start, one.end) for one in own if one.executable)
    return Runtime(path, own[0].start, own[-1].end, code, _version(pid, path))


def _version(pid: int, path: str) -> str:
    """Return the version from `version.py` next to the file, as in wheels."""
    try:
        text = target_files.read_text(f"/proc/{pid}/root{Path(path).with_name('version.py')}")
    except OSError:
        return ""
    match = _VERSION.search(text)
    return match[1] if match else ""
