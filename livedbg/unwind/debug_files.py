"""Finds the file with the debug information of another: drgn would open by itself, as root, what that one names.

By build id and by `.gnu_debuglink`, in the folders that gdb searches too ("Debugging Information in Separate Files"),
of this host and of the process's container; and the file that both refer to, where dwz made one.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import drgn

from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.unwind.modules import Module

__all__ = ["add_debug_file"]

_DEBUG: Final = "/usr/lib/debug"
_LINK: Final = ".gnu_debuglink"
_MOST: Final = 4096  # bytes of a link
_PIECE: Final = 1 << 20


def add_debug_file(made: drgn.Module, module: Module) -> None:
    """Give drgn the debug information that lies apart from a file, if there is any.

    Args:
        made: drgn's, which has the file itself.
        module: the file.
    """
    file = str(module.file)
    root = f"{file.partition('/root/')[0]}/root" if file.startswith("/proc/") and "/root/" in file else ""
    folders = tuple(dict.fromkeys((f"{root}{_DEBUG}", _DEBUG)))
    if (build_id := made.build_id) is not None:
        for path in _by_id(build_id, folders):
            _try(made, path)
    else:
        for path, crc in _by_link(module.file, file.removeprefix(root), folders):
            if _wants(made) and _crc(path) == crc:
                _try(made, path, force=True)
    if build_id is not None and _wants(made):
        for path, _ in _by_link(module.file, file.removeprefix(root), folders):
            _try(made, path)
    if made.debug_file_status is drgn.ModuleFileStatus.WANT_SUPPLEMENTARY:
        wanted = made.wanted_supplementary_debug_file()
        named = os.path.join(os.path.dirname(wanted.path), wanted.supplementary_path)  # noqa: PTH118, PTH120
        inside = [f"{root}{named}"] if not named.startswith(f"{root}/") else []
        for path in (*inside, named, *_by_id(wanted.checksum, folders)):
            if made.debug_file_status is drgn.ModuleFileStatus.WANT_SUPPLEMENTARY:
                _try(made, path)


def _wants(made: drgn.Module) -> bool:
    return made.debug_file_status is drgn.ModuleFileStatus.WANT


def _try(made: drgn.Module, path: str, *, force: bool = False) -> None:
    """Offer a file to drgn, which takes it if it has the same build id."""
    if made.debug_file_status is not drgn.ModuleFileStatus.HAVE:
        with contextlib.suppress(OSError, ValueError):
            made.try_file(path, fd=target_files.open_fd(path), force=force)  # drgn closes it


def _by_id(build_id: bytes, folders: tuple[str, ...]) -> Iterator[str]:
    name = build_id.hex()
    return (f"{folder}/.build-id/{name[:2]}/{name[2:]}.debug" for folder in folders)


def _by_link(file: Path, named: str, folders: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Where the file that a link names may lie, and the checksum that it has to have.

    Args:
        file: it, as we open it.
        named: it, as the process names it.
        folders: of debug information.
    """
    try:
        with ElfFile(file) as elf:
            data = elf.section(_LINK, _MOST)
    except (OSError, ElfError):
        return
    name, crc = os.fsdecode(data.partition(b"\0")[0]), int.from_bytes(data[-4:], "little")
    if not name or "/" in name:
        return
    beside, there = file.parent, os.path.dirname(named)  # noqa: PTH120 (text of the process)
    for place in (f"{beside}/{name}", f"{beside}/.debug/{name}", *(f"{folder}{there}/{name}" for folder in folders)):
        yield place, crc


def _crc(path: str) -> int:
    crc = 0
    try:
        with target_files.open_binary(path, 0) as file:
            while data := file.read(_PIECE):
                crc = zlib.crc32(data, crc)
    except OSError:
        return -1
    return crc
