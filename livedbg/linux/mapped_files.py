"""How the files that a process has mapped are opened, and what is read in them is kept."""

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
    """What is read of libraries, by device, inode and time of change: the ranks of a job have the same large ones."""

    def __init__(self) -> None:
        self._read: dict[tuple[int, int, int], T] = {}

    def of(self, pid: int, mappings: Sequence[Mapping], read: Callable[[ElfFile], T]) -> tuple[int, T] | None:
        """The load bias of a library in a process, and what was read of it.

        Args:
            pid: the process.
            mappings: the library's mappings there, one at least.
            read: reads it, where it was not read before.

        Returns:
            None where no mapping fits a segment, or the file is damaged.

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
    """A path of ours by which the file behind a mapping can be opened.

    Through the process's own root folder (containers); a file that was deleted or replaced only
    through map_files, which needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5)).
    """
    task = living_task(pid)
    path = Path(f"/proc/{task}/root{mapping.path}")
    try:
        same = not mapping.deleted and target_files.status(path).st_ino == mapping.inode
    except OSError:
        same = False
    return path if same else Path(f"/proc/{task}/map_files/{mapping.start:x}-{mapping.end:x}")
