"""The runtime in a process: the program or library of IREE that it has mapped, and its version."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.linux import target_files
from livedbg.linux.maps import Mapping

_FILE: Final = re.compile(
    r"/(?:iree-(?:run|benchmark|check)-module|iree-run-replay|iree-benchmark-replay|_runtime\.cpython[^/]*\.so|"
    r"libIREERuntime[^/]*\.so|libiree_runtime[^/]*\.so|libireert[^/]*\.so)$"
)
_VERSION: Final = re.compile(r'^VERSION = "([^"]{1,40})"', re.MULTILINE)


class Runtime(Struct, frozen=True):
    """One copy of the runtime.

    Attributes:
        path: of its file, as the process names it.
        start: first address of its mappings.
        end: the first address behind them.
        code: its executable mappings, begin and end of each.
        version: as its package says, e.g. `3.13.0`; "" where that isn't known.
    """

    path: str
    start: int
    end: int
    code: tuple[tuple[int, int], ...]
    version: str = ""

    def has_code(self, address: int) -> bool:
        """Whether an address is in its code."""
        return any(start <= address < end for start, end in self.code)


def runtime_in(pid: int, mappings: Sequence[Mapping]) -> Runtime | None:
    """The runtime of a process; None where none is mapped."""
    path = next((one.path for one in mappings if one.executable and _FILE.search(one.path)), None)
    if path is None:
        return None
    own = [one for one in mappings if one.path == path]
    code = tuple((one.start, one.end) for one in own if one.executable)
    return Runtime(path, own[0].start, own[-1].end, code, _version(pid, path))


def _version(pid: int, path: str) -> str:
    """What `version.py` beside the file says: the wheels have one."""
    try:
        text = target_files.read_text(f"/proc/{pid}/root{Path(path).with_name('version.py')}")
    except OSError:
        return ""
    match = _VERSION.search(text)
    return match[1] if match else ""
