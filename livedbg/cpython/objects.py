"""Single Python objects of another process: types, strings, code objects, locks.

The memory changes while it is read: nothing is believed before its type's name is right, and every miss is None.

Sources: CPython Include/cpython/{object,unicodeobject,code,methodobject}.h, Modules/_threadmodule.c (lockobject,
rlockobject), Objects/{exception_handling_notes.txt,locations.md} of 3.11 to 3.13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.cpython.layout import Layout
from livedbg.linux import memory
from livedbg.text.sanitize import clean_line

_TYPE_AT, _TYPE_NAME_AT = 8, 24
_BYTES_SIZE_AT, _BYTES_DATA_AT = 16, 32
_HEAD: Final = 48
_MOST_TEXT: Final = 1024
_MOST_TABLE: Final = 1 << 20
_MOST_SLOTS: Final = 1 << 16  # of a frame, words
_MOST_BITS: Final = 48  # of a number in a table: more is no offset and no line
_LOCKS: Final = frozenset({"_thread.lock", "_thread.RLock"})


class LockObject(NamedTuple):
    """A threading.Lock or threading.RLock.

    Attributes:
        word: address of the semaphore that its waiters sleep on (up to 3.13), or of its lock byte.
        owner: pthread identifier of its owner: RLock only, 0 for none.
    """

    address: int
    recursive: bool
    word: int
    locked: bool
    owner: int

    @property
    def type_name(self) -> str:
        """Return the class name for the user."""
        return "threading.RLock" if self.recursive else "threading.Lock"


class Code(Struct, frozen=True):
    """A code object; `slots` are local variables and value stack, `locals_count` those that are variables or cells."""

    address: int
    name: str
    file: str
    first_line: int
    slots: int
    locals_count: int
    start: int
    exceptions: bytes
    lines: bytes

    def live_depth(self, offset: int) -> int:
        """Return how many values of the value stack surely live at an instruction.

        These are the ones that its exception handler would keep (Objects/exception_handling_notes.txt).
        """
        entry = _varints(self.exceptions)
        for start in entry:
            length, _target, depth = next(entry, 0), next(entry, 0), next(entry, 0)
            if start * 2 <= offset < (start + length) * 2:
                return depth >> 1
        return 0

    def line(self, offset: int) -> int:
        """Return the source line of an instruction (Objects/locations.md)."""
        line, at, index = self.first_line, 0, 0
        while index < len(self.lines):
            first = self.lines[index]
            at += ((first & 7) + 1) * 2
            kind = first >> 3 & 15
            index += 1
            if kind in (13, 14):
                delta, index = _signed(self.lines, index)
                line += delta
            elif kind in (10, 11, 12):
                line += kind - 10
            if at > offset:
                break
            while index < len(self.lines) and not self.lines[index] & 0x80:
                index += 1
        return line


def _varints(table: bytes) -> Iterator[int]:
    """Yield the numbers of an exception table: 6 bits a byte, the most significant first, bit 6 = more."""
    value = 0
    for byte in table:
        value = (value << 6 | byte & 63) & (1 << _MOST_BITS) - 1
        if not byte & 64:
            yield value
            value = 0


def _signed(table: bytes, index: int) -> tuple[int, int]:
    """Read a signed number of a line table: 6 bits a byte, the least significant first, bit 0 = sign."""
    value = shift = 0
    while index < len(table):
        byte = table[index]
        index += 1
        value |= (byte & 63) << min(shift, _MOST_BITS)
        shift += 6
        if not byte & 64:
            break
    return (-(value >> 1) if value & 1 else value >> 1), index


def is_pointer(word: int) -> bool:
    """Return whether a word may be the address of an object."""
    return 0x1000 <= word < 1 << 56 and word & 7 == 0


def word_in(data: bytes, at: int) -> int:
    """Return a machine word of some bytes."""
    return int.from_bytes(data[at : at + 8], "little")


class ObjectReader:
    """Reads objects of one process; types and code objects are cached."""

    def __init__(self, pid: int, layout: Layout) -> None:
        self.pid = pid
        self.layout = layout
        self._types: dict[int, str] = {}
        self._codes: dict[int, Code | None] = {}

    def word(self, address: int) -> int:
        """Read the machine word at `address`; raise OSError if it is not mapped."""
        return word_in(memory.read(self.pid, address, 8), 0)

    def heads(self, addresses: list[int]) -> list[bytes | None]:
        """Read the first _HEAD bytes of objects, in one batch."""
        return memory.read_many(self.pid, [(address, _HEAD) for address in addresses])

    def head(self, address: int) -> bytes | None:
        """Read the first _HEAD bytes of an object; None if there is none."""
        return self.heads([address])[0] if is_pointer(address) else None

    def type_name(self, head: bytes) -> str:
        return self.class_name(word_in(head, _TYPE_AT))

    def class_name(self, kind: int) -> str:
        if kind not in self._types:
            name = ""
            if is_pointer(kind):
                try:
                    name = memory.read_text(self.pid, self.word(kind + _TYPE_NAME_AT), 64).decode("ascii", "replace")
                except OSError:
                    return ""
            self._types[kind] = name
        return self._types[kind]

    def lock(self, address: int, head: bytes) -> LockObject | None:
        name = self.type_name(head)
        if name not in _LOCKS:
            return None
        semaphore, second, third = struct.unpack_from("<QQQ", head, 16)
        recursive = name == "_thread.RLock"
        if self.layout.lock_word:
            return LockObject(address, recursive, address + 16, bool(head[16] & 1), second if recursive else 0)
        if recursive:
            return LockObject(address, True, semaphore, third > 0, second)
        return LockObject(address, False, semaphore, bool(head[32]), 0)

    def lock_at(self, address: int) -> LockObject | None:
        """Return the lock at `address`, reading its head, or None."""
        head = self.head(address)
        return self.lock(address, head) if head is not None else None

    def lock_of_condition(self, address: int) -> LockObject | None:
        """Return the lock of a threading.Condition: its first attribute that is one (`_lock`), or None."""
        for values in self._attribute_blocks(address):
            pointers = [word for (word,) in struct.iter_unpack("<Q", values) if is_pointer(word)]
            for pointer, head in zip(pointers, self.heads(pointers), strict=True):
                lock = self.lock(pointer, head) if head is not None else None
                if lock is not None:
                    return lock
        return None

    def _attribute_blocks(self, address: int) -> Iterator[bytes]:
        """Yield possible blocks of an instance's attribute values, the likeliest first.

        3.11: pointer to the values at -32, dict at -24; 3.12: values at -24, tagged in bit 0; 3.13: values after the
        object's head; a dict has its keys at +32, the values at +40 (Include/internal/{pycore_object,pycore_dict}.h).
        """
        if self.layout.version >= (3, 13):
            places = [address + 24]
        else:
            try:
                before = struct.unpack("<QQ", memory.read(self.pid, address - 32, 16))
            except OSError:
                return
            places = [before[0]] if self.layout.version == (3, 11) else [before[1] + 1]
        for place in places:
            if is_pointer(place):
                (values,) = memory.read_many(self.pid, [(place, 64)])
                if values is not None:
                    yield values

    def text(self, address: int) -> str:
        """Return a string, cleaned; "?" if there is none."""
        try:
            head = memory.read(self.pid, address, 48)
        except (OSError, OverflowError):
            return "?"
        length = word_in(head, 16)
        kind, compact, ascii_only = head[32] >> 2 & 7, head[32] >> 5 & 1, head[32] >> 6 & 1
        if not compact or kind not in (1, 2, 4):
            return "?"
        at = self.layout.ascii_text if ascii_only else self.layout.other_text
        try:
            data = memory.read(self.pid, address + at, min(length, _MOST_TEXT) * kind)
        except OSError:
            return "?"
        return clean_line(data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind], "replace"))

    def code(self, address: int) -> Code | None:
        if address not in self._codes:
            self._codes[address] = self._read_code(address)
        return self._codes[address]

    def _read_code(self, address: int) -> Code | None:
        at = self.layout.code
        try:
            head = memory.read(self.pid, address, at.instructions)
        except OSError:
            return None
        if self.type_name(head) != "code":
            return None

        def number(offset: int) -> int:
            return int.from_bytes(head[offset : offset + 4], "little", signed=True)

        count = number(at.locals_count)
        slots = max(0, count) + max(0, number(at.stack_size))
        if slots > _MOST_SLOTS:
            return None  # it is none, or was changed meanwhile
        return Code(
            address=address,
            name=self.text(word_in(head, at.qualname)),
            file=self.text(word_in(head, at.filename)),
            first_line=number(at.first_line),
            slots=slots,
            locals_count=max(0, count),
            start=address + at.instructions,
            exceptions=self._bytes(word_in(head, at.exception_table)),
            lines=self._bytes(word_in(head, at.line_table)),
        )

    def _bytes(self, address: int) -> bytes:
        try:
            size = self.word(address + _BYTES_SIZE_AT)
            return memory.read(self.pid, address + _BYTES_DATA_AT, size) if size < _MOST_TABLE else b""
        except (OSError, OverflowError):
            return b""
