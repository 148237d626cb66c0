"""Whether threads have run, and whether threads and processes have ended: read at this moment, without a cache."""

from __future__ import annotations

from livedbg.linux import procfs
from livedbg.linux.procfs import BlockedSyscall
from livedbg.model import ThreadState

_BLOCKED = (ThreadState.WAITING, ThreadState.DISK)
_OVER = (ThreadState.ZOMBIE, ThreadState.DEAD)


def runs_if_blocked(pid: int, tid: int) -> int | None:
    """How often a thread has been put on a CPU; None if it is not blocked, was woken, has ended or can't be read."""
    try:
        if procfs.read_stat(pid, tid).state not in _BLOCKED:
            return None
        return procfs.parse_schedstat(procfs.read_file(f"/proc/{pid}/task/{tid}/schedstat")).runs
    except (OSError, ValueError):
        return None


def blocked_call(pid: int, tid: int) -> BlockedSyscall | None:
    """The system call that a thread is blocked in, with its arguments; None if it is in none or that can't be read."""
    try:
        call = procfs.blocked_syscall(pid, tid)
    except (OSError, ValueError):
        return None
    return call if isinstance(call, BlockedSyscall) else None


def has_ended(pid: int, tid: int | None = None, start_ticks: int | None = None) -> bool:
    """Whether a process, or one of its threads, has ended (a zombie has).

    Args:
        pid: the process.
        tid: the thread; None asks for the process as a whole.
        start_ticks: when the process started: another one under its number is not it.
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
