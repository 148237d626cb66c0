"""Readers for /proc/PID and /proc/PID/task/TID (proc(5)).

Single-item functions raise OSError when the process is gone or reading it is denied: a thread that ends between `open`
and `read` gives ESRCH (ProcessLookupError), later FileNotFoundError.

Invariants:
    handled_signals.H1. Faults, and the signals that C libraries keep for themselves, are left out: a thread that waits
        causes no fault, and a library's own signal ends no wait of the program.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from livedbg.linux.lines import lines
from livedbg.model import ThreadState

CLOCK_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
"""One clock tick of /proc/PID/stat in nanoseconds."""

_STATES: Final = {
    "R": ThreadState.RUNNING,
    "S": ThreadState.WAITING,
    "I": ThreadState.WAITING,
    "D": ThreadState.DISK,
    "T": ThreadState.STOPPED,
    "t": ThreadState.TRACED,
    "Z": ThreadState.ZOMBIE,
    "X": ThreadState.DEAD,
    "x": ThreadState.DEAD,
}

_OVER: Final = (ThreadState.ZOMBIE, ThreadState.DEAD)


class Running(NamedTuple):
    """The thread runs (or is about to): it is in no known system call."""


class BlockedSyscall(NamedTuple):
    """A thread's system call and registers in the kernel.

    Attributes:
        number: -1 if it sleeps in the kernel outside of any call (page fault, stop).
        args: its six arguments as unsigned machine words; empty if `number` is -1.
    """

    number: int
    args: tuple[int, ...]
    sp: int
    pc: int


SyscallSeen: TypeAlias = BlockedSyscall | Running


class Stat(NamedTuple):
    """The used fields of /proc/PID/stat or /proc/PID/task/TID/stat.

    Attributes:
        name: comm, as the kernel has it (not sanitised; at most 15 bytes, or 63 for kernel workers).
        cpu_ticks: utime + stime.
        flags: PF_ flags of the kernel (linux/sched.h).
        exit_code: wait status of a zombie; 0 if it is none or not visible to us.
        terminal: device number of the controlling terminal, as in `st_rdev`; 0 for none.
        mapped: bytes of all its mappings (vsize).
    """

    name: str
    state: ThreadState
    ppid: int
    flags: int
    cpu_ticks: int
    threads: int
    start_ticks: int
    exit_code: int
    faults: int = 0
    terminal: int = 0
    cpu: int = 0
    mapped: int = 0

    @property
    def exit_status(self) -> int:
        """Return the exit status, or the negated number of the signal that killed it."""
        return os.waitstatus_to_exitcode(self.exit_code)

    @property
    def kernel_thread(self) -> bool:
        """True for a kernel thread (PF_KTHREAD, linux/sched.h)."""
        return bool(self.flags & 0x00200000)

    @property
    def ends(self) -> bool:
        """True if the process is exiting (PF_EXITING): it frees its memory, so a list of its mappings may be cut."""
        return bool(self.flags & 0x00000004)


def read_file(path: str) -> bytes:
    """Return all bytes of a /proc file, by one read if it is short (files of /proc have no size)."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, 4096)
        if len(data) < 1024:  # the kernel hands out whole lines, so a short answer is the end
            return data
        parts = [data]
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def process_exists(pid: int) -> bool:
    """Return whether a process or thread of that number exists (zombies do)."""
    return Path(f"/proc/{pid}/stat").exists()


def process_ids() -> list[int]:
    """Return all processes that /proc shows us."""
    with os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]


def thread_ids(pid: int) -> list[int]:
    """Return the threads of a process."""
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - twice as fast


def child_pids(pid: int) -> list[int]:
    """Return the children of all threads of a process; [] if it is gone.

    By /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN), else by the parent of every process.
    """
    found: list[int] = []
    try:
        for tid in thread_ids(pid):
            found += map(int, read_file(f"/proc/{pid}/task/{tid}/children").split())
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/task").exists() and not Path(f"/proc/self/task/{os.getpid()}/children").exists():
            return [other for other in process_ids() if _parent_of(other) == pid]
    except OSError:
        pass  # denied: then nothing of this process can be seen anyway
    return sorted(set(found))


