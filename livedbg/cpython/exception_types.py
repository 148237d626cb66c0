"""The names of Python's exception classes and of their bases, read from a process's memory.

A class that C code defines statically has its full name in `tp_name`; any other has `__module__` in its dictionary
and `ht_qualname` behind the type (CPython Objects/typeobject.c, type_module). Layouts: Include/cpython/object.h
(PyTypeObject), Include/internal/pycore_dict.h (struct _dictkeysobject), the same in 3.11 to 3.13.
"""

from __future__ import annotations

import struct
from typing import Final

from livedbg.cpython.objects import ObjectReader, is_pointer
from livedbg.linux import memory
from livedbg.text.sanitize import clean_line

_NAME_AT, _FLAGS_AT, _DICT_AT, _MRO_AT = 24, 168, 264, 344
_TYPE_SIZE: Final = 352  # what is read of a type
_HEAP: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_TUPLE_SIZE_AT, _TUPLE_ITEMS_AT = 16, 24
_DICT_KEYS_AT: Final = 32
_KEYS: Final = struct.Struct("<8xBBB5x8xq")  # refcnt; log2_size, log2_index_bytes, kind; usable; nentries
_UNICODE: Final = 1  # DICT_KEYS_UNICODE: entries of key and value
_MOST_BASES, _MOST_ENTRIES = 32, 64
_SILENT: Final = frozenset(("builtins", "__main__"))  # modules that a traceback doesn't name (Lib/traceback.py)


class ExceptionTypes:
    """Knows the exception classes of one process by their addresses.

    Args:
        objects: reads its memory.
    """

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._known: dict[int, tuple[str, tuple[str, ...]]] = {}

    def names(self, address: int, plain: str) -> tuple[str, ...]:
        """The class's names and those of its bases, nearest first: as a traceback has it, then others that it goes by.

        Args:
            address: of the class.
            plain: its `tp_name` as it is now: another class may be where one was.
        """
        known = self._known.get(address)
        if known is None or known[0] != plain:
            known = plain, self._names(address) or (clean_line(plain),)
            self._known[address] = known
        return known[1]

    def _names(self, address: int) -> tuple[str, ...]:
        found: list[str] = []
        try:
            for base in self._order(address):
                found += self._of_one(base)
        except OSError:
            pass  # what is known by now
        return tuple(dict.fromkeys(name for name in found if name != "object"))

    def _order(self, address: int) -> tuple[int, ...]:
        """The class and its bases: `tp_mro`."""
        order = self._objects.word(address + _MRO_AT)
        if not is_pointer(order):
            return (address,)
        count = min(self._objects.word(order + _TUPLE_SIZE_AT), _MOST_BASES)
        return struct.unpack(f"<{count}Q", memory.read(self._objects.pid, order + _TUPLE_ITEMS_AT, 8 * count))

    def _of_one(self, address: int) -> list[str]:
        head = memory.read(self._objects.pid, address, _TYPE_SIZE)
        name, flags, entries = (struct.unpack_from("<Q", head, at)[0] for at in (_NAME_AT, _FLAGS_AT, _DICT_AT))
        plain = clean_line(memory.read_text(self._objects.pid, name, 256).decode("utf-8", "replace"))
        if not flags & _HEAP:
            return [plain, plain.rpartition(".")[2]]
        qualified = self._objects.text(self._objects.word(address + self._objects.layout.type_qualname))
        short = plain.rpartition(".")[2] if qualified == "?" else qualified
        module = self._module(entries) or plain.rpartition(".")[0]
        full = f"{module}.{short}" if module else short
        return [short, full] if module in _SILENT else [full, short]

    def _module(self, dictionary: int) -> str:
        """`__module__` of a class's dictionary; "" where it is not found."""
        keys = self._objects.word(dictionary + _DICT_KEYS_AT)
        _, index_log2, kind, entries = _KEYS.unpack(memory.read(self._objects.pid, keys, _KEYS.size))
        if kind != _UNICODE or not 0 < entries <= 1 << 20 or index_log2 > 32:
            return ""
        count = min(entries, _MOST_ENTRIES)
        table = memory.read(self._objects.pid, keys + _KEYS.size + (1 << index_log2), 16 * count)
        for key, value in struct.iter_unpack("<QQ", table):
            if is_pointer(key) and self._objects.text(key) == "__module__":
                module = self._objects.text(value)
                return "" if module == "?" else module
        return ""
