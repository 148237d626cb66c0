"""Values of the C++ library's types as a reader thinks of them: `vector of 3 { 1, 2, 3 }`, and not its pointers.

drgn leaves out what a type inherits, so most of these would be `{}`. Layouts are those of GCC's library (bits/stl_*.h)
on 64-bit machines; LLVM's vector has the same. A type of that name that has members of other names is none of them.

Invariant:
    containers.C1. What can't be such a value, as before its constructor ran, is not shown as one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import drgn

__all__ = ["INVALID", "MemoryReader", "contained", "quoted"]

MemoryReader: TypeAlias = Callable[[int, int], bytes]
"""Takes an address and a size, and gives the bytes there; raises OSError."""

INVALID: Final = "<no valid value yet>"
"""Instead of a value that can't be one."""

_SHOWN: Final = 8  # elements
_MOST_BYTES: Final = 4096
_LONGEST: Final = 100
_LARGEST: Final = 1 << 40  # elements
_Show: TypeAlias = "Callable[[drgn.Object], str]"


def contained(value: drgn.Object, read: MemoryReader, show: _Show) -> str | None:
    """The text of such a value; None where it is of another type.

    Args:
        value: an object in memory or a value.
        read: reads the memory of the process.
        show: gives the text of an element.
    """
    type_ = value.type_.unaliased()
    name = (type_.tag or "").partition("<")[0]
    decode = _DECODERS.get((name, type_.size or 0)) or _DECODERS.get((name, 0))
    if decode is None or any(not (member.name or "_").startswith("_") for member in type_.members or ()):
        return None
    try:
        return decode(_Seen(value, read, show))
    except (OSError, LookupError, struct.error, TypeError, ValueError):
        return None


def quoted(text: bytes, length: int) -> str:
    """A string, shortened."""
    shown = text[:_LONGEST].decode("utf-8", "replace").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown}"' if length <= _LONGEST else f'"{shown}"… ({length} bytes)'


class _Seen:
    """One value, its bytes and its words."""

    def __init__(self, value: drgn.Object, read: MemoryReader, show: _Show) -> None:
        self.value = value
        self.type = value.type_.unaliased()
        self.bytes = value.to_bytes_()
        self.read = read
        self.show = show
        whole = len(self.bytes) // 8
        self.words: tuple[int, ...] = struct.unpack_from(f"<{whole}Q", self.bytes)

    def parameter(self, number: int = 0) -> drgn.Type:
        """A type that it is made with."""
        import drgn

        found = self.type.template_parameters[number].argument
        if not isinstance(found, drgn.Type):
            raise TypeError
        return found

    def made(self, type_: drgn.Type, data: bytes) -> str:
        """The text of an object of some bytes."""
        import drgn

        return self.show(drgn.Object.from_bytes_(self.value.prog_, type_, data))


def _size_of(type_: drgn.Type) -> int:
    import drgn

    return int(drgn.sizeof(type_))


def _many(name: str, count: int) -> str:
    return f"{name} of {count}"


def _vector(seen: _Seen) -> str:
    begin, end, room = seen.words
    size = _size_of(seen.parameter())
    count = (end - begin) // size
    if not begin <= end <= room or (end - begin) % size or count > _LARGEST or (begin == room and begin):
        return INVALID
    shown = min(count, _SHOWN, _MOST_BYTES // size)
    try:
        data = seen.read(begin, max(shown * size, 1))[: shown * size] if begin else b""
    except OSError:
        return INVALID
    parts = [seen.made(seen.parameter(), data[at : at + size]) for at in range(0, len(data), size)]
    return f"{_many('vector', count)} {_braced(parts, count)}"


def _braced(parts: list[str], count: int) -> str:
    return "{ " + ", ".join([*parts, *(["…"] if count > len(parts) else [])]) + " }" if count else "{}"


def _bits(seen: _Seen) -> str:
    start, offset, finish, beyond = seen.words[0], seen.words[1] & 63, seen.words[2], seen.words[3] & 63
    count = (finish - start) * 8 + beyond - offset
    return _many("vector<bool>", count) if 0 <= count < _LARGEST else INVALID


def _string(seen: _Seen) -> str:
    at, length, room = seen.words[:3]
    if _size_of(seen.parameter()) != 1:
        return f"string of {length}" if length < _LARGEST else INVALID
    if at == (seen.value.address_ or -1) + 16:
        return quoted(seen.bytes[16 : 16 + length], length) if length < 16 else INVALID
    if length < 16 and seen.value.address_ is None and seen.read(at, length) == seen.bytes[16 : 16 + length]:
        return quoted(seen.bytes[16 : 16 + length], length)
    if length > room or room > _LARGEST:
        return INVALID
    try:
        return quoted(seen.read(at, min(length, _LONGEST)), length)
    except OSError:
        return INVALID


def _view(seen: _Seen) -> str:
    length, at = seen.words
    if length > _LARGEST:
        return INVALID
    try:
        return quoted(seen.read(at, min(length, _LONGEST)) if length else b"", length)
    except OSError:
        return INVALID


def _tree(seen: _Seen) -> str:
    parent, count = seen.words[2], seen.words[5]
    return _counted(seen, count) if (parent == 0) == (count == 0) and count < _LARGEST else INVALID


def _hashed(seen: _Seen) -> str:
    buckets, count = seen.words[1], seen.words[3]
    return _counted(seen, count) if 0 < buckets < _LARGEST and count < _LARGEST else INVALID


def _list(seen: _Seen) -> str:
    return _counted(seen, seen.words[2]) if seen.words[2] < _LARGEST else INVALID


def _deque(seen: _Seen) -> str:
    size = _size_of(seen.parameter())
    block = max(512 // size, 1)
    cursor, _, last, node, end, end_first, _, end_node = seen.words[2:10]
    count = ((end_node - node) // 8 - 1) * block + (end - end_first) // size + (last - cursor) // size
    return _counted(seen, count) if 0 <= count < _LARGEST else INVALID


def _counted(seen: _Seen, count: int) -> str:
    return _many((seen.type.tag or "").partition("<")[0], count)


def _pointer(seen: _Seen) -> str:
    return f"{seen.words[0]:#x}" if seen.words[0] else "nullptr"


def _optional(seen: _Seen) -> str:
    size = _size_of(seen.parameter())
    if seen.bytes[size] > 1:
        return INVALID
    return seen.made(seen.parameter(), seen.bytes[:size]) if seen.bytes[size] else "no value"


def _atomic(seen: _Seen) -> str:
    return seen.made(seen.parameter(), seen.bytes[: _size_of(seen.parameter())])


def _mutex(seen: _Seen) -> str:
    word, owner = struct.unpack_from("<I4xI", seen.bytes)
    return f"locked by thread {owner}" if word and owner else "locked" if word else "unlocked"


_ANY: Final = 0
_DECODERS: Final[dict[tuple[str, int], Callable[[_Seen], str]]] = {
    ("vector", 24): _vector,
    ("vector", 40): _bits,
    ("basic_string", 32): _string,
    ("basic_string_view", 16): _view,
    **{(name, 48): _tree for name in ("map", "set", "multimap", "multiset")},
    **{(f"unordered_{name}", 56): _hashed for name in ("map", "set", "multimap", "multiset")},
    ("list", 24): _list,
    ("deque", 80): _deque,
    ("unique_ptr", 8): _pointer,
    ("shared_ptr", 16): _pointer,
    ("weak_ptr", 16): _pointer,
    ("optional", _ANY): _optional,
    ("atomic", _ANY): _atomic,
    ("mutex", 40): _mutex,
    ("recursive_mutex", 40): _mutex,
}
