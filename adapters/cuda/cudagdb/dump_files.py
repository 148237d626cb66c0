"""Find GPU core dumps of a process by name, and the pipe through which it accepts requests for one.

CUDA_COREDUMP_FILE names the dumps; by default `core_TIME_HOST_PID.nvcudmp`, earlier `core.cuda.HOST.PID`, in the
working directory of the process. `%h`, `%p` and `%t` stand for host, pid and seconds (cuda-gdb manual, "Naming of GPU
core dump files"). A process writes one by itself with CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1. Only files are read.

With CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1 (or cuCoredumpSetAttributeGlobal) the CUDA driver in the process reads a
FIFO: CUDA_COREDUMP_PIPE, by default `corepipe.cuda.HOST.PID`; some drivers create `corepipe_HOST_PID` (cuda-gdb
manual, "GPU core dump support"; CUDA driver API, "Coredump Attributes Control API").

Invariants:
    dump_pipe.Q1. Only a FIFO that the process itself reads and that has such a name is used. It is opened through the
        descriptor of the process, and must be the one that was found: descriptors and pids are reused.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from livedbg.adapters.cuda.cudagdb.core_dump import is_whole
from livedbg.linux import target_files
from livedbg.linux.access import access_problem
from livedbg.linux.descriptors import describe, fd_links, fdinfo
from livedbg.linux.procfs import child_pids, process_exists, read_environment
from livedbg.model.errors import TargetDenied, TargetGone, TargetUnsuitable
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word

_FILE: Final = "CUDA_COREDUMP_FILE"
_DEFAULTS: Final = ("core_%t_%h_%p.nvcudmp", "core.cuda.%h.%p")
_KNOWN: Final = {"%h": r"[^/]+", "%p": r"\d+", "%t": r"\d+"}  # the pid may be one of the process's own namespace

_ON_EXCEPTION: Final = "CUDA_ENABLE_COREDUMP_ON_EXCEPTION"


@dataclass(frozen=True, slots=True)
class DumpFiles:
    """The possible names of one process's dumps.

    Attributes:
        root, folder: its root and working folder as we can reach them, also after its end if possible.
        templates: absolute paths as the process has them, or names in its folder.
    """

    root: Path
    folder: Path
    templates: tuple[str, ...]

    @property
    def words(self) -> str:
        """Return the names, for a sentence."""
        return clean_line(" or ".join(self.templates))

    def dumps(self) -> dict[Path, tuple[int, int]]:
        """Map the existing files with such a name to modification time in nanoseconds, and size."""
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
    """Return the names for a process; None if its dumps go to a command."""
    template = environment.get(_FILE, "")
    if template.startswith("|"):
        return None
    templates = (template,) if template else _DEFAULTS
    return DumpFiles(_reached(f"/proc/{pid}/root"), _reached(f"/proc/{pid}/cwd"), templates)


def is_open(pid: int, path: Path) -> bool:
    """Return whether a process still has a file open."""
    try:
        status = target_files.status(path)
        links = fd_links(pid)
    except OSError:
        return False  # it has ended: nobody writes any more
    for fd, link in links.items():
        if link.rsplit("/", 1)[-1] != path.name:
            continue
        with contextlib.suppress(OSError):
            if _identity(pid, fd) == (status.st_dev, status.st_ino):
                return True
    return False


def _reached(link: str) -> Path:
    """Return the target of a /proc link if it is the same folder for us; else the link, which ends with the process."""
    try:
        path = Path(os.readlink(link))  # noqa: PTH115 - `(deleted)` and the like must not be resolved
        if path.samefile(link):
            return path
    except OSError:
        pass
    return Path(link)


def expression(template: str) -> str:
    """Return a regular expression for a template with `%h`, `%p`, `%t`; the pid may be of the process's namespace."""
    parts = re.split(r"(%[hpt])", template)
    return "".join(_KNOWN.get(part, re.escape(part)) for part in parts)


def _resolved(folder: Path) -> Path:
    """Return a folder whose own name may have `%` fields: the newest match."""
    if "%" not in str(folder):
        return folder
    above = _resolved(folder.parent)
    name = re.compile(expression(folder.name))
    fitting = [one.path for one in target_files.entries(above) if name.fullmatch(one.name)]
    return max(fitting, key=lambda path: target_files.status(path).st_mtime_ns, default=above / folder.name)


class DumpWatch:
    """Watches the dumps of one process, by their possible names."""

    def __init__(self, pid: int, files: DumpFiles) -> None:
        self._pid = pid
        self._files = files
        self._known = files.dumps()
        self._growing: dict[Path, tuple[int, int]] = {}

    def forget(self) -> None:
        """Treat all present files as known, since somebody else has requested them."""
        self._known = self._files.dumps()

    def find(self) -> list[Path]:
        """Return the dumps that are new and complete."""
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
    """Return a watch for a process that writes dumps by itself; None if it doesn't, or can't be inspected."""
    try:
        environment = read_environment(pid)
    except OSError:
        return None
    if environment.get(_ON_EXCEPTION, "0") in ("", "0"):
        return None
    files = dump_files(pid, environment)
    return None if files is None else DumpWatch(pid, files)


