"""ctypes binding of the part of elfutils' libdw that finds the functions at an address; drgn has loaded the library.

Signatures are those of elfutils/libdw.h; they are versioned and have not changed since 0.175.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

CALL_COLUMN, CALL_FILE, CALL_LINE = 0x57, 0x58, 0x59
FOLDER: Final = 0x1B  # DW_AT_comp_dir
LINKAGE_NAMES: Final = (0x6E, 0x2007)  # DW_AT_linkage_name, and what it was before DWARF 4
_LOCATION, _DECLARED_FILE, _DECLARED_LINE = 0x02, 0x3A, 0x3B
_OF_FRAME: Final = 0x91  # DW_OP_fbreg
_ORIGINS: Final = (0x31, 0x47)  # DW_AT_abstract_origin, DW_AT_specification


class Tag(IntEnum):
    """Kinds of entries (DWARF 5, 7.5.3)."""

    CLASS = 0x02
    LEXICAL_BLOCK = 0x0B
    STRUCT = 0x13
    UNION = 0x17
    INLINED = 0x1D
    MODULE = 0x1E
    CATCH_BLOCK = 0x25
    SUBPROGRAM = 0x2E
    TRY_BLOCK = 0x32
    VARIABLE = 0x34
    NAMESPACE = 0x39


class Die(ctypes.Structure):
    """A debugging information entry (Dwarf_Die); valid as long as its file is open."""

    _fields_ = (("addr", ctypes.c_void_p), ("cu", ctypes.c_void_p), ("abbrev", ctypes.c_void_p), ("pad", ctypes.c_long))

    @property
    def address(self) -> int:
        """The entry's address in memory, which is unique."""
        return int(self.addr or 0)


class _Attribute(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint), ("form", ctypes.c_uint), ("valp", ctypes.c_void_p), ("cu", ctypes.c_void_p))


class _Operation(ctypes.Structure):
    _fields_ = (
        ("atom", ctypes.c_uint8),
        ("number", ctypes.c_uint64),
        ("number2", ctypes.c_uint64),
        ("offset", ctypes.c_uint64),
    )


_DIE: Final = ctypes.POINTER(Die)
_OPERATIONS: Final = ctypes.POINTER(_Operation)
_ATTRIBUTE: Final = ctypes.POINTER(_Attribute)
_WORD: Final = ctypes.POINTER(ctypes.c_uint64)
_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "dwarf_begin": (ctypes.c_void_p, (ctypes.c_int, ctypes.c_int)),
    "dwarf_end": (ctypes.c_int, (ctypes.c_void_p,)),
    "dwarf_addrdie": (ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_uint64, _DIE)),
    "dwarf_cu_info": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), _DIE, _DIE, *[ctypes.c_void_p] * 3),
    ),
    "dwarf_child": (ctypes.c_int, (_DIE, _DIE)),
    "dwarf_siblingof": (ctypes.c_int, (_DIE, _DIE)),
    "dwarf_tag": (ctypes.c_int, (_DIE,)),
    "dwarf_haspc": (ctypes.c_int, (_DIE, ctypes.c_uint64)),
    "dwarf_ranges": (ctypes.c_ssize_t, (_DIE, ctypes.c_ssize_t, _WORD, _WORD, _WORD)),
    "dwarf_diename": (ctypes.c_char_p, (_DIE,)),
    "dwarf_attr": (ctypes.c_void_p, (_DIE, ctypes.c_uint, _ATTRIBUTE)),
    "dwarf_attr_integrate": (ctypes.c_void_p, (_DIE, ctypes.c_uint, _ATTRIBUTE)),
    "dwarf_formstring": (ctypes.c_char_p, (_ATTRIBUTE,)),
    "dwarf_formudata": (ctypes.c_int, (_ATTRIBUTE, _WORD)),
    "dwarf_formref_die": (ctypes.c_void_p, (_ATTRIBUTE, _DIE)),
    "dwarf_getlocation": (
        ctypes.c_int,
        (_ATTRIBUTE, ctypes.POINTER(_OPERATIONS), ctypes.POINTER(ctypes.c_size_t)),
    ),
    "dwarf_getscopes_die": (ctypes.c_int, (_DIE, ctypes.POINTER(_DIE))),
    "dwarf_getsrcfiles": (ctypes.c_int, (_DIE, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t))),
    "dwarf_filesrc": (ctypes.c_char_p, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)),
}
_MOST_RANGES: Final = 4096


@cache
def libdw() -> Libdw | None:
    """Return the library that drgn has loaded; None if there is none, or it lacks a function."""
    try:
        maps = Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines()
        loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "/libdw" in line}
        return next((Libdw(ctypes.CDLL(path)) for path in sorted(loaded)), None)
    except (OSError, AttributeError, IndexError):
        return None


