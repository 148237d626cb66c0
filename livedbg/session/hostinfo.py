"""This host, for commands: candidates for attaching, access to a target, capabilities.

The facade over livedbg.linux for the command line; it never touches a process.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.linux import access, procfs
from livedbg.linux.access import (
    Capability,
    Problem,
    access_problem,
    capabilities,
    hidden_processes,
    ptrace_scope,
    unsuitable,
    user_name,
)
from livedbg.linux.live_environment import rank_of
from livedbg.model import ThreadState
from livedbg.model.errors import TargetDenied, TargetGone, TargetUnsuitable
from livedbg.session.adapter import TargetProcess
from livedbg.session.recognition import of_running
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

__all__ = [
    "Candidate",
    "Capability",
    "Problem",
    "access_problem",
    "capabilities",
    "check_target",
    "find_by_name",
    "hidden_processes",
    "host_name",
    "list_candidates",
    "ptrace_scope",
]

_NOT_IN_NAMES: Final = lazy_re(r"[/:\s]+")


class Candidate(Struct, frozen=True, kw_only=True):
    """A process that could be attached to.

    Attributes:
        uses: names of systems that it uses, and `accelerator` for a device of the kernel's accel subsystem.
        cpu_share: CPU time per time since it started; above 1 for several busy threads.
    """

    pid: int
    user: str
    command: tuple[str, ...]
    uses: tuple[str, ...]
    state: ThreadState
    threads: int
    age_s: float
    cpu_share: float
    rank: int | None = None


def host_name() -> str:
    """Return the name of this host as in identifiers: without `/`, `:` or space."""
    return _NOT_IN_NAMES.sub("-", clean_line(os.uname().nodename)) or "localhost"


def list_candidates() -> list[Candidate]:
    """Return the visible GPU, NPU and ML processes, oldest first."""
    found = []
    for pid in procfs.process_ids():
        if pid == os.getpid():
            continue
        try:
            uses = tuple(sorted(of_running(pid)))
            candidate = _candidate(pid, uses) if uses else None
        except (OSError, ValueError, IndexError):
            continue  # gone, or not ours to see
        if candidate is not None:
            found.append(candidate)
    return sorted(found, key=lambda candidate: (-candidate.age_s, candidate.pid))


def _candidate(pid: int, uses: tuple[str, ...]) -> Candidate | None:
    stat = procfs.read_stat(pid)
    if stat.state in (ThreadState.ZOMBIE, ThreadState.DEAD):
        return None
    environment = procfs.read_environment(pid)
    age_s = max(0.01, time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start_ticks * procfs.CLOCK_TICK_NS / 1e9)
    return Candidate(
        pid=pid,
        user=user_name(Path(f"/proc/{pid}").stat().st_uid),
        command=tuple(clean_line(word, 1000) for word in procfs.command_line(pid)),
        uses=uses,
        state=stat.state,
        threads=stat.threads,
        age_s=age_s,
        cpu_share=stat.cpu_ticks * procfs.CLOCK_TICK_NS / 1e9 / age_s,
        rank=rank_of(environment),
    )


def check_target(pid: int, *, partial: bool = False) -> TargetProcess:
    """Return the target for a pid if it can be inspected.

    Args:
        pid: a tid gives its process.
        partial: states and CPU times are enough.

    Raises:
        TargetGone: there is no such process (`gone`).
        TargetDenied: it is not visible to us (`hidepid`, `other-user`, `ptrace-scope`, `container`, `not-dumpable`).
        TargetUnsuitable: it is a kernel thread or a zombie (`kernel-thread`, `zombie`).
    """
    pid = _leader(pid)
    problem = unsuitable(pid)
    if problem is not None:
        raise _error(problem)
    denied = None if partial else access.access_problem(pid)
    if denied is not None:
        raise _error(denied)
    try:
        return TargetProcess(pid, procfs.read_stat(pid).start_ticks)
    except OSError:
        raise TargetGone(f"Process {pid} has just ended.", "", "gone") from None


def _leader(pid: int) -> int:
    try:
        return int(procfs.status_fields(pid)["Tgid"])
    except (OSError, KeyError, ValueError):
        return pid


def _error(problem: Problem) -> TargetGone | TargetDenied | TargetUnsuitable:
    if problem.code == "gone":
        return TargetGone(problem.sentence, problem.remedy, problem.code)
    if problem.code in ("kernel-thread", "zombie"):
        return TargetUnsuitable(problem.sentence, problem.remedy, problem.code)
    return TargetDenied(problem.sentence, problem.remedy, problem.code)


def find_by_name(name: str) -> list[int]:
    """Return the processes of that name: comm, base name of the program, or of a script that it runs.

    Never livedbg itself, nor its ancestors.
    """
    ours = _ancestors()
    found = []
    for pid in procfs.process_ids():
        if pid in ours:
            continue
        try:
            stat, command = procfs.read_stat(pid), procfs.command_line(pid)
        except OSError:
            continue
        if stat.state is ThreadState.ZOMBIE or stat.kernel_thread:
            continue
        words = {Path(word).name for word in command[:1]} | {
            Path(word).name for word in command[1:3] if word[:1] != "-"
        }
        if name == stat.name or name in words:
            found.append(pid)
    return sorted(found)


def _ancestors() -> set[int]:
    pid, found = os.getpid(), set[int]()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            pid = procfs.read_stat(pid).ppid
        except OSError:
            break
    return found
