"""Local variables of Python frames in another process, by name.

Invariants:
    frame_locals.F1. A variable is given only if the code object has one name for each of its variables: a tuple of as
        many strings.

Sources: CPython Include/cpython/code.h (co_localsplusnames), Include/cpython/cellobject.h, of 3.11 to 3.13.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import Code
from livedbg.cpython.threads import PyFrame

_CELL_AT: Final = 16  # ob_ref of a cell
_MOST: Final = 512


class FrameLocals:
    """Reads local variables of frames of one process; remembers the names that a code object has.

    Args:
        heap: reads objects of the process.
    """

    def __init__(self, heap: HeapReader) -> None:
        self._heap = heap
        self._names: dict[int, tuple[str, ...]] = {}

    def of(self, frame: PyFrame, wanted: Set[str]) -> dict[str, int]:
        """Addresses of the values of some local variables of a frame; those that have no value are left out.

        Raises:
            OSError: not readable.
        """
        found = {}
        for name, value in zip(self._names_of(frame.code), frame.slots, strict=False):
            if name in wanted and value:
                cell = self._heap.type_name(value) == "cell"
                found[name] = self._heap.words(value + _CELL_AT, 1)[0] if cell else value
        return {name: value for name, value in found.items() if value}

    def _names_of(self, code: Code) -> tuple[str, ...]:
        if code.address not in self._names:
            self._names[code.address] = self._read(code)
        return self._names[code.address]

    def _read(self, code: Code) -> tuple[str, ...]:
        (at,) = self._heap.words(code.address + self._heap.objects.layout.code.names, 1)
        if self._heap.type_name(at) != "tuple" or not 0 < code.locals_count <= _MOST:
            return ()
        (size,) = self._heap.words(at + 16, 1)
        items = self._heap.items(at, _MOST)
        if size != code.locals_count or any(self._heap.type_name(item) != "str" for item in items):
            return ()
        return tuple(self._heap.name(item) for item in items)
