"""Names of the kernels that the Ascend simulator loads from deleted files.

The `simpler` runtime writes each kernel to /tmp/kernel_<func id>_XXXXXX, loads and unlinks it (simpler
src/common/sim_context, August 2026). Whoever knows the kernels' names passes them to `name_kernels`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

__all__ = ["kernel_label", "name_kernels"]

_FILE: Final = re.compile(r"^kernel_(-?\d+)_\w{6}$")
_MOST: Final = 64

_known: OrderedDict[int, dict[int, str]] = OrderedDict()


def name_kernels(pid: int, names: Mapping[int, str]) -> None:
    """Keep the kernels' names of a process, by func id."""
    _known[pid] = dict(names)
    _known.move_to_end(pid)
    while len(_known) > _MOST:
        _known.popitem(last=False)


def kernel_label(pid: int, file: str) -> str | None:
    """`kernel func 2 (MUL)` for the base name of a kernel's file; None for any other file."""
    match = _FILE.match(file)
    if match is None:
        return None
    name = _known.get(pid, {}).get(int(match[1]))
    return f"kernel func {match[1]} ({name})" if name else f"kernel func {match[1]}"
