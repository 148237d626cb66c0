"""The end of a process, whoever its parent is: by a descriptor opened while it lived.

While it is a zombie its wait status is in /proc/PID/stat (proc_pid_stat(5), field 52); once it is reaped the kernel
gives it through the descriptor (PIDFD_GET_INFO with PIDFD_INFO_EXIT, include/uapi/linux/pidfd.h, Linux 6.15).

Also uncached reads of whether threads have run, and whether threads and processes have ended.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
from typing import Final

from livedbg.linux import procfs
from livedbg.linux.procfs import BlockedSyscall, read_stat
from livedbg.model import ThreadState

_INFO: Final = struct.Struct("<QQ11Ii")  # struct pidfd_info, PIDFD_INFO_SIZE_VER0
_GET_INFO: Final = 0xC000FF0B | _INFO.size << 16  # _IOWR(0xFF, 11, struct pidfd_info)
_EXIT: Final = 1 << 3


_noted: dict[tuple[int, int | None], int] = {}


def note_end(pid: int, start_ticks: int | None, status: int) -> None:
    """Record the exit status of a child of ours before it is collected: it can't be read afterwards.

    `status` is an exit status, or the negated number of the signal that killed it.
    """
    _noted[pid, start_ticks] = status


def noted_end(pid: int, start_ticks: int | None) -> int | None:
    """Return the recorded exit status of a child of ours, or None."""
    return _noted.get((pid, start_ticks))


class Ending:
    """Watches for the end of a process. Close it.

    Raises:
        OSError: the process is gone, or this kernel has no such descriptors.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._file = os.pidfd_open(pid)
        self._status: int | None = None

    def over(self) -> bool:
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        return bool(poll.poll(0))

    def status(self) -> int | None:
        """Return the wait status (waitpid(2)); None while the process lives, or if not available."""
        if self._status is None and self.over():
            self._status = self.told()
            if self._status is None:
                self._status = self._read()
            if self._status is None:
                self._status = self.told()  # it was reaped between the two
        return self._status

    def close(self) -> None:
        os.close(self._file)

    def told(self) -> int | None:
        """Ask the kernel for the wait status, also after it was collected (Linux 6.15); None if not available."""
        info = bytearray(_INFO.size)
        struct.pack_into("<Q", info, 0, _EXIT)
        try:
            fcntl.ioctl(self._file, _GET_INFO, info)
        except OSError:
            return None  # not this kernel
        mask, *_, status = _INFO.unpack(info)
        return int(status) if mask & _EXIT else None

    def _read(self) -> int | None:
        try:
            stat = read_stat(self._pid)
        except OSError:
            return None
        return stat.exit_code if stat.state == "zombie" else None


_BLOCKED = (ThreadState.WAITING, ThreadState.DISK)
_OVER = (ThreadState.ZOMBIE, ThreadState.DEAD)


def runs_if_blocked(pid: int, tid: int) -> int | None:
    """Return how often a thread has been put on a CPU; None if it is not blocked or can't be read."""
    try:
        if procfs.read_stat(pid, tid).state not in _BLOCKED:
            return None
        return procfs.parse_schedstat(procfs.read_file(f"/proc/{pid}/task/{tid}/schedstat")).runs
    except (OSError, ValueError):
        return None


def blocked_call(pid: int, tid: int) -> BlockedSyscall | None:
    """Return the system call that a thread is blocked in, with its arguments; None if none or unreadable."""
    try:
        call = procfs.blocked_syscall(pid, tid)
    except (OSError, ValueError):
        return None
    return call if isinstance(call, BlockedSyscall) else None


def has_ended(pid: int, tid: int | None = None, start_ticks: int | None = None) -> bool:
    """Return whether a process, or one of its threads, has ended (a zombie has). `start_ticks` guards against pid
    reuse.
    """
    try:
        stat = procfs.read_stat(pid, tid)
    except OSError:
        return True
    if tid is not None:
        return stat.state in _OVER
    if start_ticks is not None and stat.start_ticks != start_ticks:
        return True
    return stat.state in _OVER and procfs.all_ended(pid)
