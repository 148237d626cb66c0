"""Which logs a running process writes, from `/proc/PID/fd` and its environment. Nothing is written or stopped.

Which environment variables name logs, and where a process then writes them, the systems declare (`System.log_places`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from glob import escape
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.linux import target_files
from livedbg.linux.descriptors import fd_links, fdinfo
from livedbg.linux.procfs import status_fields
from livedbg.session.systems import declared, note_problem, systems

__all__ = ["ProcessLog", "ProcessLogs"]

_LOG_SUFFIXES: Final = frozenset({".log", ".txt", ".out", ".err"})


class ProcessLog(Struct, frozen=True):
    """A log of a process.

    Attributes:
        path: where livedbg can open it (through /proc for another mount namespace or a deleted file).
        name: short name for the screen.
    """

    path: Path
    name: str


class ProcessLogs:
    """Finds the logs of one process, again and again.

    Args:
        pid: the process, in the PID namespace of livedbg.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._proc = Path("/proc") / str(pid)
        self._environment: dict[str, str] | None = None

    def find(self) -> list[ProcessLog]:
        """The logs that it has now. Empty when it is gone or can't be read."""
        found: dict[Path, ProcessLog] = {}
        try:
            for log in [*self._open_files(), *self._named_by_environment()]:
                found.setdefault(log.path, log)
        except OSError:  # it ended, or belongs to somebody else: the proc adapter says so
            pass
        return list(found.values())

    def _open_files(self) -> list[ProcessLog]:
        """Regular files open for writing: descriptors 1 and 2, and what has the name of a log."""
        found: list[ProcessLog] = []
        for fd, target in sorted(fd_links(self._pid).items()):
            if not target.startswith("/") or target.startswith(("/dev/", "/proc/", "/sys/", "/memfd:")):
                continue
            shown = target.removesuffix(" (deleted)")
            standard = {1: "stdout", 2: "stderr"}.get(fd)
            if (standard is None and Path(shown).suffix not in _LOG_SUFFIXES) or not self._written(fd):
                continue
            path = self._reachable(Path(shown)) if shown == target else self._proc / "fd" / str(fd)
            target_files.claim(path, self._pid)
            if target_files.is_regular(path):
                found.append(ProcessLog(path, standard or Path(shown).name))
        return found

    def _written(self, fd: int) -> bool:
        """Whether a descriptor is open for writing (the access mode in `flags:` of fdinfo, octal)."""
        try:
            flags = next((value for name, value in fdinfo(self._pid, fd) if name == "flags"), "0")
        except OSError:
            return False
        return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY

    def _named_by_environment(self) -> list[ProcessLog]:
        if self._environment is None:
            self._environment = _environment(self._proc / "environ")
        found: list[ProcessLog] = []
        for pattern in _declared_places(self._environment, self._pids()):
            for path in target_files.glob(self._reachable_glob(pattern)):
                target_files.claim(path, self._pid)
                if target_files.is_regular(path):
                    found.append(ProcessLog(path, path.name))
        return found

    def _pids(self) -> tuple[int, ...]:
        """Its pid here and, in a PID namespace, the one that it knows itself by (NSpid of status)."""
        names = status_fields(self._pid).get("NSpid", "").split()
        return tuple(dict.fromkeys([self._pid, *map(int, names[-1:])]))

    def _reachable(self, path: Path) -> Path:
        """An absolute path as the kernel shows it, as livedbg can open it."""
        if (self._proc / "ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink():
            return path
        return self._proc / "root" / path.relative_to("/")

    def _reachable_glob(self, pattern: str) -> str:
        if not pattern.startswith("/"):
            return str(self._reachable(Path(escape(str((self._proc / "cwd").readlink())), pattern)))
        return str(target_files.reached(self._pid, pattern))


def _declared_places(environment: Mapping[str, str], pids: tuple[int, ...]) -> Iterator[str]:
    """What all systems declare, as globs. A system that fails is a problem, and the others go on (systems.Y2)."""
    name = os.uname().nodename
    hosts = tuple(dict.fromkeys((name, name.partition(".")[0])))
    for system, paths in declared(lambda system: system.log_places.paths if system.log_places else None):
        wanted = system.log_places.variables if system.log_places else ()
        variables = {name: environment[name] for name in wanted if name in environment}
        try:
            places = tuple(map(str, paths(variables, pids, hosts)))
        except Exception as error:  # of somebody else's package
            note_problem(system.name, "its log places can't be found", error)
        else:
            yield from places


def _environment(path: Path) -> dict[str, str]:
    """The variables of an environ file that some system asks for."""
    wanted = {name for system in systems() if system.log_places for name in system.log_places.variables}
    pairs = (entry.partition(b"=") for entry in path.read_bytes().split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if os.fsdecode(name) in wanted}