def _parent_of(pid: int) -> int | None:
    try:
        return read_stat(pid).ppid
    except OSError:
        return None


def all_ended(pid: int) -> bool:
    """Return whether all threads of a process have ended; True if it is gone.

    Zombies count as ended: their tracer may not have collected them (ptrace(2)). A leader that called pthread_exit is a
    zombie too, while others go on.
    """
    try:
        return all(read_stat(pid, tid).state in _OVER for tid in thread_ids(pid))
    except OSError:
        return not process_exists(pid)  # else one of them ended in between


def living_task(pid: int) -> int:
    """Return the task by which to read memory, files and mappings of a process.

    It is `pid` itself, or another thread if the first one has ended (pthread_exit in main). The kernel shows nothing of
    a zombie (exit_mm, exit_files in kernel/exit.c), but /proc/TID and process_vm_readv(TID) reach what the threads
    share.
    """
    try:
        if read_stat(pid).state is ThreadState.ZOMBIE:
            for tid in sorted(thread_ids(pid)):
                if tid != pid and read_stat(pid, tid).state not in _OVER:
                    return tid
    except (OSError, ValueError, IndexError):
        pass  # gone: then `pid` gives the error
    return pid


def parse_stat(data: bytes) -> Stat:
    """Parse a `stat` file. The name may hold spaces and parentheses: the last `)` ends it.

    Raises:
        ValueError, IndexError: not the text of a `stat` file.
    """
    head, _, tail = data.rpartition(b")")
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    field = tail.split()  # field[0] is field 3 of proc_pid_stat(5)
    return Stat(
        name=name,
        state=_STATES.get(field[0].decode(), ThreadState.UNKNOWN),
        ppid=int(field[1]),
        flags=int(field[6]),
        cpu_ticks=int(field[11]) + int(field[12]),
        threads=int(field[17]),
        start_ticks=int(field[19]),
        exit_code=int(field[49]) if len(field) > 49 else 0,
        faults=int(field[7]) + int(field[9]),
        terminal=_device(int(field[4])),
        cpu=int(field[36]) if len(field) > 36 else 0,
        mapped=int(field[20]),
    )


def _device(number: int) -> int:
    """Convert `tty_nr` to `st_rdev`: the minor number is in bits 31 to 20 and 7 to 0, the major in 15 to 8."""
    return os.makedev(number >> 8 & 0xFF, number >> 12 & 0xFFF00 | number & 0xFF) if number else 0


def read_stat(pid: int, tid: int | None = None) -> Stat:
    """Read `stat` of a process, or of one of its threads."""
    data = read_file(f"/proc/{pid}/stat" if tid is None else f"/proc/{pid}/task/{tid}/stat")
    if not data:
        raise ProcessLookupError(3, "no such process")
    return parse_stat(data)


class SchedStat(NamedTuple):
    """A thread's `schedstat` (sched-stats.rst)."""

    cpu_ns: int
    runs: int
    queued_ns: int


def parse_schedstat(data: bytes) -> SchedStat:
    """Parse a `schedstat` file.

    Raises:
        ValueError: it is malformed.
    """
    cpu, queued, runs = data.split()[:3]
    return SchedStat(int(cpu), int(runs), int(queued))


def counts_runs() -> bool:
    """Return whether this kernel counts in schedstat (CONFIG_SCHED_INFO); if not, it reads `0 0 0`."""
    try:
        return parse_schedstat(read_file("/proc/self/schedstat")).runs > 0
    except (OSError, ValueError):
        return False


def parse_syscall(data: bytes) -> SyscallSeen:
    """Parse a `syscall` file (proc_pid_syscall(5))."""
    field = data.split()
    if not field or field[0] == b"running":
        return Running()
    number = int(field[0])
    if number < 0:
        return BlockedSyscall(-1, (), int(field[1], 16), int(field[2], 16))
    return BlockedSyscall(number, tuple(int(word, 16) for word in field[1:7]), int(field[7], 16), int(field[8], 16))


