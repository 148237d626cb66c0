"""Publish torch.distributed settings that have no effect in watched processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from livedbg.adapters.pytorch.aoti.settings import names_in, torch_version
from livedbg.adapters.pytorch.collectives.recorder import LayoutUnknown, find_recorders
from livedbg.adapters.pytorch.settings.notes import PREFIXES, SETTING, Known, folder_problem, notes
from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import parse_maps
from livedbg.model import Diagnostic, Evidence, Process, Severity
from livedbg.session.adapter import Context, Request
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher

_AGAIN_S: Final = 10.0
_LIBRARIES: Final = ("libtorch_cpu.so", "libtorch_cuda.so")
_READERS: Final = ("distributed/**/*.py", "_C/*.pyi")
_PIECE: Final = 4 << 20


class SettingsAdapter(PolledAdapter):
    """Settings of torch.distributed."""

    name = "settings"
    title = "torch's settings"
    sees = "TORCH_NCCL_* and TORCH_FR_* variables that have no effect in a process"
    cost = "searches the libraries of torch once for the names; nothing where no such variable is set"

    def __init__(self) -> None:
        super().__init__()
        self._done: set[str] = set()
        self._shown = Publisher("pytorch/settings")

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes)

    async def look(self, context: Context) -> float:
        """Check each process once it has loaded torch."""
        processes = [one for one in context.snapshot().processes.values() if self._wanted(one)]
        if processes:
            found, done = await asyncio.to_thread(_read, processes)
            self._done |= done
            told = [self._diagnostic(*setting, of) for setting, of in found.items()]
            context.emit(*self._shown.add(context.stamp(), diagnostics=told))
        return _AGAIN_S

    def _wanted(self, process: Process) -> bool:
        if process.id in self._done or process.exited or not process.target:
            return False
        return any(name.startswith(PREFIXES) for name in process.environment)

    def _diagnostic(self, name: str, sentence: str, processes: Iterable[str]) -> Diagnostic:
        key = f"pytorch/{SETTING}/{name}/{sentence}"
        known = self._shown.diagnostics.get(key)
        return Diagnostic(
            id=key,
            system="pytorch",
            code=SETTING,
            severity=Severity.INFO,
            sentence=sentence,
            entities=tuple(dict.fromkeys((*(known.entities if known else ()), *processes))),
            evidence=(Evidence(kind="environment", source=name, text=sentence),),
        )


def _read(processes: Iterable[Process]) -> tuple[dict[tuple[str, str], list[str]], set[str]]:
    """Return the notes with their processes, and the processes that are done."""
    found: dict[tuple[str, str], list[str]] = {}
    done: set[str] = set()
    for process in processes:
        with contextlib.suppress(OSError):  # gone, or not allowed: nothing is said
            known = known_of(process.pid, process.environment)
            if not known.libraries:
                continue  # it may load them yet
            if known.size is not None:
                done.add(process.id)
            for said in notes(process.environment, known, partial(folder_problem, process.pid)):
                found.setdefault(said, []).append(process.id)
    return found, done


_names: dict[tuple[int, int, int, str], bool] = {}
"""Whether a library has a name: by device, inode and time of change, since the ranks of a job have the same."""


def known_of(pid: int, environment: Iterable[str]) -> Known:
    """Return what is known about a process's settings; raise OSError if it can't be read."""
    asked = sorted(name for name in environment if name.startswith(PREFIXES))
    libraries: dict[str, Path] = {}
    folder: Path | None = None
    for mapping in parse_maps(pid):
        name = mapping.path.rpartition("/")[2]
        if name in _LIBRARIES and name not in libraries:
            libraries[name] = mapped_file(pid, mapping)
            folder = folder or Path(f"/proc/{pid}/root{mapping.path}").parents[1]
    names: set[str] = set()
    for path in libraries.values():
        names |= _names_of(path, [name for name in asked if name not in names])
    missing = [name for name in asked if name not in names]
    if folder is not None and missing:
        names |= names_in(folder, missing, _READERS) or set()
    return Known(
        version=torch_version(folder) if folder is not None else "",
        libraries=tuple(libraries),
        names=frozenset(names),
        size=_room(pid) if libraries else None,
    )


def _names_of(path: Path, asked: Iterable[str]) -> set[str]:
    """Return the names that occur as texts in a library."""
    stat = target_files.status(path)
    key = (stat.st_dev, stat.st_ino, stat.st_mtime_ns)
    left = [name for name in asked if (*key, name) not in _names]
    if left:
        seen: set[str] = set()
        try:
            with ElfFile(path) as elf:
                place = elf.section_place(".rodata")
                longest = max(map(len, left)) + 1
                for at in range(place.offset, place.offset + place.size, _PIECE) if place is not None else ():
                    data = elf.bytes_at(at, min(_PIECE + longest, place.offset + place.size - at)) if place else b""
                    seen |= {name for name in left if name.encode() + b"\0" in data}
        except ElfError:
            seen = set(left)  # E1
        _names.update({(*key, name): name in seen for name in left})
    return {name for name in asked if _names[(*key, name)]}


def _room(pid: int) -> int | None:
    try:
        return next((room for one in find_recorders(pid) if (room := one.room()) is not None), None)
    except LayoutUnknown:
        return None
