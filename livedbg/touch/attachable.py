"""Checks whether a process can be attached to without harm, and explains why the kernel refuses it."""

from __future__ import annotations

from livedbg.gdbmi.errors import GdbCommandError
from livedbg.linux.access import access_problem, unsuitable
from livedbg.linux.procfs import read_stat, status_fields
from livedbg.model import ThreadState
from livedbg.model.errors import TargetDenied, TargetGone, TargetUnsuitable


def check_attachable(pid: int) -> int:
    """Refuse what can't be attached to without harm.

    Returns:
        The start time of what can, in clock ticks since boot.

    Raises:
        TargetGone, TargetDenied, TargetUnsuitable: it can't be attached to.
    """
    problem = unsuitable(pid)
    if problem is not None:
        kind = TargetGone if problem.code == "gone" else TargetUnsuitable
        raise kind(problem.sentence, problem.remedy, problem.code)
    problem = access_problem(pid)
    if problem is not None:
        raise TargetDenied(problem.sentence, problem.remedy, problem.code)
    try:
        stat = read_stat(pid)
        tracer = int(status_fields(pid).get("TracerPid", "0"))
    except OSError:
        raise TargetGone(f"There is no process {pid}.", "", "gone") from None
    if tracer:
        raise TargetUnsuitable(
            f"Process {pid} is already traced by process {tracer}; a process can have only one tracer.",
            f"stop the tracer first: kill {tracer}",
            "traced",
        )
    if stat.state is ThreadState.STOPPED:
        raise TargetUnsuitable(f"Process {pid} is stopped.", f"resume it first: kill -CONT {pid}", "stopped")
    return stat.start_ticks


def attach_refused(pid: int, error: GdbCommandError) -> Exception:
    """gdb's words for an attach that the kernel refused (gdb/linux-nat.c; nat/linux-ptrace.c)."""
    if "Operation not permitted" in error.message:
        return TargetDenied(
            f"The kernel does not let gdb attach to process {pid}.", f"sudo livedbg attach {pid}", "no-permission"
        )
    if "No such process" in error.message:
        return TargetGone(f"Process {pid} has ended.", "", "gone")
    return error
