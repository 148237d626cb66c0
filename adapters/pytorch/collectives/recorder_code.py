"""Finds the Flight Recorder of a stripped torch library in the code of functions that it exports.

`FlightRecorder<Event>::get()` keeps the recorder in a static variable of a function. Its symbol is a local one, which
`strip` removes. Functions that stay exported ask for it first: its guard is read (one byte, zero until the variable is
made), then the variable itself (a pointer), which GCC places directly behind the guard.

Sources: torch/csrc/distributed/c10d/{FlightRecorder.hpp,FlightRecorder.cpp,ProcessGroupGloo.cpp,ProcessGroupNCCL.cpp};
the Itanium C++ ABI, 3.3.3 (guard variables); compared with the symbols of torch 2.13.0 (CPU build) and 2.15.0 (CUDA
build, both libraries).

Invariants:
    recorder_code.K1. The variable is told only if it is the one that all these functions name, of those that name any.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols, possible_names

__all__ = ["recorder_in_code"]

_FUNCTIONS: Final = (
    "_ZN4c10d13dump_fr_trace",
    "_ZN4c10d18dump_fr_trace_json",
    "_ZN4c10d17getFlightRecorder",
    "_ZN4c10d16ProcessGroupGloo7runLoopE",
    "_ZN4c10d15dump_nccl_trace",
    "_ZN4c10d20dump_nccl_trace_json",
)
"""How the names of the functions begin; what follows are the types of their arguments."""

_MOST: Final = 96  # instructions that are looked at
_LENGTH: Final = 704  # in bytes
_CALLED: Final = 128  # of a function that is called, whose length no symbol tells
_BEHIND: Final = 8  # the variable lies so many bytes behind its guard
_RELATIVE: Final = re.compile(r"^(?P<to>\w+, )?(?P<size>byte|qword) ptr \[rip (?P<sign>[+-]) (?P<by>0x[0-9a-f]+|\d+)\]")
_X86_64: Final = 62


@cache
def _decoder() -> Any:
    try:
        import capstone
    except ImportError:
        return None
    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


def recorder_in_code(elf: ElfFile) -> int | None:
    """The address of the variable that points to the recorder; None where the code does not say (K1).

    Raises:
        ElfError: the file is cut short.
    """
    if elf.machine != _X86_64 or _decoder() is None:
        return None
    names = {name for name in possible_names(elf, _FUNCTIONS) if not name.endswith(".cold")}
    named = [_guarded(elf, one.address, min(one.size, _LENGTH)) for one in defined_symbols(elf, names).values()]
    named = [variables for variables in named if variables]
    found = set.intersection(*named) if named else set()
    return found.pop() if len(found) == 1 else None


def _guarded(elf: ElfFile, start: int, length: int, *, follow: bool = True) -> set[int]:
    """The variables that a function reads after their guards, also those of functions that it calls."""
    guards: set[int] = set()
    found: set[int] = set()
    code = elf.initial(start, length)
    for number, (address, size, name, operands) in enumerate(_decoder().disasm_lite(code, start)):
        if number == _MOST:
            break
        if name == "call" and follow and operands.startswith("0x"):
            found |= _guarded(elf, int(operands, 16), _CALLED, follow=False)
        place = _RELATIVE.match(operands)
        if place is None or name not in ("mov", "movzx", "cmp"):
            continue
        by = int(place["by"], 0)
        target = address + size + (by if place["sign"] == "+" else -by)
        if place["size"] == "byte":
            guards.add(target)
        elif name == "mov" and place["to"] and target - _BEHIND in guards:
            found.add(target)
    return found