def blocked_syscall(pid: int, tid: int) -> SyscallSeen:
    """Return the system call that a thread is blocked in.

    Raises:
        OSError: gone, or denied (this needs PTRACE_MODE_ATTACH access, ptrace(2)).
    """
    return parse_syscall(read_file(f"/proc/{pid}/task/{tid}/syscall"))


def calls_and_waits(pid: int, tid: int) -> int | None:
    """Return how many reads, writes and voluntary waits a thread has made (proc_pid_io(5), proc_pid_status(5)), or
    None.
    """
    calls = _counted(pid, tid, "syscr", "syscw")
    try:
        return None if calls is None else calls + int(status_fields(pid, tid)["voluntary_ctxt_switches"])
    except (OSError, KeyError, ValueError):
        return None


def bytes_moved(pid: int, tid: int) -> int | None:
    """Return how many bytes a thread has read and written so far, by any call; None if not visible."""
    return _counted(pid, tid, "rchar", "wchar")


def bytes_written(pid: int, tid: int) -> int | None:
    """Return how many bytes a thread has passed to write(2) and the like so far; None if not visible."""
    return _counted(pid, tid, "wchar")


def _counted(pid: int, tid: int, *names: str) -> int | None:
    """Return the sum of some counters of a thread's `io` file (proc_pid_io(5)); None if unreadable."""
    try:
        counts = dict(line.split(": ") for line in lines(read_file(f"/proc/{pid}/task/{tid}/io")))
        return sum(int(counts[name]) for name in names)
    except (OSError, KeyError, ValueError):
        return None


def wait_channel(pid: int, tid: int) -> str | None:
    """Return the kernel function that the thread sleeps in; None if it runs or that is hidden."""
    try:
        name = read_file(f"/proc/{pid}/task/{tid}/wchan").decode("ascii", "replace").strip()
    except OSError:
        return None
    return name if name not in ("", "0") else None


def status_fields(pid: int, tid: int | None = None) -> dict[str, str]:
    """Return the `Name: value` lines of a `status` file."""
    path = f"/proc/{pid}/status" if tid is None else f"/proc/{pid}/task/{tid}/status"
    fields = {}
    for line in lines(read_file(path)):
        name, sep, value = line.partition(":")
        if sep:
            fields[name] = value.strip()
    return fields


def command_line(pid: int) -> tuple[str, ...]:
    """Return the arguments of a process (not sanitised); () for a zombie or kernel thread."""
    data = read_file(f"/proc/{pid}/cmdline") or read_file(f"/proc/{living_task(pid)}/cmdline")
    return tuple(part.decode("utf-8", "replace") for part in data.rstrip(b"\0").split(b"\0")) if data else ()


def read_environment(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with (not sanitised, with its secrets)."""
    found = {}
    data = read_file(f"/proc/{pid}/environ") or read_file(f"/proc/{living_task(pid)}/environ")
    for part in data.split(b"\0"):
        name, sep, value = part.decode("utf-8", "replace").partition("=")
        if sep:
            found[name] = value
    return found


_FAULTS: Final = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS, signal.SIGABRT}
)
_INTERNAL: Final = frozenset({32, 33, 34})
"""SIGCANCEL, SIGSETXID, SIGSYNCCALL."""


def handled_signals(pid: int) -> list[int]:
    """The signals that have a handler (H1), by number.

    Raises:
        KeyError, ValueError: the kernel does not report them.
    """
    mask = int(status_fields(pid)["SigCgt"], 16)
    caught = [number for number in range(1, 65) if mask >> (number - 1) & 1]
    return [number for number in caught if number not in _FAULTS and number not in _INTERNAL]


def signal_name(number: int) -> str:
    """Return `SIGUSR1`; `SIGRTMIN+6` for a real-time signal (signal(7)); `signal 32` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}" if number > signal.SIGRTMIN else f"signal {number}"
