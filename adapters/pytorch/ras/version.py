"""Which NCCL a process has loaded: a text in its library says so, its own one or that of torch with NCCL in it."""

from __future__ import annotations

import re
from typing import Final

from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import parse_maps

__all__ = ["nccl_version"]

_LIBRARIES: Final = re.compile(r"libnccl\.so[\d.]*|libtorch_cuda\.so")
_TEXT: Final = re.compile(rb"NCCL version (\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_MOST_BYTES: Final = 256 << 20

_known: dict[tuple[int, int, int], tuple[int, int, int] | None] = {}
"""By device, inode and time of change: the ranks of a job have the same library."""


def nccl_version(pid: int) -> tuple[int, int, int] | None:
    """Major, minor and patch; None where it has loaded none, or its library does not say.

    Raises:
        OSError: gone, or not allowed.
    """
    tried: set[str] = set()
    for mapping in parse_maps(pid):
        if mapping.path in tried or not _LIBRARIES.fullmatch(mapping.path.rpartition("/")[2]):
            continue
        tried.add(mapping.path)
        file = mapped_file(pid, mapping)
        stat = target_files.status(file)
        key = (stat.st_dev, stat.st_ino, stat.st_mtime_ns)
        if key not in _known:
            try:
                with ElfFile(file) as elf:
                    found = _TEXT.search(elf.section(".rodata", _MOST_BYTES))
            except ElfError:
                found = None
            _known[key] = (int(found[1]), int(found[2]), int(found[3])) if found is not None else None
        if (version := _known[key]) is not None:
            return version
    return None
