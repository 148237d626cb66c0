"""Let a module compiled with AddressSanitizer load into a runtime built without it, as the wheels' is.

    python -m livedbg.adapters.iree.sanitized iree-compile m.mlir … -o m.vmfb

runs the compiler, and then clears the mark in the module's executable libraries: the header of such a library names
the sanitizer it was compiled for, and the runtime refuses it for that alone
(iree_hal_executable_library_header_t, runtime/src/iree/hal/local/executable_library.h).
The code only needs the sanitizer's own runtime, preloaded.

Invariants:
    iree_sanitized.U1. A library is changed only if exactly one place in it is a header of the known version with that
        mark.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from livedbg.text.patterns import lazy_re

_IMAGE: Final = b"\x7fELF\x02\x01\x01"
_LEAST: Final = 64
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _WRITABLE = 1, 2
_HEADER: Final = lazy_re(rb"\x06\0{7}[\s\S]{8}\0{4}\x01\0{3}")
"""Version, name, features, and the sanitizer: IREE_HAL_EXECUTABLE_LIBRARY_SANITIZER_ADDRESS."""
_MARK_AT: Final = 20


def unmarked(module: bytes) -> tuple[bytes, int]:
    """Return the module without AddressSanitizer marks, and the number of changed libraries."""
    made = bytearray(module)
    begins = [match.start() for match in re.finditer(re.escape(_IMAGE), module)]
    changed = 0
    for begin, end in pairwise([*begins, len(module)]):
        image = module[begin:end]
        found = _headers(image) if len(image) > _LEAST and b"__asan_init\0" in image else []
        if len(found) == 1:
            made[begin + found[0] + _MARK_AT] = 0
            changed += 1
    return bytes(made), changed


def _headers(image: bytes) -> list[int]:
    """Return possible headers in an image: a header has a relocated address, so it is in a writable segment."""
    table, count = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<H", image, 56)[0]
    found = []
    for at in range(table, min(table + count * _SEGMENT.size, len(image) - _SEGMENT.size), _SEGMENT.size):
        kind, flags, begin, _, _, size, _, _ = _SEGMENT.unpack_from(image, at)
        if kind == _PT_LOAD and flags & _WRITABLE:
            found += [match.start() for match in _HEADER.finditer(image, begin, begin + size)]
    return [at for at in found if at % 8 == 0]


def main(command: Sequence[str]) -> int:
    """Run a compiler, and clear the mark in the module that it wrote."""
    code = subprocess.run(command, check=False).returncode
    words = [*command[1:]]
    output = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "-o"), "")
    output = output or next((word[3:] for word in words if word.startswith("-o=")), "")
    path = Path(output)
    if code or not output or not path.is_file():
        return code
    made, changed = unmarked(path.read_bytes())
    if changed:
        path.write_bytes(made)
        print(f"AddressSanitizer: {changed} libraries of {path.name} load into any runtime now", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
