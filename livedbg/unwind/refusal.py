"""Why a thread can't be stopped, in words."""

from __future__ import annotations

import os
from typing import NamedTuple

from livedbg.linux.access import access_problem
from livedbg.linux.procfs import read_file, read_stat, status_fields, thread_ids
from livedbg.model import ThreadState
from livedbg.text.sanitize import clean_line


class Refusal(NamedTuple):
    """Why.

    Attributes:
        code: `traced`, `ended`, `moving`, `late`, `no-cpu`, `uninterruptible`, `foreign-machine`, `livedbg`,
            or one of livedbg.linux.access.Problem.
        sentence: why, with "it" for the thread.
        remedy: how to fix it.
    """

    code: str
    sentence: str
    remedy: str = ""


def refusal(pid: int, tid: int, error: OSError) -> Refusal:
    """Why the kernel refused to let us trace a thread.

    Args:
        pid: its process.
        tid: the thread.
        error: the error of the kernel.
    """
    ended = Refusal("ended", "it has ended")
    if not isinstance(error, PermissionError):
        return ended
    try:
        if read_stat(pid, tid).state in (ThreadState.ZOMBIE, ThreadState.DEAD):
            return ended
        tracer = int(status_fields(pid, tid).get("TracerPid", "0"))
    except OSError:
        return ended
    if tracer:
        return Refusal(
            "traced",
            f"it is already traced by {_name(tracer)} (pid {tracer}); a thread can have only one tracer",
            f"end {_name(tracer)}, or detach it from {pid}, then try again",
        )
    if tid in thread_ids(os.getpid()):
        return Refusal("livedbg", "it is livedbg itself")
    problem = access_problem(pid)
    if problem is not None:
        return Refusal(problem.code, problem.sentence, problem.remedy)
    return Refusal(
        "refused",
        "the kernel forbids ptrace here, by a seccomp profile or a security module",
        "docker run --cap-add=SYS_PTRACE …   or in Kubernetes: securityContext.capabilities.add: [SYS_PTRACE]",
    )


def _name(pid: int) -> str:
    try:
        return clean_line(read_file(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()) or "another program"
    except OSError:
        return "another program"
