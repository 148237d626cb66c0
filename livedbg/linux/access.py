"""Access problems: why a process can't be inspected in full, and the remedy.

Also the capabilities of this box, for `livedbg doctor`.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import socket
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux.abi import native_abi
from livedbg.linux.lines import lines
from livedbg.linux.procfs import all_ended, counts_runs, process_exists, read_file, read_stat, status_fields
from livedbg.model import ThreadState
from livedbg.text.sanitize import clean_line

_CAP_SYS_PTRACE: Final = 19  # linux/capability.h


class Problem(NamedTuple):
    """A reason why access is denied.

    Attributes:
        code: stable word: `gone`, `hidepid`, `other-user`, `ptrace-scope`, `not-dumpable`, `container`,
            `kernel-thread`, `zombie`, `foreign-machine`.
    """

    code: str
    sentence: str
    remedy: str


def user_name(uid: int) -> str:
    """Return the name of a user, or the number if it has none here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def ptrace_scope() -> int | None:
    """Return kernel.yama.ptrace_scope (0 to 3, Yama.rst); None without Yama."""
    try:
        return int(read_file("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return None


def hidden_processes() -> bool:
    """Return whether /proc is mounted so that it hides other users' processes (hidepid, proc(5))."""
    for line in lines(read_file("/proc/self/mounts")):
        field = line.split()
        if len(field) > 3 and field[1] == "/proc" and field[2] == "proc":
            return any(
                option.startswith("hidepid=") and option[8:] not in ("0", "off") for option in field[3].split(",")
            )
    return False


def pid_exists_anywhere(pid: int) -> bool:
    """Return whether the kernel knows the pid in our PID namespace, even if /proc hides it."""
    try:
        os.close(os.pidfd_open(pid))
    except ProcessLookupError:
        return False
    except OverflowError:
        return False  # no pid at all
    except (OSError, AttributeError):  # EINVAL: a thread that leads no process; old kernels have no pidfd
        return True
    return True


def unsuitable(pid: int) -> Problem | None:
    """Return why a process can't be a target (gone, hidden, a kernel thread, a zombie), or None."""
    try:
        stat = read_stat(pid)
    except PermissionError:
        return _hidden(pid)
    except OSError:
        if pid_exists_anywhere(pid) and not process_exists(pid):
            return _hidden(pid)
        return Problem("gone", f"There is no process {pid}.", "livedbg ps   lists candidates")
    if stat.kernel_thread:
        return Problem(
            "kernel-thread",
            f"{pid} ({clean_line(stat.name)}) is a kernel thread: it has no user space.",
            "name a user process; livedbg ps   lists them",
        )
    if stat.state in (ThreadState.ZOMBIE, ThreadState.DEAD) and all_ended(pid):
        return Problem(
            "zombie",
            f"Process {pid} ({clean_line(stat.name)}) has ended; it is a zombie: its parent {stat.ppid} "
            "has not collected its exit status.",
            f"attach to the parent: livedbg attach {stat.ppid}",
        )
    return None


def _hidden(pid: int) -> Problem:
    return Problem(
        "hidepid",
        f"Process {pid} exists, but /proc is mounted with hidepid and hides it from {user_name(os.geteuid())}.",
        f"sudo livedbg attach {pid}   or remount: sudo mount -o remount,hidepid=0 /proc",
    )


def access_problem(pid: int) -> Problem | None:
    """Return the obstacle to reading system calls and memory of a process, or None.

    First the kernel itself checks (PTRACE_MODE_ATTACH, by opening `syscall` and `mem` for reading); only if it refuses
    are the reasons determined, in the order in which the kernel tests them.
    """
    try:
        read_file(f"/proc/{pid}/syscall")
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return _why_denied(pid)
    except OSError:
        return None
    return None


def _why_denied(pid: int) -> Problem:
    who = user_name(os.geteuid())
    command = f"sudo livedbg attach {pid}"
    try:
        uids = {int(word) for word in status_fields(pid)["Uid"].split()}
    except (OSError, KeyError):
        uids = set()
    if uids and os.geteuid() != 0 and uids != {os.geteuid()}:
        owner = ", ".join(sorted(user_name(uid) for uid in uids))
        return Problem(
            "other-user",
            f"Process {pid} belongs to user {owner}, you are {who}: only its state and CPU time are visible, "
            "not what it waits for.",
            f"sudo -u {owner.split(', ')[0]} livedbg attach {pid}   or   {command}",
        )
    scope = ptrace_scope()
    if scope and not has_capability(_CAP_SYS_PTRACE):
        return Problem(
            "ptrace-scope",
            f"kernel.yama.ptrace_scope is {scope}, so {who} may not read the memory of process {pid}.",
            "only a reboot lowers it" if scope == 3 else f"{command}   or   sudo sysctl kernel.yama.ptrace_scope=0",
        )
    if _protects_itself(pid):
        return Problem(
            "not-dumpable",
            f"Process {pid} protects itself (set-user-ID program, or prctl PR_SET_DUMPABLE 0).",
            command,
        )
    return Problem(
        "container",
        f"The kernel denies access to process {pid}: it belongs to another container or to the host, "
        "or CAP_SYS_PTRACE is missing, or a seccomp profile or security module forbids it.",
        "run livedbg where the process runs, or: docker run --cap-add=SYS_PTRACE …   "
        "or in Kubernetes: securityContext.capabilities.add: [SYS_PTRACE]",
    )


def _protects_itself(pid: int) -> bool:
    """Return whether a process isn't dumpable: its /proc files belong to root then (proc(5), /proc/PID)."""
    try:
        return Path(f"/proc/{pid}/environ").stat().st_uid == 0 != Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return False


_CAP_SYS_ADMIN: Final = 21
_REGISTERS: Final = 2  # kernel.perf_event_paranoid up to which everybody may use debug registers


class Capability(NamedTuple):
    """A capability of this box, what livedbg uses it for, and the command that fixes it."""

    name: str
    ok: bool
    value: str
    enables: str
    remedy: str = ""


def has_capability(number: int) -> bool:
    """Return whether we have a capability (linux/capability.h) in effect."""
    return bool(int(status_fields(os.getpid()).get("CapEff", "0"), 16) >> number & 1)


def can_load(library: str) -> bool:
    """Return whether the dynamic linker finds a library and can load it."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def capabilities() -> list[Capability]:
    """Return all capabilities, most important first."""
    return [_machine(), _ptrace(), _hidepid(), _schedstat(), _unix_diag(), _perf(), _gdb()]


def _fact(name: str, ok: bool, value: str, enables: str, remedy: str) -> Capability:
    return Capability(name, ok, value, enables, "" if ok else remedy)


def _machine() -> Capability:
    known = native_abi() is not None
    enables = "waits of threads, and who holds what they wait for"
    return _fact("machine", known, os.uname().machine, enables, "use x86-64 or aarch64")


def _ptrace() -> Capability:
    scope = ptrace_scope()
    free = scope in (None, 0) or has_capability(_CAP_SYS_PTRACE)
    value = "no Yama" if scope is None else f"kernel.yama.ptrace_scope = {scope}"
    enables = "system calls and memory of your processes"
    return _fact(
        "ptrace access", free, value, enables, "sudo sysctl kernel.yama.ptrace_scope=0   or run livedbg with sudo"
    )


def _hidepid() -> Capability:
    hidden = hidden_processes() and not has_capability(_CAP_SYS_PTRACE)
    enables = "other users' processes, the other ends of pipes and sockets"
    return _fact("/proc", not hidden, "hidepid" if hidden else "open", enables, "sudo mount -o remount,hidepid=0 /proc")


def _schedstat() -> Capability:
    counts = counts_runs()
    enables = "cheap scans (only threads that ran are read again)"
    return _fact("schedstat", counts, "counts" if counts else "off", enables, "use a kernel with CONFIG_SCHED_INFO")


def _unix_diag() -> Capability:
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4).close()  # NETLINK_SOCK_DIAG
        there = True
    except OSError:
        there = False
    enables = "the other ends of Unix sockets"
    return _fact("sock_diag", there, "there" if there else "missing", enables, "sudo modprobe unix_diag")


def _perf() -> Capability:
    try:
        level = int(read_file("/proc/sys/kernel/perf_event_paranoid"))
    except (OSError, ValueError):
        return Capability(
            "perf events", False, "missing", "tracing of exceptions, calls and signals", "use a kernel with perf events"
        )
    probes = has_capability(_CAP_SYS_ADMIN)
    how = "probe events" if probes else "debug registers (at most four functions)" if level <= _REGISTERS else "none"
    value = f"{how} (kernel.perf_event_paranoid = {level})"
    free = probes or level <= _REGISTERS
    enables = "tracing of exceptions, calls and signals"
    return _fact(
        "perf events", free, value, enables, "sudo sysctl kernel.perf_event_paranoid=2   or run livedbg with sudo"
    )


def _gdb() -> Capability:
    path = shutil.which("gdb")
    remedy = "sudo apt install gdb"
    return _fact("gdb", path is not None, path or "missing", "catch --stop, native stacks without drgn", remedy)
