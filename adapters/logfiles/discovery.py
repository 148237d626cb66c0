"""Which logs a running process writes, from `/proc/PID/fd` and its environment. Nothing is written or stopped.

Ascend's layout (CANN log reference): `<root>/{debug,run,security}/plog/plog-<pid>_<time>.log`,
`<root>/{debug,run,security}/device-<id>/device-<pid>_<time>.log`, also `<root>/device-<id>/`; root is
ASCEND_PROCESS_LOG_PATH, else ASCEND_WORK_PATH/log, else ~/ascend/log.
NCCL_DEBUG_FILE has `%h` (host name) and `%p` (pid), CUDA_LOG_FILE is a path, `stdout` or `stderr`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ProcessLog", "ProcessLogs"]

_LOG_SUFFIXES: Final = frozenset({".log", ".txt", ".out", ".err"})
_VARIABLES: Final = frozenset(
    {"ASCEND_PROCESS_LOG_PATH", "ASCEND_WORK_PATH", "HOME", "CUDA_LOG_FILE", "NCCL_DEBUG_FILE"}
)
_ASCEND_FOLDERS: Final = (
    *(f"{kind}/{place}" for kind in ("debug", "run", "security") for place in ("plog", "device-*")),
    "device-*",
    "plog",
)


@dataclass(frozen=True, slots=True)
class ProcessLog:
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
        """The logs that it has now. Empty when it is gone or can't be looked at."""
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
        for entry in sorted((self._proc / "fd").iterdir(), key=lambda entry: int(entry.name)):
            try:
                target = str(entry.readlink())
            except OSError:
                continue
            if not target.startswith("/") or target.startswith(("/dev/", "/proc/", "/sys/", "/memfd:")):
                continue
            shown = target.removesuffix(" (deleted)")
            standard = {"1": "stdout", "2": "stderr"}.get(entry.name)
            if (standard is None and Path(shown).suffix not in _LOG_SUFFIXES) or not self._written(entry.name):
                continue
            path = self._reachable(Path(shown)) if shown == target else entry
            if _is_regular(path):
                found.append(ProcessLog(path, standard or Path(shown).name))
        return found

    def _written(self, fd: str) -> bool:
        """Whether a descriptor is open for writing (the access mode in `flags:` of fdinfo, octal)."""
        try:
            text = (self._proc / "fdinfo" / fd).read_text()
        except OSError:
            return False
        flags = next((line.split()[1] for line in text.splitlines() if line.startswith("flags:")), "0")
        return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY

    def _named_by_environment(self) -> list[ProcessLog]:
        if self._environment is None:
            self._environment = _environment(self._proc / "environ")
        environment = self._environment
        pids = self._pids()
        found = [
            ProcessLog(path, path.name)
            for root in self._ascend_roots(environment)
            for folder in _ASCEND_FOLDERS
            for pid in pids
            for pattern in (f"{folder}/plog-{pid}_*.log", f"{folder}/device-{pid}_*.log")
            for path in sorted(root.glob(pattern))
        ]
        named = [environment.get("CUDA_LOG_FILE"), *self._nccl_names(environment.get("NCCL_DEBUG_FILE"), pids)]
        for name in named:
            if name and name not in ("stdout", "stderr", "stdlog"):
                path = self._reachable(Path(name))
                if _is_regular(path):
                    found.append(ProcessLog(path, path.name))
        return found

    def _ascend_roots(self, environment: dict[str, str]) -> list[Path]:
        named = environment.get("ASCEND_PROCESS_LOG_PATH")
        if named:
            return [self._reachable(Path(named))]
        work = environment.get("ASCEND_WORK_PATH")
        if work:
            return [self._reachable(Path(work, "log"))]
        home = environment.get("HOME")
        return [self._reachable(Path(home, "ascend", "log"))] if home else []

    def _nccl_names(self, pattern: str | None, pids: tuple[int, ...]) -> list[str]:
        if not pattern:
            return []
        host = os.uname().nodename
        return [
            pattern.replace("%h", name).replace("%p", str(pid)) for name in {host, host.split(".")[0]} for pid in pids
        ]

    def _pids(self) -> tuple[int, ...]:
        """Its pid here and, in a PID namespace, the one that it knows itself by (NSpid of status)."""
        text = (self._proc / "status").read_text()
        names = next((line.split()[1:] for line in text.splitlines() if line.startswith("NSpid:")), [])
        return tuple(dict.fromkeys([self._pid, *map(int, names[-1:])]))

    def _reachable(self, path: Path) -> Path:
        """A path as the process names it, as livedbg can open it."""
        if not path.is_absolute():
            path = (self._proc / "cwd").readlink() / path
        if (self._proc / "ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink():
            return path
        return self._proc / "root" / path.relative_to("/")


def _environment(path: Path) -> dict[str, str]:
    """The variables that name logs, of an environ file."""
    pairs = (entry.partition(b"=") for entry in path.read_bytes().split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if os.fsdecode(name) in _VARIABLES}


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
