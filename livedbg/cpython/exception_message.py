"""The message of a Python exception, from the arguments that it was made with, without running its `__str__`.

Layouts: Include/cpython/unicodeobject.h (PyASCIIObject, PyCompactUnicodeObject), Include/cpython/longintrepr.h. Up to
3.11 an exception that C code raised may not be made yet: in its place is a string, a tuple, or one argument.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from livedbg.cpython.objects import ObjectReader, is_pointer
from livedbg.linux import memory
from livedbg.text.sanitize import clean

_TYPE_AT, _LENGTH_AT, _HASH_AT, _STATE_AT = 8, 16, 24, 32
_HEAD: Final = 80  # of a string: more than its head
_MOST_TEXT: Final = 4096  # bytes of a message
_DIGITS_AT: Final = 24
_DIGIT_BITS: Final = 30  # PyLong_SHIFT
_MOST_DIGITS: Final = 4
_SHOWN: Final = frozenset(("str", "int"))
_ENCODING: Final = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


class Kinds:
    """The names of the types of arguments, also of a process that has ended.

    Args:
        objects: reads its memory.
        known: names of types by address.
    """

    def __init__(self, objects: ObjectReader, known: Mapping[int, str]) -> None:
        self._objects = objects
        self._known = known
        self.layout = objects.layout

    def of(self, head: bytes) -> str:
        """The type of the object that begins with these bytes; "" where there is none."""
        if not head:
            return ""
        return self._known.get(_word(head, _TYPE_AT)) or self._objects.type_name(head)

    def text_now(self, address: int) -> str | None:
        """The string that is at an address now; None where there is none."""
        if not is_pointer(address):
            return None
        try:
            head = memory.read(self._objects.pid, address, _HEAD)
        except OSError:
            return None
        return _text(head, self, address) if self.of(head) == "str" else None

    def whole(self, head: bytes, address: int, start: int, size: int) -> bytes:
        """A string's characters: as fetched, or where that is not all, as they are there now if the string is the same.

        Args:
            head: the object's beginning, as fetched.
            address: of the object; 0 for not known.
            start: of the characters in it.
            size: of the characters.
        """
        if address and start + size > len(head):
            try:
                now = memory.read(self._objects.pid, address, start + min(size, _MOST_TEXT))
            except (OSError, OverflowError):
                now = b""
            if now[_TYPE_AT:_HASH_AT] == head[_TYPE_AT:_HASH_AT] and now[start : len(head)] == head[start:]:
                return now[start:]
        return head[start : start + size]


def message_of(values: Mapping[str, int | bytes], names: Sequence[str], kinds: Kinds) -> str:
    """The message of an exception; "" for one that has none, or whose first argument is neither text nor a number.

    Args:
        values: what was fetched at the raise.
        names: of its class and bases.
        kinds: knows types of the process.
    """
    itself = _object(values, "self")
    if itself:  # up to 3.11
        if not _word(itself, _TYPE_AT):  # there is no value
            return ""
        kind = kinds.of(itself)
        if kind == "tuple":
            return _from_argument(_object(values, "item"), names, kinds) if _word(itself, _LENGTH_AT) else ""
        if kind in _SHOWN:
            return _from_argument(itself, names, kinds, _address(values, "value"))
    count = values.get("count", 0)
    if not isinstance(count, int) or not count:
        return ""
    first = _object(values, "first")
    if count > 1 and "OSError" in names and kinds.of(first) == "int":
        return _system(values, _shown(first, kinds), kinds)
    return _from_argument(first, names, kinds, _address(values, "first_at"))


def _system(values: Mapping[str, int | bytes], number: str | None, kinds: Kinds) -> str:
    """As OSError.__str__ has it (Objects/exceptions.c); what the kernel did not read is left out when it is gone."""
    text = kinds.text_now(_address(values, "second_at"))
    if text is None:
        text = os.strerror(int(number)) if number is not None and len(number) < 5 else ""
    name = kinds.text_now(_address(values, "file_at"))
    return f"[Errno {number}] {text}" + (f": {name!r}" if name is not None else "")


def _from_argument(argument: bytes, names: Sequence[str], kinds: Kinds, address: int = 0) -> str:
    """The message that the first argument alone makes; a missing key as Python writes it."""
    text = _shown(argument, kinds, address) or ""
    return repr(text) if "KeyError" in names and kinds.of(argument) == "str" else text


def _shown(head: bytes, kinds: Kinds, address: int = 0) -> str | None:
    """A string's text or a number; None for all else."""
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
    size = _word(head, _LENGTH_AT) * width
    data = kinds.whole(head, address, start, size)
    text = data.decode(_ENCODING[width], "replace")
    return clean(text if len(data) == size else text + "…")


def _number(head: bytes, kinds: Kinds) -> str | None:
    tag = _word(head, _LENGTH_AT)
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


def _object(values: Mapping[str, int | bytes], name: str) -> bytes:
    value = values.get(name, b"")
    return value if isinstance(value, bytes) else b""


def _address(values: Mapping[str, int | bytes], name: str) -> int:
    value = values.get(name, 0)
    return value if isinstance(value, int) else 0


def _word(head: bytes, at: int) -> int:
    return int(struct.unpack_from("<Q", head, at)[0])
