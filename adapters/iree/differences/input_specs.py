"""The inputs of a function as words on a command line, as `iree-run-module --input=` takes them.

A number (`3.14`), `4x8xf32=0.5`, `4x8xf32=@FILE.bin` or `=+FILE.bin` (raw values), `@FILE.npy`, `+FILE.npy` (the next
array of the file before), `*FILE.npy` (all arrays of a file). worker_inputs.py reads them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_FILE: Final = re.compile(r"(?P<before>(?:(?:\d++x)*+[a-z]++\d\w*+=)?[@+]|\*)(?P<path>.+)", re.DOTALL)
_NO_VALUE: Final = re.compile(r"(?:\d+x)*[a-z]+\d\w*")


def absolute(spec: str) -> str:
    """The same input for a process that runs elsewhere."""
    match = _FILE.fullmatch(spec)
    return spec if match is None else f"{match['before']}{Path(match['path']).resolve()}"


def zeros(spec: str) -> str:
    """An input without values is zeros for `iree-run-module`; here it would be random."""
    return f"{spec}=0" if _NO_VALUE.fullmatch(spec) else spec
