"""Access to the mapped files of a process, with a cache of their contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.maps import Mapping
from livedbg.linux.procfs import living_task

T = TypeVar("T")


class ReadOnce(Generic[T]):
    """Cache of data read from libraries, by device, inode and change time: the ranks of a job share them."""

    def __init__(self) -> None:
        self._read: dict[tuple[int, int, int], T] = {}

    def of(self, pid: int, mappings: Sequence[Mapping], read: Callable[[ElfFile], T]) -> tuple[int, T] | None:
        """Return the load bias of a library in a process, and the data read from it.

        None if no mapping (at least one) fits a segment, or the file is damaged.

        Raises:
            OSError: gone, or not allowed.
        """
        file = mapped_file(pid, mappings[0])
        stat = target_files.status(file)
        key = (stat.st_dev, stat.st_ino, stat.st_mtime_ns)
        try:
            with ElfFile(file) as elf:
                if key not in self._read:
                    self._read[key] = read(elf)
                bias = elf.load_bias(mappings)
        except ElfError:
            return None
        return None if bias is None else (bias, self._read[key])


def mapped_file(pid: int, mapping: Mapping) -> Path:
    """Return a path by which we can open the file behind a mapping.

    Through the process's own root folder (containers); a file that was deleted or replaced only through map_files,
    which needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5)).
    """
    task = living_task(pid)
    path = Path(f"/proc/{task}/root{mapping.path}")
    try:
        same = not mapping.deleted and target_files.status(path).st_ino == mapping.inode
    except OSError:
        same = False
    return path if same else Path(f"/proc/{task}/map_files/{mapping.start:x}-{mapping.end:x}")
