"""The functions at an address by debug information, with all of their names: what was inlined there, and where.

drgn gives the last part of an inlined function's name only, and finds no function that lies in a namespace of the debug
information, as Rust's do. So the tree is read by elfutils' libdw, which comes with drgn. Imported in the unwinding
process only: a damaged file may end it.

Which variables of a function are declared behind the line that it is at: what lies in their memory is no value.

Imported in the unwinding process only.

Invariants:
    dwarf_functions.N1. What is read of a unit is bounded; where it is not enough, nothing is said of its addresses.
    dwarf_functions.W1. Only a variable with one place in the frame, declared in the file of the line that the function
        is at and behind that line, is not set yet; one that the compiler tracks, and a static one, are what they are.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux import target_files
from livedbg.unwind.libdw import (
    CALL_COLUMN,
    CALL_FILE,
    CALL_LINE,
    LINKAGE_NAMES,
    Die,
    Libdw,
    Tag,
)

_MOST: Final = 4096


def later_variables(
    library: Libdw, unit: Die, scopes: Sequence[Die], file: str | None, line: int | None
) -> frozenset[str]:
    """The names of the variables that are declared behind a line.

    Args:
        library: what reads them.
        unit: the unit of the scopes.
        scopes: a function, and the blocks in it that hold the address.
        file: in which the function is.
        line: at which it is.
    """
    if file is None or line is None:
        return frozenset()
    here = os.path.normpath(file)
    later: set[str] = set()
    others: set[str] = set()
    variables = (die for scope in scopes for die in library.children(scope) if library.tag(die) == Tag.VARIABLE)
    for _, die in zip(range(_MOST), variables, strict=False):
        name = library.name(die)
        if name is not None:
            (later if library.in_frame(die) and _is_behind(library.declared_at(die, unit), here, line) else others).add(
                name
            )
    return frozenset(later - others)


def _is_behind(declared: tuple[str, int] | None, file: str, line: int) -> bool:
    return declared is not None and os.path.normpath(declared[0]) == file and declared[1] > line


_MOST_FUNCTIONS: Final = 1 << 18  # of a unit
_MOST_ENTRIES: Final = 1 << 20  # of a unit that are looked at
_DEEPEST: Final = 256
_HOLDS_FUNCTIONS: Final = frozenset({Tag.NAMESPACE, Tag.MODULE})
_BLOCKS: Final = frozenset({Tag.LEXICAL_BLOCK, Tag.TRY_BLOCK, Tag.CATCH_BLOCK})
_NAMED_SCOPES: Final = frozenset({Tag.NAMESPACE, Tag.CLASS, Tag.STRUCT, Tag.UNION, Tag.SUBPROGRAM, Tag.MODULE})


class Function(NamedTuple):
    """A function that an address lies in.

    Attributes:
        name: the last part of it, as its debug information has it; None for none.
        symbol: its linkage name; None for none.
        full: the name with those of the scopes around it, where there is no linkage name.
        inlined: it was inlined into the next one, which it was called from at `file`, `line`, `column`.
    """

    name: str | None
    symbol: str | None
    full: str | None
    inlined: bool
    file: str | None = None
    line: int | None = None
    column: int | None = None


class DwarfFunctions:
    """The debug information of one file.

    Args:
        file: the file.
        library: what reads it.
    """

    def __init__(self, file: Path, library: Libdw) -> None:
        self._library = library
        self._units: dict[int, _Unit] = {}
        self._handle: int | None = None
        self._fd = -1
        try:
            self._fd = target_files.open_fd(file)
        except OSError:
            return
        self._handle = library.begin(self._fd)

    def close(self) -> None:
        """Let the file go."""
        self._units = {}
        if self._handle is not None:
            self._library.end(self._handle)
            self._handle = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def at(self, address: int) -> list[Function]:
        """The functions at an address, innermost first: the last one is not inlined; none where none is known.

        Args:
            address: relative to the load bias, within an instruction.
        """
        unit = self._unit_at(address)
        return unit.at(address) if unit is not None else []

    def later_variables(self, address: int, places: Sequence[tuple[str | None, int | None]]) -> list[frozenset[str]]:
        """For each function at an address, the variables that are declared behind the place in it: none is set yet.

        Args:
            address: relative to the load bias, within an instruction.
            places: file and line in each of the functions, innermost first.
        """
        unit = self._unit_at(address)
        scopes = unit.scopes(address) if unit is not None else []
        if unit is None or len(scopes) != len(places):
            return [frozenset()] * len(places)
        return [later_variables(self._library, unit.die, one, *at) for one, at in zip(scopes, places, strict=True)]

    def _unit_at(self, address: int) -> _Unit | None:
        if self._handle is None:
            return None
        unit = self._library.unit_at(self._handle, address)
        if unit is None:
            return None
        known = self._units.get(unit.address)
        if known is None:
            known = self._units[unit.address] = _Unit(self._library, unit)
        return known


class _Unit:
    """One compilation unit, and where its functions lie."""

    def __init__(self, library: Libdw, unit: Die) -> None:
        self._library = library
        self.die = unit
        self._left = _MOST_ENTRIES
        self._found: list[tuple[int, int, Die]] = []
        self._collect(unit, 0)
        self._found.sort(key=lambda one: one[0])
        self._starts = [start for start, _, _ in self._found]
        if self._left <= 0:
            self._found, self._starts = [], []

    def _collect(self, parent: Die, depth: int) -> None:
        for die in self._library.children(parent):
            self._left -= 1
            if self._left <= 0 or len(self._found) > _MOST_FUNCTIONS:
                self._left = 0
                return
            tag = self._library.tag(die)
            if tag == Tag.SUBPROGRAM:
                self._found += [(start, end, die) for start, end in self._library.ranges(die) if start]
            elif tag in _HOLDS_FUNCTIONS and depth < _DEEPEST:
                self._collect(die, depth + 1)

    def at(self, address: int) -> list[Function]:
        """See DwarfFunctions."""
        chain = [scopes[0] for scopes in self.scopes(address)]
        return [self._function(die, inlined=number < len(chain) - 1) for number, die in enumerate(chain)]

    def scopes(self, address: int) -> list[list[Die]]:
        """For each function at an address, innermost first: itself, and the blocks in it that hold the address."""
        place = bisect_right(self._starts, address) - 1
        if place < 0 or address >= self._found[place][1]:
            return []
        here = self._found[place][2]
        chain = [[here]]
        for _ in range(_DEEPEST):
            for die in self._library.children(here):
                tag = self._library.tag(die)
                if (tag == Tag.INLINED or tag in _BLOCKS) and self._library.covers(die, address):
                    here = die
                    break
            else:
                break
            if tag == Tag.INLINED:
                chain.insert(0, [die])
            else:
                chain[0].append(die)
        return chain

    def _function(self, die: Die, *, inlined: bool) -> Function:
        library = self._library
        symbol = next((text for code in LINKAGE_NAMES if (text := library.text(die, code))), None)
        name = library.name(die)
        full = None
        if name is not None and symbol is None:
            full = "::".join([*self._around(die), name])
        if not inlined:
            return Function(name, symbol, full, False)
        number = library.number(die, CALL_FILE)
        file = library.file(self.die, number) if number else None
        return Function(
            name,
            symbol,
            full,
            True,
            os.path.normpath(file) if file else None,
            library.number(die, CALL_LINE),
            library.number(die, CALL_COLUMN),
        )

    def _around(self, die: Die) -> list[str]:
        """The names of the scopes in which a function was declared, the outermost first."""
        names: list[str] = []
        for scope in self._library.scopes(self._library.declaration(die))[1:]:
            tag = self._library.tag(scope)
            if tag not in _NAMED_SCOPES:
                continue
            name = self._library.name(scope)
            if name is None:
                name = "(anonymous namespace)" if tag == Tag.NAMESPACE else "{lambda}"
            names.insert(0, name)
        return names
