"""Publish which settings of torch.distributed have no effect in watched processes.

Invariants:
    torch_settings.E1. Unreadable libraries or recorders never make a setting count as without effect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.aoti.settings import names_in, torch_version
from livedbg.adapters.pytorch.collectives.recorder import LayoutUnknown, find_recorders
from livedbg.adapters.pytorch.facts import SETTING
from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import parse_maps
from livedbg.model import Diagnostic, Evidence, Process, Severity
from livedbg.session.adapter import Context
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher

PREFIXES: Final = ("TORCH_NCCL_", "TORCH_FR_")
_SIZE: Final = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_FILE: Final = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_PAIRS: Final = (_SIZE, _FILE, ("TORCH_FR_CPP_STACK", "TORCH_NCCL_TRACE_CPP_STACK"))
"""A name, and an older one that means the same: the first one counts where both are set."""

_REPLACED: Final = {older: name for name, older in _PAIRS}
_WAITS: Final = ("TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING")
_NCCL: Final = "libtorch_cuda.so"
_ON: Final = ("1", "true", "yes", "on", "y", "t")
_AGAIN_S: Final = 10.0
_LIBRARIES: Final = ("libtorch_cpu.so", "libtorch_cuda.so")
_READERS: Final = ("distributed/**/*.py", "_C/*.pyi")
_PIECE: Final = 4 << 20


class Known(Struct, frozen=True, kw_only=True):
    """State of a process that decides about settings.

    Attributes:
        version: of torch; "" if not known.
        libraries: the searched libraries of torch, such as `libtorch_cpu.so`; () if none could be read.
        names: the settings of the environment that they contain.
        size: capacity of its Flight Recorder; None if not known.
    """

    version: str
    libraries: tuple[str, ...]
    names: frozenset[str]
    size: int | None


def notes(
    environment: Mapping[str, str], known: Known, folder: Callable[[str], str | None]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting without effect, and a sentence; `folder` is `folder_problem` for the process."""
    asked = sorted(name for name in environment if name.startswith(PREFIXES))
    unknown = {name for name in asked if known.libraries and name not in known.names}
    for name in asked:
        if name in unknown:
            yield name, _unknown(name, known)
    for name, older in _PAIRS:
        if {name, older} <= set(asked) - unknown and environment[name] != environment[older]:
            yield older, f"{older} does nothing: {name} is set, too, and counts."
    yield from _size(environment, known, unknown)
    for name in _FILE:
        if name in asked and name not in unknown:
            wrong = folder(environment[name])
            if wrong is not None:
                yield name, f"No dumps can be written where {name} says: {wrong}."
            break
    both = all(environment.get(name, "").lower() in _ON for name in _WAITS) and not unknown.intersection(_WAITS)
    if both and _NCCL in known.libraries:
        yield _WAITS[1], f"{_WAITS[1]} does nothing: {_WAITS[0]} is set, too, and switches it off."


def _unknown(name: str, known: Known) -> str:
    if name.startswith("TORCH_NCCL_") and _NCCL not in known.libraries and name not in _REPLACED:
        return f"{name} does nothing: it acts on NCCL, and this process has no library of torch with NCCL."
    version = f"torch {known.version}" if known.version else "the loaded torch"
    instead = f" Instead: {_REPLACED[name]}." if name in _REPLACED else ""
    return f"{name} is not known to {version}, and does nothing.{instead}"


def _size(environment: Mapping[str, str], known: Known, unknown: set[str]) -> Iterator[tuple[str, str]]:
    name = next((one for one in _SIZE if one in environment and one not in unknown), None)
    if name is None or not environment[name].isdecimal():
        return
    wanted = int(environment[name])
    if wanted == 0:
        yield name, f"{name}=0 switches the Flight Recorder off: collectives are not recorded."
    elif known.size is not None and known.size != wanted:
        yield (
            name,
            f"{name}={environment[name]} has no effect: the Flight Recorder has room for {known.size} operations.",
        )


def folder_problem(pid: int, path: str) -> str | None:
    """Return the problem of a folder, as the process names it; None if it exists and some user may write to it."""
    name = path.rpartition("/")[0]
    here = f"/proc/{pid}/root{name}" if path.startswith("/") else f"/proc/{pid}/cwd/{name}"
    try:
        mode = target_files.status(here).st_mode
    except FileNotFoundError:
        return f"the folder {name} does not exist"
    except OSError:
        return None
    return None if mode & 0o222 else f"the folder {name} can't be written"


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
