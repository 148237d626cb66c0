"""Which variables of a function are declared behind the line that it is at: what lies in their memory is no value.

Imported in the unwinding process only.

Invariants:
    dwarf_variables.W1. Only a variable with one place in the frame, declared in the file of the line that the function
        is at and behind that line, is not set yet; one that the compiler tracks, and a static one, are what they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from livedbg.unwind.libdw import Die, Libdw, Tag

__all__ = ["later_variables"]

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
