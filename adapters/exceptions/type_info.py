"""The names of thrown types and of their bases, read from a process's memory.

Layouts (Itanium C++ ABI 2.9.5, run-time type information): a `std::type_info` is {vtable, char const *name};
`__si_class_type_info` adds {base}; `__vmi_class_type_info` adds {unsigned flags, unsigned count, {base, long offset
and flags}…}; `__pointer_type_info` adds {unsigned flags, pointee}. Which of them one is, follows from the type_info of
its own class, which is before its vtable's first entry.
"""

from __future__ import annotations

import struct
from typing import Final

from livedbg.linux import memory
from livedbg.text.demangling import demangled_type

__all__ = ["TypeNames"]

_SINGLE, _MULTIPLE = "N10__cxxabiv120__si_class_type_infoE", "N10__cxxabiv121__vmi_class_type_infoE"
_MOST_BASES: Final = 16
_DEPTH: Final = 12
_NAME: Final = 512  # bytes of a type's name that are read


class TypeNames:
    """Knows the types of one process by the address of their `type_info`.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: dict[int, tuple[str, ...]] = {}

    def names(self, type_info: int) -> tuple[str, ...]:
        """The type's name and those of its bases, nearest first; () when it can't be read."""
        known = self._known.get(type_info)
        if known is None:
            known = tuple(dict.fromkeys(self._names(type_info, _DEPTH)))
            if known:
                self._known[type_info] = known
        return known

    def _names(self, address: int, depth: int) -> list[str]:
        try:
            vtable, name = self._words(address, 2)
            names = [demangled_type(self._text(name))]
        except (OSError, UnicodeDecodeError):
            return []
        if depth:
            for base in self._bases(address, vtable):
                names += self._names(base, depth - 1)
        return names

    def _bases(self, address: int, vtable: int) -> list[int]:
        try:
            kind = self._text(self._words(self._words(vtable - 8, 1)[0] + 8, 1)[0])
            if kind == _SINGLE:
                return list(self._words(address + 16, 1))
            if kind == _MULTIPLE:
                count = struct.unpack("<II", memory.read(self._pid, address + 16, 8))[1]
                pairs = self._words(address + 24, 2 * min(count, _MOST_BASES))
                return list(pairs[::2])
        except (OSError, UnicodeDecodeError):
            pass  # the name by itself is worth something
        return []

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", memory.read(self._pid, address, 8 * count))

    def _text(self, address: int) -> str:
        return memory.read_text(self._pid, address, _NAME).decode("ascii")
