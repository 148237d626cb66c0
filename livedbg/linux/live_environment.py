"""The environment of a process from its memory, the rank in it, and its C library.

`/proc/PID/environ` shows the environment at exec. Later changes (`os.environ["RANK"] = …` in a process that was forked
or spawned) are only in the C library's `environ` array. The kind of C library follows from the mappings; the version
from the library's own banner.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.linux import memory, target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.lines import number
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping as MappedFile
from livedbg.linux.procfs import living_task
from livedbg.text.patterns import lazy_re

_BANNER: Final = lazy_re(rb"GNU C Library [^\n]{0,80}? version (\d+)\.(\d+)")
_GLIBC: Final = lazy_re(r"^libc(?:-2\.\d+)?\.so(?:\.6(?:\.1)?)?$")
_LOADER: Final = lazy_re(r"^ld(?:-linux[^/]*|-2\.\d+|64)?\.so(?:\.\d)?$")
_MUSL: Final = lazy_re(r"^(?:ld-musl-.*|libc\.musl-.*)\.so\.1$")


class Libc(Struct, frozen=True):
    """A C library.

    Attributes:
        kind: `glibc`, `musl`, `bionic` or `unknown`.
        version: (2, 36); None if not known.
        path: the library's file as the process sees it, or the executable if there is none.
        static: it is linked into the executable, or the executable has none.
    """

    kind: str
    version: tuple[int, ...] | None = None
    path: str = ""
    static: bool = False

    @property
    def layouts_known(self) -> bool:
        """Return whether the layouts of livedbg.linux.abi hold for its locks."""
        return self.kind == "glibc" and (self.version is None or self.version >= (2, 25))

    @property
    def to_come(self) -> bool:
        """Return whether glibc's loader is mapped but glibc is not yet: the program's own code has not begun."""
        return self.kind == "unknown" and not self.static

    @property
    def label(self) -> str:
        """Return `glibc 2.36`."""
        version = " " + ".".join(map(str, self.version)) if self.version else ""
        return f"{self.kind}{version}{' (static)' if self.static else ''}"


def detect_libc(pid: int, mappings: Sequence[MappedFile]) -> Libc:
    """Return the C library of a process, read through its own root folder (containers)."""
    paths = dict.fromkeys(m.path for m in mappings if m.path.startswith("/"))
    for path in paths:
        name = PurePosixPath(path).name
        if _MUSL.match(name):
            return Libc("musl", path=path)
        if _GLIBC.match(name):
            if "/bionic/" in path or path.startswith(("/system/", "/apex/")):
                return Libc("bionic", path=path)
            return Libc("glibc", _version(pid, path, mappings) or None, path)
    executable = next(iter(paths), "")
    version = _version(pid, executable, mappings) if executable else None
    if version is not None:
        return Libc("glibc", version or None, executable, static=True)
    return Libc("unknown", path=executable, static=not any(_LOADER.match(PurePosixPath(path).name) for path in paths))


def _version(pid: int, path: str, mappings: Sequence[MappedFile]) -> tuple[int, ...] | None:
    """Return the version in the banner of the mapped file (also if it was replaced since).

    () for glibc of an unknown version; None for another library.
    """
    mapping = next(m for m in mappings if m.path == path)
    task = living_task(pid)
    places = (f"/proc/{task}/root{path}", f"/proc/{task}/map_files/{mapping.start:x}-{mapping.end:x}")
    for place in places[mapping.deleted :]:
        try:
            stat = target_files.status(Path(place))
            return _banner(place, stat.st_dev, stat.st_ino, stat.st_mtime_ns)
        except OSError:
            continue
    return None


@lru_cache(maxsize=64)
def _banner(place: str, device: int, inode: int, changed_ns: int) -> tuple[int, ...] | None:
    """Search a file for glibc's banner (csu/version.c), else its tunables.

    Static programs rarely have the banner, and all have the name of the tunables (elf/dl-tunables.c). The other
    arguments only key the cache.
    """
    glibc = False
    with target_files.open_binary(Path(place)) as file:
        tail = b""
        while block := file.read(1 << 20):
            found = _BANNER.search(tail + block)
            if found:
                return int(found[1]), int(found[2])
            glibc = glibc or b"GLIBC_TUNABLES" in tail + block
            tail = block[-256:]
    return () if glibc else None


_NAMES: Final = ("environ", "__environ")
_POINTER: Final = struct.Struct("<Q")
_MOST: Final = 2_000
"""Variables that are read; an array without an end is no environment."""

_LONGEST: Final = 500
"""Bytes of one variable that are read."""


class LiveEnvironment:
    """Reads the `environ` array of a process, without a stop. Make a new reader after an exec."""

    def __init__(self, pid: int, mappings: Sequence[MappedFile], libc: Libc) -> None:
        self._pid = pid
        program = next((mapping.path for mapping in mappings if mapping.path.startswith("/")), "")
        # a program that refers to the array has the one that counts in its own memory
        paths = dict.fromkeys((program, libc.path))
        files = [[mapping for mapping in mappings if mapping.path == path] for path in paths if path]
        self._files = [found for found in files if found]
        self._places: tuple[int, ...] | None = None

    def read(self) -> dict[str, str]:
        """Return the variables (not sanitised, with secrets); {} if they can't be found or read."""
        if self._places is None:
            self._places = tuple(place for mappings in self._files for place in self._in_file(mappings))
        with contextlib.suppress(OSError):
            for place in self._places:
                array = self._pointer(place)
                if array:
                    return dict(self._variables(array))
        return {}

    def _in_file(self, mappings: Sequence[MappedFile]) -> Sequence[int]:
        with contextlib.suppress(OSError, ElfError), ElfFile(mapped_file(self._pid, mappings[0])) as elf:
            bias, found = elf.load_bias(mappings), defined_symbols(elf, _NAMES)
            if bias is not None:
                return sorted({symbol.address + bias for symbol in found.values() if symbol.address})
        return ()

    def _variables(self, array: int) -> Iterator[tuple[str, str]]:
        for place in range(_MOST):
            at = self._pointer(array + place * _POINTER.size)
            if not at:
                return
            with contextlib.suppress(OSError):  # the array was replaced while it was read
                name, sep, value = memory.read_text(self._pid, at, _LONGEST).decode("utf-8", "replace").partition("=")
                if sep and name:
                    yield name, value

    def _pointer(self, at: int) -> int:
        value: int = _POINTER.unpack(memory.read(self._pid, at, _POINTER.size))[0]
        return value


RANKS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""RANK, and those that Open MPI, PMIx, PMI and Slurm set."""

_MEETING: Final[tuple[str, ...]] = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
_STEP: Final[tuple[str, ...]] = (
    "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_JOB_ID", "SLURM_STEP_ID",
    "SLURM_NTASKS",
)  # fmt: skip


class Place(NamedTuple):
    """A rank's place in its job.

    Attributes:
        variable: the variable of its rank: a launcher within a launcher has another one.
        meeting: where the ranks of its job meet, and how many they are; the same for all of them, () if not known.
    """

    rank: int
    variable: str
    meeting: tuple[tuple[str, str], ...]


def rank_of(environment: Mapping[str, str]) -> int | None:
    """Return the rank; None if no variable holds a number."""
    place = place_of(environment)
    return place.rank if place is not None else None


def place_of(environment: Mapping[str, str]) -> Place | None:
    """Return the rank and its job; None if no variable holds a number."""
    for name in RANKS:
        with contextlib.suppress(ValueError):
            own = number(environment.get(name, ""))
            names = _MEETING if name == RANKS[0] else _STEP
            return Place(own, name, tuple((one, environment[one]) for one in names if environment.get(one)))
    return None
