"""The memory mappings of a process (/proc/PID/maps, proc_pid_maps(5))."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from livedbg.linux import target_files
from livedbg.linux.lines import number, rows
from livedbg.linux.procfs import living_task


class Mapping(NamedTuple):
    """A memory mapping.

    Attributes:
        end: first address after it.
        permissions: e.g. `r-xp`; the last letter is `s` for a shared mapping.
        device: `MAJOR:MINOR` in hex, e.g. `fe:00`.
        inode: 0 for private anonymous memory.
        path: of the file, or `[heap]`, `[stack]`, `[vdso]`, or ""; without ` (deleted)`.
        deleted: the file was deleted or replaced since.
    """

    start: int
    end: int
    permissions: str
    offset: int
    device: str
    inode: int
    path: str
    deleted: bool

    @property
    def shared(self) -> bool:
        """Return whether other processes see writes to it."""
        return self.permissions.endswith("s")

    @property
    def executable(self) -> bool:
        """True if the mapping holds code."""
        return "x" in self.permissions


_DELETED = " (deleted)"


def maps_mention(pid: int, word: bytes) -> bool:
    """Return whether a process has mapped a file with a word in its path; False if it is gone or not readable."""
    try:
        return word in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False


def parse_maps(pid: int) -> list[Mapping]:
    """Return the mappings of a process, in rising order of address; [] for a kernel thread or a zombie.

    Raises:
        OSError: gone (ProcessLookupError, FileNotFoundError) or not allowed (PermissionError).
    """
    text = Path(f"/proc/{pid}/maps").read_bytes()
    if not text and (task := living_task(pid)) != pid:
        text = Path(f"/proc/{task}/maps").read_bytes()
    return parse_maps_text(text)


def parse_maps_text(text: bytes) -> list[Mapping]:
    """Parse the text of a `maps` file; paths that aren't UTF-8 have surrogates (os.fsdecode)."""
    return list(_parsed(text))


@lru_cache(maxsize=2)
def _parsed(text: bytes) -> tuple[Mapping, ...]:
    """Parse and cache: several readers parse the same text during one scan, and 60,000 mappings take 0.15 s."""
    return tuple(rows(text, _mapping, errors="surrogateescape"))


def _mapping(line: str) -> Mapping:
    addresses, permissions, offset, device, inode, *rest = line.split(" ", 5)
    start, _, end = addresses.partition("-")
    path = rest[0].lstrip(" ") if rest else ""
    return Mapping(
        int(start, 16),
        int(end, 16),
        permissions,
        int(offset, 16),
        device,
        number(inode),
        path.removesuffix(_DELETED),
        path.endswith(_DELETED),
    )


def find_mapping(mappings: Sequence[Mapping], address: int) -> Mapping | None:
    """Return the mapping that holds `address`, or None; `mappings` in rising order, as from `parse_maps`."""
    index = bisect_right(mappings, address, key=lambda mapping: mapping.start) - 1
    if index >= 0 and mappings[index].start <= address < mappings[index].end:
        return mappings[index]
    return None


def copies(mappings: Sequence[Mapping]) -> list[list[Mapping]]:
    """Group the mappings of one file by each time that it was loaded (dlmopen(3) loads it once per link namespace)."""
    found: list[list[Mapping]] = []
    for mapping in mappings:
        last = found[-1][-1] if found else None
        again = last is not None and mapping.offset == last.offset and mapping.permissions == last.permissions
        again = again and not (last is not None and mapping.offset and mapping.start == last.end)  # RELRO, same page
        if last is None or again or mapping.offset < last.offset:
            found.append([])
        found[-1].append(mapping)
    return found


def names_of(pid: int, mapping: Mapping) -> frozenset[str] | None:
    """Return the names by which others can open the file of a mapping, without folders; None if not known.

    A file that shows as deleted may have a name: sem_open(3) makes a file under a temporary name, links it to the
    requested one, and deletes the first, which is what the kernel shows. The link count is read if the kernel allows it
    (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, proc_pid_map_files(5)), and the directory is searched.
    """
    folder, _, name = mapping.path.rpartition("/")
    if not mapping.deleted:
        return frozenset({name})
    links = _links(pid, mapping)
    if links == 0 or (links is None and (mapping.path.startswith("/memfd:") or mapping.path == "/dev/zero")):
        return frozenset()  # memory that never had a name, or has none now
    try:
        inside = target_files.entries(f"/proc/{pid}/root{folder}/")
    except OSError:
        return None
    names = frozenset(entry.name for entry in inside if entry.inode == mapping.inode)
    return names if links is None or len(names) == links else None


def _links(pid: int, mapping: Mapping) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}").st_nlink  # noqa: PTH116
    except OSError:
        return None
