"""Inductor's compile workers: a pool process that a program starts, and the workers that it forks.

torch/_inductor/compile_worker/{subproc_pool,__main__}.py of 2.13. Older versions fork them from the program itself,
where they can't be told from other children.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from livedbg.model import Process, ids
from livedbg.model.events import Event, Stamp, ThreadRolesSeen
from livedbg.model.snapshot import Snapshot

_SCRIPT: Final = "torch/_inductor/compile_worker/__main__.py"
_MODULE: Final = "torch._inductor.compile_worker"


def is_compile_worker(process: Process) -> bool:
    """Return whether a process belongs to a pool of compile workers, by its script or `-m` module."""
    words = process.command[1:6]
    return any(word.endswith(_SCRIPT) for word in words[:1]) or ("-m" in words and _MODULE in words)


def served(worker: Process, processes: Iterable[Process]) -> Process | None:
    """Return the program that a compile worker works for; None if not seen."""
    by_pid = {process.pid: process for process in processes if process.host == worker.host}
    parent = by_pid.get(worker.ppid or 0)
    if parent is not None and is_compile_worker(parent):
        parent = by_pid.get(parent.ppid or 0)
    return parent


def role_events(snapshot: Snapshot, stamp: Stamp) -> Iterator[Event]:
    """Yield the new roles of compile workers' main threads."""
    pools = {process.pid for process in snapshot.processes.values() if is_compile_worker(process)}
    roles = {
        ids.thread(process.host, process.pid, process.pid): (
            "compile worker" if process.ppid in pools else "pool of compile workers"
        )
        for process in snapshot.processes.values()
        if not process.exited and is_compile_worker(process)
    }
    threads = snapshot.threads
    new = {name: role for name, role in roles.items() if name in threads and threads[name].role != role}
    if new:
        yield ThreadRolesSeen(roles=new, **stamp)
