"""Finds the GPU core dumps of a process by their names, and those that it writes by itself as they appear.

CUDA_COREDUMP_FILE names them; by default `core_TIME_HOST_PID.nvcudmp`, earlier `core.cuda.HOST.PID`, in the working
directory of the process. `%h`, `%p` and `%t` stand for host, pid and seconds (cuda-gdb manual, "Naming of GPU core dump
files"). A process writes one by itself with CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1. Only files are read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from livedbg.adapters.cuda.cudagdb.core_dump import is_whole
from livedbg.linux import target_files
from livedbg.linux.descriptors import fd_links
from livedbg.linux.procfs import read_environment
from livedbg.text.sanitize import clean_line

_FILE: Final = "CUDA_COREDUMP_FILE"
_DEFAULTS: Final = ("core_%t_%h_%p.nvcudmp", "core.cuda.%h.%p")
_KNOWN: Final = {"%h": r"[^/]+", "%p": r"\d+", "%t": r"\d+"}  # the pid may be one of the process's own namespace

_ON_EXCEPTION: Final = "CUDA_ENABLE_COREDUMP_ON_EXCEPTION"


@dataclass(frozen=True, slots=True)
class DumpFiles:
    """The names that dumps of one process may have.

    Attributes:
        root, folder: its root and working folder as we can reach them, also once it has ended where that can be.
        templates: absolute paths as the process has them, or names in its folder.
    """

    root: Path
    folder: Path
    templates: tuple[str, ...]

    @property
    def words(self) -> str:
        """The names, for a sentence."""
        return clean_line(" or ".join(self.templates))

    def dumps(self) -> dict[Path, tuple[int, int]]:
        """Files that have such a name now -> modification time in nanoseconds, and size."""
        found: dict[Path, tuple[int, int]] = {}
        for template in self.templates:
            path = self.root / template.lstrip("/") if template.startswith("/") else self.folder / template
            name = re.compile(expression(path.name))
            try:
                for entry in target_files.entries(_resolved(path.parent)):
                    if name.fullmatch(entry.name) and stat.S_ISREG(entry.kind):
                        status = target_files.status(entry.path)
                        found[entry.path] = (status.st_mtime_ns, status.st_size)
            except OSError:
                continue  # the folder is not there yet, or not ours to read
        return found


def dump_files(pid: int, environment: Mapping[str, str]) -> DumpFiles | None:
    """The names for a process; None where its dumps go to a command."""
    template = environment.get(_FILE, "")
    if template.startswith("|"):
        return None
    templates = (template,) if template else _DEFAULTS
    return DumpFiles(_reached(f"/proc/{pid}/root"), _reached(f"/proc/{pid}/cwd"), templates)


def is_open(pid: int, path: Path) -> bool:
    """Whether a process still has a file open."""
    try:
        status = target_files.status(path)
        links = fd_links(pid)
    except OSError:
        return False  # it has ended: nobody writes any more
    for fd, link in links.items():
        if link.rsplit("/", 1)[-1] != path.name:
            continue
        try:
            there = os.stat(f"/proc/{pid}/fd/{fd}")  # noqa: PTH116 - follows the magic link
        except OSError:
            continue
        if (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino):
            return True
    return False


def _reached(link: str) -> Path:
    """Where a link of /proc leads, if that is the same folder for us; else the link, which ends with the process."""
    try:
        path = Path(os.readlink(link))  # noqa: PTH115 - `(deleted)` and the like must not be resolved
        if path.samefile(link):
            return path
    except OSError:
        pass
    return Path(link)


def expression(template: str) -> str:
    """A regular expression for what `%h`, `%p`, `%t` become; the pid may be one of the process's own namespace."""
    parts = re.split(r"(%[hpt])", template)
    return "".join(_KNOWN.get(part, re.escape(part)) for part in parts)


def _resolved(folder: Path) -> Path:
    """A folder whose own name may have marks: the newest that fits."""
    if "%" not in str(folder):
        return folder
    above = _resolved(folder.parent)
    name = re.compile(expression(folder.name))
    fitting = [one.path for one in target_files.entries(above) if name.fullmatch(one.name)]
    return max(fitting, key=lambda path: target_files.status(path).st_mtime_ns, default=above / folder.name)


class DumpWatch:
    """The dumps of one process.

    Args:
        pid: the process.
        files: what they may be called.
    """

    def __init__(self, pid: int, files: DumpFiles) -> None:
        self._pid = pid
        self._files = files
        self._known = files.dumps()
        self._growing: dict[Path, tuple[int, int]] = {}

    def forget(self) -> None:
        """Take all that is there now for known: somebody else has asked for it."""
        self._known = self._files.dumps()

    def find(self) -> list[Path]:
        """Dumps that are new and whole."""
        whole = []
        for path, seen in self._files.dumps().items():
            if self._known.get(path) == seen:
                continue
            steady = self._growing.get(path) == seen
            self._growing[path] = seen
            if steady and not is_open(self._pid, path) and is_whole(path):
                self._known[path] = seen
                del self._growing[path]
                whole.append(path)
        return whole


def watch_of(pid: int) -> DumpWatch | None:
    """A watch for a process that writes dumps by itself; None where it doesn't, or can't be seen."""
    try:
        environment = read_environment(pid)
    except OSError:
        return None
    if environment.get(_ON_EXCEPTION, "0") in ("", "0"):
        return None
    files = dump_files(pid, environment)
    return None if files is None else DumpWatch(pid, files)
