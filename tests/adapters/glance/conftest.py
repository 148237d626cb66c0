"""Programs whose threads run, and what must hold of them after a glance."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from livedbg.linux import procfs
from livedbg.model import ThreadState
from livedbg.touch.glance import Glanced, glance
from livedbg.unwind.capture import Capture
from tests.conftest import Target, eventually, settled
from tests.waiting import Bound


@dataclass(frozen=True)
class Spinners:
    """tests/targets/spinners.cpp."""

    target: Target

    @property
    def pid(self) -> int:
        return self.target.pid

    @property
    def running(self) -> list[int]:
        return [int(word) for word in self.target.words[1:-1]]

    @property
    def blocked(self) -> int:
        return int(self.target.words[-1])

    def counts(self) -> tuple[int, int, int]:
        """Signals sent, signals handled, calls of epoll_wait that returned EINTR."""
        self.target.stdin.write(b"\n")
        words = self.target.line().split()
        return int(words[1]), int(words[2]), int(words[4])


@pytest.fixture
def spinners(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Callable[..., Spinners]:
    """Start so many threads that run in known functions."""

    def start(count: int, *, signals: bool = False) -> Spinners:
        environment = {**os.environ, "SIGNALS": "yes"} if signals else None
        made = Spinners(spawn([build_target("spinners"), str(count)], env=environment))
        restless = set(procfs.thread_ids(made.pid)) - {made.pid, made.blocked}  # it sends signals, or spins
        settled(made.pid, but=restless)
        return made

    return start


def look(pid: int) -> Glanced:
    """A glance at all threads of a process."""
    return glance(pid, procfs.thread_ids(pid), limit_s=100)


def look_at_all(pid: int) -> Glanced:
    """The same, with a copy of each thread: one that got no CPU to stop on in time is looked at again.

    Nothing else is a reason to skip one.
    """
    found = look(pid)
    bound = Bound()
    while found.skipped:
        assert {refusal.code for refusal in found.skipped.values()} == {"no-cpu"}
        assert not bound.problem(), found.skipped
        more = glance(pid, list(found.skipped), limit_s=100)
        found.copies += more.copies
        found.stops_ns |= more.stops_ns
        found.skipped = more.skipped
    found.capture = Capture(pid, tuple(found.copies), (), found.capture.mappings)
    return found


def cpu_ns(pid: int, tid: int) -> int:
    """CPU time of a thread."""
    return procfs.parse_schedstat(procfs.read_file(f"/proc/{pid}/task/{tid}/schedstat"))[0]


def untouched(pid: int) -> bool:
    """Whether no thread is traced or stopped."""
    return all(
        procfs.status_fields(pid, tid)["TracerPid"] == "0"
        and procfs.read_stat(pid, tid).state not in (ThreadState.STOPPED, ThreadState.TRACED)
        for tid in procfs.thread_ids(pid)
    )


def goes_on(pid: int, tids: list[int]) -> None:
    """Assert that nothing is traced or stopped, and that these threads get on."""
    eventually(lambda: untouched(pid))
    before = {tid: cpu_ns(pid, tid) for tid in tids}
    eventually(lambda: all(cpu_ns(pid, tid) > before[tid] for tid in tids))
