"""The program of a process: an exec keeps the pid, the start time and the tracer, and invalidates everything else.

Identified by the auxiliary vector (proc_pid_auxv(5)), whose addresses are random for each program, and by the file.
Without address space randomisation, a program that executes itself again looks the same.
"""

from __future__ import annotations

from pathlib import Path

from livedbg.linux.procfs import read_file


class Program:
    """The program that a process runs now."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._mark = _mark(pid)

    @property
    def replaced(self) -> bool:
        """Return whether the process runs another program by now; False if not visible, or it has ended."""
        mark = _mark(self._pid)
        return bool(mark and self._mark) and mark != self._mark


def _mark(pid: int) -> bytes:
    try:
        vector = read_file(f"/proc/{pid}/auxv")  # empty once it has ended
        file = Path(f"/proc/{pid}/exe").stat()  # not its name, which changes when the file is deleted or replaced
        return vector and vector + f"{file.st_dev}:{file.st_ino}".encode()
    except OSError:
        return b""
