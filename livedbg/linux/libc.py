"""Which C library a process uses, from its mappings; the version from the library's own banner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

from livedbg.linux import target_files
from livedbg.linux.maps import Mapping
from livedbg.linux.procfs import living_task

_BANNER: Final = re.compile(rb"GNU C Library [^\n]{0,80}? version (\d+)\.(\d+)")
_GLIBC: Final = re.compile(r"^libc(?:-2\.\d+)?\.so(?:\.6(?:\.1)?)?$")
_MUSL: Final = re.compile(r"^(?:ld-musl-.*|libc\.musl-.*)\.so\.1$")


class Libc(Struct, frozen=True):
    """A C library.

    Attributes:
        kind: `glibc`, `musl`, `bionic` or `unknown`.
        version: (2, 36); None when it isn't known.
        path: the library's file as the process sees it, or the executable when linked statically.
        static: linked into the executable.
    """

    kind: str
    version: tuple[int, ...] | None = None
    path: str = ""
    static: bool = False

    @property
    def layouts_known(self) -> bool:
        """Whether the layouts of livedbg.linux.abi hold for its locks."""
        return self.kind == "glibc" and (self.version is None or self.version >= (2, 25))

    @property
    def label(self) -> str:
        """For users: `glibc 2.36`."""
        version = " " + ".".join(map(str, self.version)) if self.version else ""
        return f"{self.kind}{version}{' (static)' if self.static else ''}"


def detect_libc(pid: int, mappings: Sequence[Mapping]) -> Libc:
    """The C library of process `pid`.

    Args:
        pid: the process (its own root folder is used, for containers).
        mappings: its mappings.
    """
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
    return Libc("unknown", path=executable, static=True)


def _version(pid: int, path: str, mappings: Sequence[Mapping]) -> tuple[int, ...] | None:
    """The version in the banner of the file that is mapped (also when it was replaced since); () when
    it is glibc of a version that doesn't show; None when it isn't glibc."""
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
    """Search a file for glibc's banner (csu/version.c), which static programs rarely have, and for the
    name of its tunables (elf/dl-tunables.c), which all have; the other arguments only key the cache."""
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