class Libdw:
    """The library. Methods that return an attribute of an entry return None if it has none."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._call: dict[str, Any] = {}
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            self._call[name] = function
        self._free = ctypes.CDLL(None).free
        self._free.restype, self._free.argtypes = None, (ctypes.c_void_p,)

    def begin(self, fd: int) -> int | None:
        """Open the debug information of a file; None if it has none."""
        handle = self._call["dwarf_begin"](fd, 0)
        return int(handle) if handle else None

    def end(self, handle: int) -> None:
        self._call["dwarf_end"](handle)

    def unit_at(self, handle: int, address: int) -> Die | None:
        """Return the compilation unit at an address; for split DWARF the part with the functions."""
        unit, split = Die(), Die()
        if not self._call["dwarf_addrdie"](handle, address, unit):
            return None
        kind = ctypes.c_uint8()
        if not self._call["dwarf_cu_info"](unit.cu, None, kind, None, split, None, None, None) and split.address:
            return split
        return unit

    def children(self, die: Die) -> Iterator[Die]:
        child = Die()
        found = self._call["dwarf_child"](die, child)
        while found == 0:
            yield child
            after = Die()
            found = self._call["dwarf_siblingof"](child, after)
            child = after

    def tag(self, die: Die) -> int:
        return int(self._call["dwarf_tag"](die))

    def covers(self, die: Die, address: int) -> bool:
        """Return whether the entry's code holds an address."""
        return bool(self._call["dwarf_haspc"](die, address) > 0)

    def ranges(self, die: Die) -> list[tuple[int, int]]:
        """Return the address ranges of the entry's code."""
        base, start, end = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
        found: list[tuple[int, int]] = []
        at = 0
        while len(found) < _MOST_RANGES and (at := self._call["dwarf_ranges"](die, at, base, start, end)) > 0:
            found.append((start.value, end.value))
        return found

    def name(self, die: Die) -> str | None:
        """Return an entry's name, or that of its abstract origin."""
        text = self._call["dwarf_diename"](die)
        return text.decode("utf-8", "replace") if text else None

    def text(self, die: Die, code: int) -> str | None:
        """Return a string attribute of the entry or its abstract origin."""
        attribute = _Attribute()
        if not self._call["dwarf_attr_integrate"](die, code, attribute):
            return None
        text = self._call["dwarf_formstring"](attribute)
        return text.decode("utf-8", "replace") if text else None

    def number(self, die: Die, code: int) -> int | None:
        """Return a number attribute of the entry itself."""
        attribute, value = _Attribute(), ctypes.c_uint64()
        if not self._call["dwarf_attr"](die, code, attribute) or self._call["dwarf_formudata"](attribute, value):
            return None
        return value.value

    def declared_at(self, die: Die, unit: Die) -> tuple[str, int] | None:
        """Return file and line of its declaration, or None; of an abstract origin only if it is in the same unit."""
        found: list[int] = []
        for code in (_DECLARED_FILE, _DECLARED_LINE):
            attribute, value = _Attribute(), ctypes.c_uint64()
            if not self._call["dwarf_attr_integrate"](die, code, attribute) or attribute.cu != unit.cu:
                return None
            if self._call["dwarf_formudata"](attribute, value) or not value.value:
                return None
            found.append(value.value)
        file = self.file(unit, found[0])
        return (file, found[1]) if file is not None else None

    def in_frame(self, die: Die) -> bool:
        """Return whether a variable has one place in its frame, from the beginning of its scope to the end."""
        attribute, operations, count = _Attribute(), _OPERATIONS(), ctypes.c_size_t()
        if not self._call["dwarf_attr_integrate"](die, _LOCATION, attribute):
            return False
        if self._call["dwarf_getlocation"](attribute, ctypes.byref(operations), count) or count.value != 1:
            return False
        return bool(operations[0].atom == _OF_FRAME)

    def declaration(self, die: Die) -> Die:
        """Follow abstract origins and specifications to the first declaration."""
        for _ in range(8):
            for code in _ORIGINS:
                attribute, origin = _Attribute(), Die()
                if self._call["dwarf_attr"](die, code, attribute) and self._call["dwarf_formref_die"](
                    attribute, origin
                ):
                    die = origin
                    break
            else:
                break
        return die

    def scopes(self, die: Die) -> list[Die]:
        """Return the entry and those around it, innermost first."""
        found = _DIE()
        count = self._call["dwarf_getscopes_die"](die, ctypes.byref(found))
        if count <= 0:
            return []
        try:
            return [Die.from_buffer_copy(found[number]) for number in range(count)]
        finally:
            self._free(ctypes.cast(found, ctypes.c_void_p))

    def file(self, unit: Die, number: int) -> str | None:
        """Return the name of a source file of a unit."""
        files, count = ctypes.c_void_p(), ctypes.c_size_t()
        if self._call["dwarf_getsrcfiles"](unit, files, count) or number >= count.value:
            return None
        text = self._call["dwarf_filesrc"](files, number, None, None)
        return text.decode("utf-8", "replace") if text else None
