"""Sources of dispatches that the compiler dumped (`--iree-hal-dump-executable-files-to`, recipe `iree-executables`):
where each is, and for which backend it was compiled.

    hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64", …
    hal.executable.export public @main_dispatch_1_reduction_16x32_f32 ordinal(0) …
      func.func @main_dispatch_1_reduction_16x32_f32() …

Invariants:
    iree_dumped_sources.E1. A name that two files have is not told: they are of two modules, or of two compilations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.linux import target_files
from livedbg.text.sanitize import clean_line

_NAMES: Final = "configured_*.mlir"
_FOLDER: Final = "executables"
_TARGET: Final = re.compile(r"hal\.executable\.variant \S+ \S+ target\(<\"([\w-]{1,40})\"")
_FUNCTION: Final = re.compile(r"^\s{0,100}func\.func @([\w.$-]{1,500})\(", re.MULTILINE)
_EXPORT: Final = re.compile(r"hal\.executable\.export public @([\w.$-]{1,500}) ")
_MOST_FILES: Final = 4096
_MOST_BYTES: Final = 1 << 20


class Dumped(Struct, frozen=True):
    """The source of one dispatch.

    Attributes:
        place: `FILE:LINE` of its function.
        backend: e.g. `llvm-cpu`, `vulkan-spirv`; "" where the file does not say.
    """

    place: str
    backend: str = ""


def dumped_beside(logs: Iterable[Path]) -> dict[str, Dumped]:
    """By name of a dispatch, those beside some logs, or in folders of logs."""
    found: dict[str, Dumped] = {}
    twice = set[str]()
    for path in islice(dict.fromkeys(_files(logs)), _MOST_FILES):
        for name, dumped in _read(path):
            if name in found:
                twice.add(name)
            found[name] = dumped
    return {name: dumped for name, dumped in found.items() if name not in twice}


def _files(logs: Iterable[Path]) -> Iterator[Path]:
    for log in logs:
        if target_files.is_folder(log):
            below = (Path(root, name) for root, _, names in target_files.walk(log) for name in names)
            yield from sorted(path for path in below if fnmatch(path.name, _NAMES))
        else:
            for folder in (log.parent, log.parent / _FOLDER):
                yield from target_files.matching(folder, _NAMES)


def _read(path: Path) -> Iterator[tuple[str, Dumped]]:
    try:
        with target_files.open_binary(path) as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    target = _TARGET.search(text)
    exports = {match[1] for match in _EXPORT.finditer(text)}
    for match in _FUNCTION.finditer(text):
        if match[1] in exports:
            line = text.count("\n", 0, match.start(1)) + 1
            yield clean_line(match[1]), Dumped(clean_line(f"{path.name}:{line}"), target[1] if target else "")
