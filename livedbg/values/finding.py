"""Where dumps lie: a manifest, a payload without one, or a run's folder with several of them.

Folders: `args_dump/` or `tensor_dump/` below the run's output folder (simpler, docs/dfx/args-dump.md), one
for each rank and dispatch as `rank0/d1/` (pypto, python/pypto/runtime/distributed_runner.py). `deps.json` and
`name_map*.json` lie in the folder above.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from livedbg.adapters.ascend.dumps.depsfile import kernel_names as names_in
from livedbg.model.errors import SourceError
from livedbg.text.sanitize import clean_line

__all__ = ["MANIFESTS", "beside", "find_dumps", "kernel_names", "open_regular"]

MANIFESTS: Final[tuple[str, ...]] = ("args_dump.json", "tensor_dump.json")
PAYLOADS: Final[tuple[str, ...]] = ("args.bin", "tensor_dump.bin")
_DEPTH: Final = 6
_FOLDERS: Final = 10_000


def find_dumps(path: Path) -> list[Path]:
    """The manifests, and the payloads without one, that a path names or that lie below it.

    Raises:
        SourceError: there is none.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SourceError(
            f"{clean_line(str(path))} can't be read: {error.strerror}.", "give a run's folder", "missing"
        ) from None
    if stat.S_ISREG(mode):
        return [_manifest_of(path)]
    found = _below(path) if stat.S_ISDIR(mode) else []
    if not found:
        raise SourceError(
            f"{clean_line(str(path))} holds no args_dump or tensor_dump.",
            "dump the arguments: enable_dump_args=2 of run_jit, --dump-args 2 of simpler's tests",
            "no-dump",
        )
    return found


def _manifest_of(path: Path) -> Path:
    if path.suffix == ".bin":
        for name in MANIFESTS:
            if (path.parent / name).is_file():
                return path.parent / name
    return path


def _below(root: Path) -> list[Path]:
    found: list[Path] = []
    depth = len(root.parts)
    for seen, (folder, folders, files) in enumerate(os.walk(root)):
        here = Path(folder)
        if len(here.parts) - depth >= _DEPTH or seen >= _FOLDERS:
            folders.clear()
        folders.sort()
        known = [name for name in MANIFESTS if name in files] or [name for name in PAYLOADS if name in files]
        found.extend(here / name for name in known)
    return found


def open_regular(path: Path) -> int:
    """A descriptor to read a file by: one that is a pipe or a device is not waited for.

    Raises:
        SourceError: it can't be read, or is no file.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SourceError(f"{clean_line(str(path))} can't be read: {error.strerror}.", "", "unreadable") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise SourceError(f"{clean_line(str(path))} can't be read: it is no file.", "", "unreadable")
    return number


def beside(dump: Path, name: str) -> Path | None:
    """A file of the run that a dump belongs to: in its folder, or in the one above."""
    for folder in (dump.parent, dump.parent.parent):
        if (folder / name).is_file():
            return folder / name
    return None


def kernel_names(dump: Path) -> dict[int, str]:
    """Names of kernels by func id, from every name_map*.json beside a dump that can be read."""
    return names_in(dump.parent.parent) | names_in(dump.parent)
