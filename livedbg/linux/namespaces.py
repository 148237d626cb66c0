"""PID namespaces: from the thread numbers that a process knows to the ones that we know.

glibc stores in its locks what gettid() returned inside the process's own PID namespace; the last
number of `NSpid:` in `status` is that one (proc_pid_status(5)).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from livedbg.linux.procfs import process_ids, status_fields, thread_ids


def pid_namespace(pid: int) -> int | None:
    """Inode of the PID namespace of a process; None when that can't be seen."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return None


def same_namespace(pid: int) -> bool:
    """Whether a process numbers its threads as we do (assumed when it can't be seen)."""
    theirs = pid_namespace(pid)
    return theirs is None or theirs == Path("/proc/self/ns/pid").stat().st_ino


def inner_tids(pid: int, tids: Iterable[int]) -> dict[int, int]:
    """inner tid -> our tid, of the threads `tids` of a process in another PID namespace."""
    found = {}
    for tid in tids:
        try:
            numbers = status_fields(pid, tid).get("NSpid", "").split()
        except OSError:
            continue
        if numbers:
            found[int(numbers[-1])] = tid
    return found


def owner_elsewhere(inner: int, namespace: int | None) -> tuple[int, int] | None:
    """The thread that another process's namespace calls `inner`, as (pid, tid) of ours.

    Args:
        inner: thread number as stored in a process-shared lock.
        namespace: the PID namespace where it was stored; None for our own.
    """
    if namespace is None:
        try:
            pid = int(status_fields(inner)["Tgid"])  # /proc/TID is there for every thread, though not listed
        except (OSError, KeyError, ValueError):
            return None
        return pid, inner
    for pid in process_ids():
        if pid == os.getpid() or pid_namespace(pid) != namespace:
            continue
        try:
            tids = thread_ids(pid)
        except OSError:
            continue
        tid = inner_tids(pid, tids).get(inner)
        if tid is not None:
            return pid, tid
    return None
