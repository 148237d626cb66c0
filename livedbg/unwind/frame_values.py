"""Arguments and local variables of frames as text, read by drgn from copied stacks and memory.

Values of the C++ standard library are shown as a reader thinks of them: `vector of 3 { 1, 2, 3 }`, and not its
pointers. drgn leaves out inherited members, so most of them would be `{}`. Layouts are those of GCC's library
(bits/stl_*.h) on 64-bit machines; LLVM's vector has the same. A type of that name with other member names is not
decoded.

Invariants:
    frame_values.V1. A variable that rests on a register whose value is not known has no value, and says so.
    frame_values.V2. A variable that can't be read costs itself only, and says so.
    frame_values.V3. What is read is bounded in number, length and time; a reader that has enough gives no more.
    frame_values.V4. A value of which parts are not shown says so.
    frame_values.V5. A variable whose declaration is not reached has no value, and says so.
    frame_values.C1. What can't be such a value, as before its constructor ran, is not shown as one.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import drgn
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from livedbg.text.patterns import lazy_re

if TYPE_CHECKING:
    import drgn

MemoryReader: TypeAlias = Callable[[int, int], bytes]
"""Takes an address and a size, and gives the bytes there; raises OSError."""

INVALID: Final = "<no valid value yet>"
"""Instead of a value that can't be one."""

_SHOWN: Final = 8  # elements
_MOST_BYTES: Final = 4096
_CONTAINERS_LONGEST: Final = 100
_LARGEST: Final = 1 << 40  # elements
_Show: TypeAlias = "Callable[[drgn.Object], str]"


def contained(value: drgn.Object, read: MemoryReader, show: _Show) -> str | None:
    """Return the text of a C++ library value; None if it is of another type."""
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
    shown = text[:_CONTAINERS_LONGEST].decode("utf-8", "replace").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown}"' if length <= _CONTAINERS_LONGEST else f'"{shown}"… ({length} bytes)'


class _Seen:
    def __init__(self, value: drgn.Object, read: MemoryReader, show: _Show) -> None:
        self.value = value
        self.type = value.type_.unaliased()
        self.bytes = value.to_bytes_()
        self.read = read
        self.show = show
        whole = len(self.bytes) // 8
        self.words: tuple[int, ...] = struct.unpack_from(f"<{whole}Q", self.bytes)

    def parameter(self, number: int = 0) -> drgn.Type:
        import drgn

        found = self.type.template_parameters[number].argument
        if not isinstance(found, drgn.Type):
            raise TypeError
        return found

    def made(self, type_: drgn.Type, data: bytes) -> str:
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
        return quoted(seen.read(at, min(length, _CONTAINERS_LONGEST)), length)
    except OSError:
        return INVALID


def _view(seen: _Seen) -> str:
    length, at = seen.words
    if length > _LARGEST:
        return INVALID
    try:
        return quoted(seen.read(at, min(length, _CONTAINERS_LONGEST)) if length else b"", length)
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


_MOST_OF_FRAME: Final = 48
_MOST: Final = 40_000  # each is read twice
_LONGEST: Final = 160
_MOST_S: Final = 5.0  # of processor time
_PARTS: Final = 64  # of an array or structure that is read: a larger one is only named
_ELEMENTS: Final = 8  # of an array of structures
_DEEPEST: Final = 4

_OPTIMIZED_OUT: Final = "<optimized out>"
_UNKNOWN: Final = "<not known without a stop>"
_NOT_SET: Final = "<not set yet>"
_UNREADABLE: Final = {"0x10": "a reference", "0x42": "a reference"}  # DW_TAG_reference_type, …_rvalue_reference_type

_STRING_AT: Final = lazy_re(r'0x[0-9a-f]+ = (?=")')  # a secret is masked if its name is next to it
_TAG: Final = lazy_re(r"unknown DWARF type tag (0x[0-9a-f]+)")


