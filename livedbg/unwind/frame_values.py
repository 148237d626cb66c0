"""Arguments and local variables of frames as text, read by drgn from what was copied.

Invariants:
    frame_values.V1. A variable that rests on a register whose value is not known has no value, and says so.
    frame_values.V2. A variable that can't be read costs itself only, and says so.
    frame_values.V3. What is read is bounded in number, length and time; a reader that has enough gives no more.
    frame_values.V4. A value of which parts are not shown says so.
    frame_values.V5. A variable whose declaration is not reached has no value, and says so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from livedbg.unwind.containers import MemoryReader, contained, quoted

if TYPE_CHECKING:
    import drgn

__all__ = ["ValueReader"]

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

_STRING_AT: Final = re.compile(r'0x[0-9a-f]+ = (?=")')  # a secret is masked if its name is next to it
_TAG: Final = re.compile(r"unknown DWARF type tag (0x[0-9a-f]+)")


class ValueReader:
    """Reads variables until it has enough.

    Args:
        read: reads the memory of the process: what pointers lead to was not copied.
    """

    def __init__(self, read: MemoryReader) -> None:
        self._memory = read
        self._known: dict[tuple[int, int], bytes] = {}
        self._left = _MOST
        self._end_s = time.process_time() + _MOST_S

    def values_of(self, frame: drgn.StackFrame, again: drgn.StackFrame, later: Collection[str] = ()) -> tuple[str, ...]:
        """`name=value` of each variable; instead of a value, what it lacks.

        Args:
            frame: the frame.
            again: the same with other values of the registers that are not known.
            later: variables that are declared behind the frame's line.
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
        """Memory of the process; the same as before for one frame."""
        key = address, size
        if key not in self._known:
            self._known[key] = self._memory(address, size)
        return self._known[key]

    def _text(self, value: drgn.Object, depth: int = 0) -> str:
        """A value in a line; "" for what has none."""
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
        """Its members; drgn does not know those that it has inherited."""
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
        """The text that a pointer to characters leads to; "" where there is none."""
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
    """Why a variable can't be read, in a few words."""
    import drgn

    if isinstance(error, drgn.FaultError):
        return "not copied"
    tag = _TAG.search(str(error))
    return _UNREADABLE.get(tag[1] if tag else "", "drgn can't read its type")
