"""GPU core dumps that a process writes by itself, as they appear: CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1.

Only files are looked at; nothing is asked of the process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from livedbg.adapters.cuda.debugger.dump import is_whole
from livedbg.adapters.cuda.debugger.dumpfiles import DumpFiles, dump_files, is_open
from livedbg.linux.procfs import read_environment

__all__ = ["DumpWatch", "watch_of"]

_ON_EXCEPTION: Final = "CUDA_ENABLE_COREDUMP_ON_EXCEPTION"


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

    def look(self) -> list[Path]:
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
