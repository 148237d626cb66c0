"""Built-in containers and attributes of instances in another process: dict, list, set, deque, slots.

The memory changes while it is read: each read is bounded, a miss gives less and never an error of another kind than
OSError, and nothing may be believed before it was read twice.

Sources: CPython Include/internal/{pycore_dict,pycore_object}.h, Include/cpython/{object,setobject,weakrefobject}.h,
Modules/_collectionsmodule.c, Objects/typeobject.c of 3.11 to 3.13; checked with 3.11.7, 3.12.1 and 3.13.0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Set
from typing import Final

from livedbg.cpython.objects import ObjectReader, is_pointer
from livedbg.linux import memory

_BASICSIZE_AT, _FLAGS_AT, _MEMBERS_AT, _BASE_AT, _DICTOFFSET_AT = 32, 168, 240, 256, 288  # PyTypeObject
_MANAGED_DICT, _INLINE_VALUES = 1 << 4, 1 << 2  # tp_flags
_MEMBER: Final = struct.Struct("<QiiqqQ")  # PyMemberDef: name, type, offset, flags, doc
_MEMBERS, _BASES, _ITEMS, _BLOCK = 64, 16, 1 << 16, 64
METHODS: Final = frozenset({"method", "builtin_function_or_method"})
"""Types of what is bound to an object."""

SELF_AT: Final = 24
"""Of these: im_self, m_self."""

_CELL_AT: Final = 16  # ob_ref
_DIGIT, _DIGITS = 30, 3  # bits of one digit of an int, and how many are read
_REMOVED: Final = (1 << 64) - 1  # hash of an entry of a set that was removed


class HeapReader:
    """Reads containers and attributes. Methods raise OSError for unreadable memory."""

    def __init__(self, objects: ObjectReader) -> None:
        self.objects = objects
        self.pid = objects.pid
        self._slots: dict[int, dict[str, int]] = {}
        self._names: dict[int, str] = {}
        self._bases: dict[int, tuple[str, ...]] = {}

    def type_name(self, address: int) -> str:
        head = self.objects.head(address)
        return self.objects.type_name(head) if head is not None else ""

    def base_names(self, address: int) -> tuple[str, ...]:
        """Return the names of an object's class and its bases, by `tp_base`."""
        (kind,) = self.words(address + 8, 1) if is_pointer(address) else (0,)
        if kind not in self._bases:
            found = []
            at = kind
            for _ in range(_BASES):
                if not is_pointer(at):
                    break
                name, (at,) = self.objects.class_name(at), self.words(at + _BASE_AT, 1)
                found.append(name)
            self._bases[kind] = tuple(found)
        return self._bases[kind]

    def words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", memory.read(self.pid, address, 8 * count)) if count > 0 else ()

    def bound_to(self, method: int) -> int:
        """Return the object to which a method is bound; 0 for other objects."""
        return self.words(method + SELF_AT, 1)[0] if self.type_name(method) in METHODS else 0

    def in_cell(self, value: int) -> int:
        """Return the value in a cell (a variable that an inner function uses too); of others the value itself."""
        return self.words(value + _CELL_AT, 1)[0] if self.type_name(value) == "cell" else value

    def integer(self, address: int) -> int | None:
        """Return the value of an int or a bool; None for others, and for more than _DIGITS digits: beyond 64 bits."""
        if self.type_name(address) not in ("int", "bool"):
            return None
        size, *digits = struct.unpack(f"<q{_DIGITS}I", memory.read(self.pid, address + 16, 8 + 4 * _DIGITS))
        count, negative = (abs(size), size < 0) if self._version < (3, 12) else (size >> 3, size & 3 == 2)
        if not 0 <= count <= _DIGITS:
            return None
        value: int = sum(digit << _DIGIT * place for place, digit in enumerate(digits[:count]))
        return -value if negative else value

    def number(self, address: int) -> float | None:
        """Return the value of a float or an int, or None."""
        if self.type_name(address) == "float":
            (value,) = struct.unpack("<d", memory.read(self.pid, address + 16, 8))
            return float(value)
        return self.integer(address)

    def name(self, address: int) -> str:
        """Return a string that doesn't change, such as the name of an attribute; cached."""
        if address not in self._names:
            self._names[address] = self.objects.text(address) if is_pointer(address) else ""
        return self._names[address]

    def among(self, addresses: list[int], wanted: Set[str]) -> dict[int, str]:
        """Return by address the strings that are one of some short ASCII ones; in one batch."""
        start = self.objects.layout.ascii_text
        width = start + max(map(len, wanted))
        found: dict[int, str] = {}
        for address, data in zip(addresses, memory.read_many(self.pid, [(at, width) for at in addresses]), strict=True):
            if data is None:  # at the end of a mapping
                text = self.name(address)
            else:
                size = int.from_bytes(data[16:24], "little")
                text = data[start : start + size].decode("latin-1") if size <= width - start else ""
            if text in wanted:
                found[address] = text
        return found

    def dict_items(self, address: int, limit: int = _ITEMS) -> list[tuple[int, int]]:
        """Return the keys and values of a dict."""
        used, _, keys, values = self.words(address + 16, 4)
        if not is_pointer(keys) or used > limit:
            return []
        if values:
            at = values + (8 if self._version >= (3, 13) else 0)
            return self._split(keys, at, limit)
        return [(key, value) for key, value in self._entries(keys, limit) if key and value]

    def dict_stamp(self, address: int) -> tuple[int, ...]:
        """Return words that change when a dict gets more keys."""
        used, _, keys, _ = self.words(address + 16, 4)
        return used, keys

    def _entries(self, keys: int, limit: int) -> list[tuple[int, int]]:
        _, sizes, _, count = self.words(keys, 4)
        index_bytes, kind = 1 << (sizes >> 8 & 0xFF), sizes >> 16 & 0xFF
        if count > limit or index_bytes > 1 << 24:
            return []
        width = 3 if kind == 0 else 2
        words = self.words(keys + 32 + index_bytes, count * width)
        return [(words[at + width - 2], words[at + width - 1]) for at in range(0, len(words), width)]

    def _split(self, keys: int, values: int, limit: int) -> list[tuple[int, int]]:
        """Return the keys of a class and the values of one instance of it."""
        names = self._entries(keys, limit)
        found = self.words(values, len(names))
        return [(key, value) for (key, _), value in zip(names, found, strict=True) if key and value]

    def attributes(self, address: int) -> dict[str, int]:
        """Return the attributes of an instance, from its dict and its slots."""
        (kind,) = self.words(address + 8, 1)
        if not is_pointer(kind):
            return {}
        found = {self.name(key): value for key, value in self._own_dict(address, kind)}
        slots = self._slots_of(kind)
        if slots:
            words = self.words(address, max(slots.values()) // 8 + 1)
            found.update((name, words[at // 8]) for name, at in slots.items() if words[at // 8])
        return found

    def _own_dict(self, address: int, kind: int) -> list[tuple[int, int]]:
        (flags,) = self.words(kind + _FLAGS_AT, 1)
        (offset,) = struct.unpack("<q", memory.read(self.pid, kind + _DICTOFFSET_AT, 8))
        if not flags & _MANAGED_DICT:
            (own,) = self.words(address + offset, 1) if 0 < offset < 1 << 16 else (0,)
            return self.dict_items(own) if is_pointer(own) else []
        before, own = self.words(address - 32, 2)
        (keys,) = self.words(kind + self.objects.layout.type_qualname + 8, 1)
        if self._version >= (3, 13):
            (basic,) = self.words(kind + _BASICSIZE_AT, 1)
            values = address + basic + 8 if flags & _INLINE_VALUES and not own else 0
        elif self._version == (3, 12):
            values = own + 1 if own & 1 else 0
        else:
            values = before
        if values and is_pointer(keys):
            return self._split(keys, values, _ITEMS)
        return self.dict_items(own) if is_pointer(own) else []

    def _slots_of(self, kind: int) -> dict[str, int]:
        """Return names and offsets of the `__slots__` of a class and of its bases."""
        if kind not in self._slots:
            found: dict[str, int] = {}
            at = kind
            for _ in range(_BASES):
                if not is_pointer(at):
                    break
                found.update(self._members(at))
                (at,) = self.words(at + _BASE_AT, 1)
            self._slots[kind] = found
        return self._slots[kind]

    def _members(self, kind: int) -> Iterator[tuple[str, int]]:
        (table,) = self.words(kind + _MEMBERS_AT, 1)
        for number in range(_MEMBERS if table else 0):
            name, form, _, offset, _, _ = _MEMBER.unpack(memory.read(self.pid, table + 40 * number, _MEMBER.size))
            if not name:
                return
            if form in (6, 16) and 0 < offset < 1 << 12:  # T_OBJECT, T_OBJECT_EX
                yield memory.read_text(self.pid, name, 64).decode("ascii", "replace"), offset

    def items(self, address: int, limit: int) -> list[int]:
        """Return the items of a list, tuple, deque, set or WeakSet, at most `limit`; [] for others."""
        kind = self.type_name(address)
        if kind == "tuple":
            (size,) = self.words(address + 16, 1)
            return list(self.words(address + 24, min(size, limit)))
        if kind == "list":
            size, at = self.words(address + 16, 2)
            return list(self.words(at, min(size, limit)))
        if kind == "collections.deque":
            return self._deque(address, limit)
        if kind == "set":
            return self._set(address, limit)
        if kind == "WeakSet":
            data = self.attributes(address).get("data", 0)
            return self._referents(self._set(data, limit)) if self.type_name(data) == "set" else []
        return []

    def _deque(self, address: int, limit: int) -> list[int]:
        size, block, _, left = self.words(address + 16, 4)
        found: list[int] = []
        while is_pointer(block) and len(found) < min(size, limit) and 0 <= left < _BLOCK:
            row = self.words(block + 8, _BLOCK + 1)
            found += row[left:_BLOCK]
            left, block = 0, row[_BLOCK]
        return found[: min(size, limit)]

    def _set(self, address: int, limit: int) -> list[int]:
        _, used, mask, table = self.words(address + 16, 4)
        if not used or mask > 1 << 22 or not is_pointer(table):
            return []
        found: list[int] = []
        for start in range(0, mask + 1, 4096):
            row = self.words(table + 16 * start, 2 * min(4096, mask + 1 - start))
            found += [key for key, hashed in zip(row[::2], row[1::2], strict=True) if key and hashed != _REMOVED]
            if len(found) >= limit:
                break
        return found[:limit]

    def _referents(self, references: list[int]) -> list[int]:
        return [
            int.from_bytes(head[16:24], "little")
            for head in self.objects.heads(references)
            if head is not None and "weakref" in self.objects.type_name(head).lower()
        ]

    @property
    def _version(self) -> tuple[int, int]:
        return self.objects.layout.version