class ValueReader:
    """Reads variables within limits on number and time; `read` reads what pointers lead to, which was not copied."""

    def __init__(self, read: MemoryReader) -> None:
        self._memory = read
        self._known: dict[tuple[int, int], bytes] = {}
        self._left = _MOST
        self._end_s = time.process_time() + _MOST_S

    def values_of(self, frame: drgn.StackFrame, again: drgn.StackFrame, later: Collection[str] = ()) -> tuple[str, ...]:
        """Return `name=value` of each variable; instead of a value, why there is none.

        `again` is the frame with other values in the unknown registers; `later` variables are declared behind its line.
        """
        self._known.clear()
        other = dict(self._read(again, later))
        found = self._read(frame, later)
        return tuple(f"{name}={text if other.get(name) == text else _UNKNOWN}" for name, text in found)

    def _read(self, frame: drgn.StackFrame, later: Collection[str]) -> Iterator[tuple[str, str]]:
        try:
            names = frame.locals()
        except Exception:
            return
        for name in names[:_MOST_OF_FRAME]:
            if self._left <= 0 or time.process_time() > self._end_s:
                return
            try:
                text = _NOT_SET if name in later else self._text(frame[name])
            except Exception as error:  # a type that drgn does not know, memory that was not copied
                text = f"<not shown: {_reason(error)}>"
            if text:
                self._left -= 1
                yield name, text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

    def _bytes(self, address: int, size: int) -> bytes:
        key = address, size
        if key not in self._known:
            self._known[key] = self._memory(address, size)
        return self._known[key]

    def _text(self, value: drgn.Object, depth: int = 0) -> str:
        import drgn

        kind = value.type_.unaliased_kind()
        if kind is drgn.TypeKind.FUNCTION:
            return ""
        if value.absent_:
            return _OPTIMIZED_OUT
        if kind in (drgn.TypeKind.STRUCT, drgn.TypeKind.CLASS):
            made = contained(value, self._bytes, lambda part: self._text(part, depth + 1))
            if made is not None:
                return made
        if kind in (drgn.TypeKind.ARRAY, drgn.TypeKind.STRUCT, drgn.TypeKind.CLASS, drgn.TypeKind.UNION):
            size = drgn.sizeof(value.type_)
            if size > _PARTS * 8:
                return f"({size} bytes)"
            if kind is not drgn.TypeKind.ARRAY:
                return self._structure(value, size, depth)
            if value.type_.unaliased().type.unaliased_kind() in (drgn.TypeKind.STRUCT, drgn.TypeKind.CLASS):
                return self._array(value, depth)
        line = _formatted(value)
        if kind is drgn.TypeKind.POINTER and not line.endswith('"'):
            return self._c_string(value) or line
        return line

    def _structure(self, value: drgn.Object, size: int, depth: int) -> str:
        """Return the members as text; drgn does not know inherited ones."""
        type_ = value.type_.unaliased()
        members = type_.members or ()
        if not members:
            return "{}" if size <= 1 else f"<not shown: {(type_.tag or 'a structure')[:60]}>"
        if depth >= _DEEPEST:
            return "{…}"
        parts = ["inherited parts not shown"] if min(member.bit_offset for member in members) > 0 else []
        for member in members:
            if member.name is None:
                parts.append("…")
                continue
            try:
                text = self._text(value.member_(member.name), depth + 1)
            except Exception as error:
                text = f"<not shown: {_reason(error)}>"
            parts.append(f".{member.name} = {text}")
        return "{ " + ", ".join(parts) + " }"

    def _array(self, value: drgn.Object, depth: int) -> str:
        length = value.type_.unaliased().length or 0
        parts = [self._text(value[number], depth + 1) for number in range(min(length, _ELEMENTS))]
        return "{ " + ", ".join([*parts, *(["…"] if length > _ELEMENTS else [])]) + " }"

    def _c_string(self, value: drgn.Object) -> str:
        import drgn

        target = value.type_.unaliased().type.unaliased()
        if target.kind is not drgn.TypeKind.INT or target.size != 1 or target.name not in ("char", "signed char"):
            return ""
        data = b""
        address = value.value_()
        while len(data) < _LONGEST and b"\0" not in data:  # the next page may not be there
            size = min(_LONGEST - len(data), 4096 - (address + len(data)) % 4096)
            try:
                data += self._bytes(address + len(data), size)
            except OSError:
                break
        text, end, _ = data.partition(b"\0")
        printable = text.decode("utf-8", "replace").isprintable()
        return quoted(text, len(text)) if printable and (end or len(data) == _LONGEST) else ""


def _formatted(value: drgn.Object) -> str:
    text = value.format_(
        columns=_LONGEST,
        dereference=False,
        symbolize=False,
        string=True,
        char=True,
        type_name=False,
        member_type_names=False,
        element_type_names=False,
        members_same_line=True,
        elements_same_line=True,
    )
    return _STRING_AT.sub("", " ".join(text.split()))


def _reason(error: Exception) -> str:
    import drgn

    if isinstance(error, drgn.FaultError):
        return "not copied"
    tag = _TAG.search(str(error))
    return _UNREADABLE.get(tag[1] if tag else "", "drgn can't read its type")
