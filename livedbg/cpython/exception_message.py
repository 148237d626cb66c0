"""The message of a Python exception, from its arguments, without running its `__str__`; and the names of its classes.

Layouts: Include/cpython/unicodeobject.h (PyASCIIObject, PyCompactUnicodeObject), Include/cpython/longintrepr.h. Up to
3.11 an exception that C code raised may not be made yet: in its place is a string, a tuple, or one argument.

A class that C code defines statically has its full name in `tp_name`; any other has `__module__` in its dictionary and
`ht_qualname` after the type (CPython Objects/typeobject.c, type_module). Layouts: Include/cpython/object.h
(PyTypeObject), Include/internal/pycore_dict.h (struct _dictkeysobject), the same in 3.11 to 3.13.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from livedbg.cpython.objects import ObjectReader, is_pointer, word_in
from livedbg.linux import memory
from livedbg.probes.tracefs import bytes_in, number_in
from livedbg.text.sanitize import clean, clean_line

_TYPE_AT, _LENGTH_AT, _HASH_AT, _STATE_AT = 8, 16, 24, 32
_HEAD: Final = 80  # of a string: more than its head
_MOST_TEXT: Final = 4096  # bytes of a message
_DIGITS_AT: Final = 24
_DIGIT_BITS: Final = 30  # PyLong_SHIFT
_MOST_DIGITS: Final = 4
_SHOWN: Final = frozenset(("str", "int"))
_ENCODING: Final = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


class Kinds:
    """Names of the types of arguments, also of a process that has ended."""

    def __init__(self, objects: ObjectReader, known: Mapping[int, str]) -> None:
        self._objects = objects
        self._known = known
        self.layout = objects.layout

    def of(self, head: bytes) -> str:
        """Return the type of the object that begins with these bytes, or ""."""
        if not head:
            return ""
        return self._known.get(word_in(head, _TYPE_AT)) or self._objects.type_name(head)

    def text_now(self, address: int) -> str | None:
        """Return the current string at an address, or None."""
        if not is_pointer(address):
            return None
        try:
            head = memory.read(self._objects.pid, address, _HEAD)
        except OSError:
            return None
        return _text(head, self, address) if self.of(head) == "str" else None

    def whole(self, head: bytes, address: int, start: int, size: int) -> bytes:
        """Return a string's characters as fetched; if incomplete, the current ones if the string is the same."""
        if address and start + size > len(head):
            try:
                now = memory.read(self._objects.pid, address, start + min(size, _MOST_TEXT))
            except (OSError, OverflowError):
                now = b""
            if now[_TYPE_AT:_HASH_AT] == head[_TYPE_AT:_HASH_AT] and now[start : len(head)] == head[start:]:
                return now[start:]
        return head[start : start + size]


def message_of(values: Mapping[str, int | bytes], names: Sequence[str], kinds: Kinds) -> str:
    """Return the message of an exception; "" if it has none, or its first argument is neither text nor a number."""
    itself = bytes_in(values, "self")
    if itself:  # up to 3.11
        if not word_in(itself, _TYPE_AT):  # there is no value
            return ""
        kind = kinds.of(itself)
        if kind == "tuple":
            return _from_argument(bytes_in(values, "item"), names, kinds) if word_in(itself, _LENGTH_AT) else ""
        if kind in _SHOWN:
            return _from_argument(itself, names, kinds, number_in(values, "value"))
    count = number_in(values, "count")
    if not count:
        return ""
    first = bytes_in(values, "first")
    if count > 1 and "OSError" in names and kinds.of(first) == "int":
        return _system(values, _shown(first, kinds), kinds)
    return _from_argument(first, names, kinds, number_in(values, "first_at"))


def _system(values: Mapping[str, int | bytes], number: str | None, kinds: Kinds) -> str:
    """Return the message of OSError.__str__ (Objects/exceptions.c), without parts that the kernel did not read and are
    gone.
    """
    text = kinds.text_now(number_in(values, "second_at"))
    if text is None:
        text = os.strerror(int(number)) if number is not None and len(number) < 5 else ""
    name = kinds.text_now(number_in(values, "file_at"))
    return f"[Errno {number}] {text}" + (f": {name!r}" if name is not None else "")


def _from_argument(argument: bytes, names: Sequence[str], kinds: Kinds, address: int = 0) -> str:
    """Return the message of the first argument alone; a missing key as Python writes it."""
    text = _shown(argument, kinds, address) or ""
    return repr(text) if "KeyError" in names and kinds.of(argument) == "str" else text


def _shown(head: bytes, kinds: Kinds, address: int = 0) -> str | None:
    """Return a string's text or a number; None for all else."""
    kind = kinds.of(head)
    if kind == "str":
        return _text(head, kinds, address)
    if kind == "int":
        return _number(head, kinds)
    return None


def _text(head: bytes, kinds: Kinds, address: int) -> str | None:
    state = head[_STATE_AT]
    width, compact, ascii_only = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
    if not compact or width not in _ENCODING:
        return None
    start = kinds.layout.ascii_text if ascii_only else kinds.layout.other_text
    size = word_in(head, _LENGTH_AT) * width
    data = kinds.whole(head, address, start, size)
    text = data.decode(_ENCODING[width], "replace")
    return clean(text if len(data) == size else text + "…")


def _number(head: bytes, kinds: Kinds) -> str | None:
    tag = word_in(head, _LENGTH_AT)
    if kinds.layout.version <= (3, 11):
        size = tag - (1 << 64) if tag >> 63 else tag
        count, negative = abs(size), size < 0
    else:
        count, negative = tag >> 3, tag & 3 == 2
    if count > _MOST_DIGITS:
        return None
    digits = struct.unpack_from(f"<{count}I", head, _DIGITS_AT)
    number = sum(digit << place * _DIGIT_BITS for place, digit in enumerate(digits))
    return str(-number if negative else number)


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
    """Cache of a process's exception classes by address."""

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._known: dict[int, tuple[str, tuple[str, ...]]] = {}

    def names(self, address: int, plain: str) -> tuple[str, ...]:
        """Return the names of the class and its bases, nearest first: as in a traceback, then aliases.

        `plain` is its current `tp_name`: another class may be at an address where one was.
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
        """Return `__module__` of a class's dictionary, or ""."""
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
