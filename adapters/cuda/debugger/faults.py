"""Device exceptions as the debugger names and announces them (gdb/cuda/cuda-exceptions.c in cuda-gdb's source)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from livedbg.adapters.cuda.debugger.fault_table import FAULTS, MEMCHECK, Fault
from livedbg.text.sanitize import clean_line

__all__ = ["Announced", "announced", "fault_named", "title_of"]


class Announced(NamedTuple):
    """An exception as the debugger announces it.

    Attributes:
        address: of the instruction; None where the device doesn't say it.
    """

    name: str
    address: int | None
    function: str
    file: str | None
    line: int | None


_BY_NAME: Final = {name.lower(): fault for name, fault in FAULTS.items()}
_UNKNOWN: Final = Fault(None, "The device reports an error that livedbg doesn't know.", MEMCHECK)
_MOST: Final = 1 << 16
_LONGEST: Final = 4_096  # characters of a line; in a longer one the origin is looked for in vain for too long
_SIGNAL: Final = re.compile(r"CUDA_EXCEPTION_(\d+)")
_NAMED: Final = re.compile(r"(?:^CUDA Exception: |received signal CUDA_EXCEPTION_\d+, )([^\n]+?)\.?$", re.MULTILINE)
_ASSERTED: Final = re.compile(r"^Assertion failed\.$", re.MULTILINE)
_ORIGIN: Final = re.compile(
    r"The exception was triggered at PC (0x[0-9a-f]+)(?:  ([^\n(][^\n]*?))?(?:\s+\(([^():\n]+):(\d+)[^\n]*\))?$",
    re.MULTILINE,
)


def fault_named(name: str) -> Fault:
    """What an exception means by the debugger's name of it, or by `CUDA_EXCEPTION_N`."""
    signal = _SIGNAL.search(name)
    if signal is not None:
        code = int(signal[1])
        return next((fault for fault in FAULTS.values() if fault.code == code), _UNKNOWN._replace(code=code))
    return _BY_NAME.get(name.strip().lower(), _UNKNOWN)


def title_of(name: str, fault: Fault) -> str:
    """`CUDA exception 14, Warp Illegal Address`."""
    return f"CUDA exception{f' {fault.code}' if fault.code is not None else ''}, {name}"


def announced(text: str) -> Announced | None:
    """The exception that the debugger announces as it opens a core dump or attaches; None where there is none."""
    text = "\n".join(line[:_LONGEST] for line in text[:_MOST].split("\n"))
    named = _NAMED.search(text)
    name = clean_line(named[1], 100) if named else "Warp Assert" if _ASSERTED.search(text) else ""
    if not name:
        return None
    origin = _ORIGIN.search(text)
    if origin is None:
        return Announced(name, None, "", None, None)
    file, line = origin[3], origin[4]
    function = clean_line(origin[2] or "", 500).strip()
    return Announced(
        name, int(origin[1], 16), function, clean_line(file, 1000) if file else None, int(line) if line else None
    )