_ENABLE: Final = "CUDA_ENABLE_USER_TRIGGERED_COREDUMP"
_PIPE: Final = "CUDA_COREDUMP_PIPE"
_FLAGS: Final = "CUDA_COREDUMP_GENERATION_FLAGS"
_HOST_CORE: Final = "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION"
_MOST_BELOW: Final = 1_000
_DEFAULT_PIPE: Final = lazy_re(r"corepipe[._].*")
_RECIPE: Final = (
    "livedbg launch --recipe cuda-user-coredump -- COMMAND: it can only be switched on before CUDA is loaded"
)


@dataclass(frozen=True, slots=True)
class DumpPipe:
    """The FIFO for requesting a dump, and the files in which it may appear.

    Attributes:
        descriptor: the process's descriptor of the FIFO.
        pipe: path of the FIFO, as the process has it.
        identity: device and inode of the FIFO.
        files: possible names of the dump.
        survives: its environment says that it goes on after a dump.
    """

    pid: int
    descriptor: int
    pipe: str
    identity: tuple[int, int]
    files: DumpFiles
    survives: bool

    @property
    def opened_by(self) -> str:
        """Return the path to open for writing."""
        return f"/proc/{self.pid}/fd/{self.descriptor}"


def has_dump_pipe(pid: int) -> bool:
    """Return whether a process accepts requests for a dump, as far as visible."""
    try:
        return _pipe_of(pid, {}) is not None
    except OSError:
        return False


def find_dump_pipe(pid: int) -> DumpPipe:
    """Return where a dump of a process can be requested.

    Raises:
        TargetGone, TargetDenied: it is gone, or its descriptors can't be read.
        TargetUnsuitable: it accepts no such requests, or writes the dump to an unknown place.
    """
    try:
        environment = read_environment(pid)
        found = _pipe_of(pid, environment)
        identity = _identity(pid, found[0]) if found is not None else (0, 0)
    except OSError:
        if not process_exists(pid):
            raise TargetGone(f"Process {pid} has ended.", "", "gone") from None
        problem = access_problem(pid)
        if problem is None:
            raise TargetDenied(f"The descriptors of process {pid} can't be read.", "sudo livedbg …", "denied") from None
        raise TargetDenied(problem.sentence, problem.remedy, problem.code) from None
    if found is None:
        raise _no_place(pid, environment)
    descriptor, pipe = found
    files = dump_files(pid, environment)
    if files is None:
        raise TargetUnsuitable(
            f"Process {pid} hands its dump to a command (CUDA_COREDUMP_FILE begins with |): it can't be waited for.",
            f"echo 1 > {shell_word(pipe)} asks for the dump; livedbg device FILE reads it",
            "piped-dump",
        )
    return DumpPipe(
        pid=pid,
        descriptor=descriptor,
        pipe=clean_line(pipe),
        identity=identity,
        files=files,
        survives="skip_abort" in re.split(r"[,\s]+", environment.get(_FLAGS, "")) or environment.get(_HOST_CORE) == "0",
    )


def _no_place(pid: int, environment: Mapping[str, str]) -> TargetUnsuitable:
    below = _below(pid)
    if below is not None:
        return TargetUnsuitable(
            f"Process {pid} accepts no requests for a GPU core dump; its child process {below} does.",
            f"livedbg device {below} --dump",
            "dump-below",
        )
    if environment.get(_ENABLE) not in (None, "", "0"):
        return TargetUnsuitable(
            f"Process {pid} is configured to accept requests for a GPU core dump but reads no pipe for them: it has "
            "not initialised CUDA yet, or CUDA is older than 11.",
            f"try again once it uses the GPU; ls -l /proc/{pid}/fd",
            "no-dump-pipe",
        )
    return TargetUnsuitable(
        f"Process {pid} accepts no requests for a GPU core dump: {_ENABLE}=1 was not set when it loaded CUDA.",
        _RECIPE,
        "dump-not-enabled",
    )


def _below(pid: int) -> int | None:
    """Return a descendant that accepts requests."""
    waiting, seen = child_pids(pid), 0
    while waiting and seen < _MOST_BELOW:
        child = waiting.pop(0)
        seen += 1
        if has_dump_pipe(child):
            return child
        waiting += child_pids(child)
    return None


def _pipe_of(pid: int, environment: Mapping[str, str]) -> tuple[int, str] | None:
    """Return descriptor and path of the FIFO; raise OSError if the process can't be read."""
    template = environment.get(_PIPE, "")
    named = re.compile(expression(Path(template).name)) if template else _DEFAULT_PIPE
    for fd, link in sorted(fd_links(pid).items()):
        name = link.rsplit("/", 1)[-1]
        if not link.startswith("/") or not (named.fullmatch(name) or _DEFAULT_PIPE.fullmatch(name)):
            continue
        seen = describe(pid, fd)
        if seen is not None and seen.kind == "pipe" and _reads(pid, fd):
            return fd, link
    return None


def _identity(pid: int, fd: int) -> tuple[int, int]:
    """Return device and inode of a descriptor's file; raise OSError if it is closed."""
    status = os.stat(f"/proc/{pid}/fd/{fd}")  # noqa: PTH116 - follows the magic link
    return status.st_dev, status.st_ino


def _reads(pid: int, fd: int) -> bool:
    """Return whether a descriptor is open for reading: the low bits of `flags:`, octal (proc_pid_fdinfo(5))."""
    try:
        flags = next((int(value, 8) for name, value in fdinfo(pid, fd) if name == "flags"), os.O_WRONLY)
    except OSError:
        return False
    return flags & os.O_ACCMODE in (os.O_RDONLY, os.O_RDWR)
