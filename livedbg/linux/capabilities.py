"""What this box allows: facts for `livedbg doctor`."""

from __future__ import annotations

import os
import shutil
import socket
from typing import Final, NamedTuple

from livedbg.linux.abi import native_abi
from livedbg.linux.access import hidden_processes, ptrace_scope
from livedbg.linux.procfs import parse_schedstat, read_file, status_fields

_CAP_SYS_PTRACE: Final = 19  # linux/capability.h
_CAP_SYS_ADMIN: Final = 21
_REGISTERS: Final = 2  # kernel.perf_event_paranoid up to which everybody may use debug registers


class Capability(NamedTuple):
    """One fact.

    Attributes:
        name: what it is about.
        ok: it is as it should be.
        value: what was found.
        enables: what livedbg does with it.
        remedy: the command that fixes it; "" when all is well.
    """

    name: str
    ok: bool
    value: str
    enables: str
    remedy: str = ""


def has_capability(number: int) -> bool:
    """Whether we have a capability (linux/capability.h) in effect."""
    return bool(int(status_fields(os.getpid()).get("CapEff", "0"), 16) >> number & 1)


def capabilities() -> list[Capability]:
    """All facts, most important first."""
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
    try:
        counts = parse_schedstat(read_file("/proc/self/schedstat")).runs > 0
    except (OSError, ValueError, IndexError):
        counts = False
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
