"""The adapter in a session: stacks, the ledger, refusals (invariants G)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from livedbg.adapters.glance import GlanceAdapter
from livedbg.adapters.proc import ProcAdapter
from livedbg.adapters.python import PythonAdapter
from livedbg.model import SourceHealth
from livedbg.model.intents import Glance
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from tests.adapters.glance.conftest import Spinners, goes_on, untouched
from tests.conftest import Target, eventually, seen_when

PYTHON = """
import threading
def sum_up():
    while True: sum(range(2000))
threading.Thread(target=sum_up, daemon=True).start()
print("READY", flush=True)
threading.Event().wait()
"""


class Watch:
    """A session with the adapters that a glance needs."""

    def __init__(self, pid: int, gdb: str | None, read_only: bool) -> None:
        wanted = Request(host="box", processes=(TargetProcess(pid),), gdb=gdb, read_only=read_only)
        self.view = LiveView(wanted, adapters=[ProcAdapter(), PythonAdapter(), GlanceAdapter()])
        self.process = f"process:box/{pid}"
        self.notices: list[str] = []
        self.view.subscribe(self._listen)

    def _listen(self, update: Update) -> None:
        if update.notice:
            self.notices.append(update.notice)

    def thread(self, tid: int) -> str:
        return self.process.replace("process:", "thread:") + f"/{tid}"

    def until(self, true: Callable[[Snapshot], bool]) -> Snapshot:
        return seen_when(true, lambda: self.view.latest().snapshot)

    def glance(self, *tids: int) -> None:
        self.until(lambda s: bool(s.threads))
        self.view.send(Glance(process=self.process, threads=tuple(map(self.thread, tids))))

    def glance_until(self, true: Callable[[Snapshot], bool], *tids: int) -> Snapshot:
        """Glance again and again, one after the other: on a full machine a thread may get no CPU to stop on."""
        return seen_when(true, lambda: self._one_glance(true, *tids), lambda: self.notices)

    def _one_glance(self, true: Callable[[Snapshot], bool], *tids: int) -> Snapshot:
        newest, notices = newest_stack(self.view.latest().snapshot), len(self.notices)
        self.glance(*tids)
        return self.until(lambda s: true(s) or newest_stack(s) > newest or len(self.notices) > notices)


def newest_stack(shot: Snapshot) -> int:
    """When the newest of a glance was taken."""
    return max((s.taken_mono_ns for s in shot.stacks.values() if s.source in ("glance", "no stop")), default=0)


Watching = Callable[..., AbstractContextManager[Watch]]


@pytest.fixture
def watching() -> Watching:
    @contextmanager
    def watch(pid: int, *, gdb: str | None = None, read_only: bool = False) -> Iterator[Watch]:
        made = Watch(pid, gdb, read_only)
        made.view.start()
        try:
            yield made
        finally:
            made.view.stop()

    return watch


def test_a_glance_gives_stacks_and_stands_in_the_ledger(spinners: Callable[..., Spinners], watching: Watching) -> None:
    target = spinners(3)
    with watching(target.pid) as watch:
        shot = watch.until(lambda s: len(s.threads) >= 5)
        assert shot.intrusions == () and shot.stacks == {}  # G1
        shot = watch.glance_until(lambda s: len(s.stacks) == len(s.threads))
    for tid in target.running:
        stack = shot.stacks[watch.thread(tid)]
        assert (stack.source, stack.layer, stack.partial) == ("glance", "native", False)
        assert any("spin_in_" in frame.function for frame in stack.frames)
    assert shot.stacks[watch.thread(target.blocked)].source == "no stop"
    for touch in shot.intrusions:  # one, but where the machine is too full for the first
        assert (touch.target, touch.what, touch.measured) == (watch.process, "glance", True)
        assert touch.paused_ns > 0 and "running threads" in touch.why and touch.at_wall_ns
        assert touch.stops == 3 or len(shot.intrusions) > 1
    assert sum(touch.stops for touch in shot.intrusions) >= 3
    assert sum(touch.paused_ns for touch in shot.intrusions) == shot.paused_ns
    goes_on(target.pid, target.running)


def test_of_some_threads_only_those_are_stopped(spinners: Callable[..., Spinners], watching: Watching) -> None:
    target = spinners(3)
    with watching(target.pid) as watch:
        shot = watch.glance_until(lambda s: bool(s.stacks), target.running[1])
    assert set(shot.stacks) == {watch.thread(target.running[1])} and shot.intrusions[0].stops == 1


def test_busy_python_threads_have_merged_stacks(spawn: Callable[..., Target], watching: Watching) -> None:
    target = spawn([sys.executable, "-c", PYTHON])
    with watching(target.pid) as watch:
        watch.until(lambda s: any(stack.layer == "python" for stack in s.stacks.values()))

        def merged(shot: Snapshot) -> bool:
            return any(
                stack.layer == "merged" and "glance" in stack.source and "sum_up" in [f.function for f in stack.frames]
                for stack in shot.stacks.values()
            )

        shot = watch.glance_until(merged)
    (stack,) = [s for s in shot.stacks.values() if "sum_up" in [f.function for f in s.frames]]
    names = [frame.function for frame in stack.frames]
    assert names.index("sum_up") < names.index("start_thread") < len(names)


@pytest.mark.invariant("glance_adapter.G1")
def test_G1_a_read_only_session_refuses(spinners: Callable[..., Spinners], watching: Watching) -> None:
    target = spinners(1)
    with watching(target.pid, read_only=True) as watch:
        watch.glance()
        eventually(lambda: bool(watch.notices))
        assert "read-only" in watch.notices[0]
        assert watch.view.latest().snapshot.intrusions == ()


def test_without_gdb_nothing_is_stopped(spinners: Callable[..., Spinners], watching: Watching) -> None:
    target = spinners(1)
    with watching(target.pid, gdb="/no/such/gdb") as watch:
        watch.glance()
        eventually(lambda: bool(watch.notices))
        assert "/no/such/gdb was not found" in watch.notices[0]
        assert watch.view.latest().snapshot.intrusions == ()


TRACER = """
import sys
from livedbg.linux import ptrace
ptrace.seize(int(sys.argv[1]))
print("READY", flush=True)
sys.stdin.read()
"""


def test_what_another_tracer_has_is_said_and_taken_back(
    spinners: Callable[..., Spinners],
    spawn: Callable[..., Target],
    watching: Watching,
) -> None:
    target = spinners(2)
    tracer = spawn([sys.executable, "-c", TRACER, str(target.running[0])])
    with watching(target.pid) as watch:
        shot = watch.glance_until(
            lambda s: (
                any(status.code == "traced" for status in s.statuses.values())
                and watch.thread(target.running[1]) in s.stacks
            )
        )
        (status,) = [status for status in shot.statuses.values() if status.code == "traced"]
        assert (status.source, status.health) == ("glance", SourceHealth.DEGRADED)
        assert f"thread {target.running[0]}" in status.sentence and f"(pid {tracer.pid})" in status.sentence
        assert status.remedy
        watch.glance(target.running[0])  # nothing else could be seen
        eventually(lambda: any("already traced" in notice for notice in watch.notices))
        tracer.kill()
        watch.glance_until(
            lambda s: all(x.health is SourceHealth.OK for x in s.statuses.values() if x.source == "glance")
        )
    goes_on(target.pid, target.running)


def test_a_target_that_is_killed_meanwhile_ends_nothing_else(
    spinners: Callable[..., Spinners], watching: Watching
) -> None:
    target = spinners(8)
    with watching(target.pid) as watch:
        watch.glance()
        os.kill(target.pid, signal.SIGKILL)
        watch.until(lambda s: all(process.exited for process in s.processes.values()))
    assert target.target.process.wait(60) == -signal.SIGKILL


@pytest.mark.invariant("glance_adapter.G2")
def test_G2_a_session_that_ends_meanwhile_leaves_nothing_traced(
    spinners: Callable[..., Spinners], watching: Watching
) -> None:
    target = spinners(24)
    stops: list[int] = []

    def ends_in_the_midst() -> bool:
        with watching(target.pid) as watch:
            watch.glance()
            eventually(lambda: not untouched(target.pid) or bool(watch.view.latest().snapshot.intrusions))
        assert untouched(target.pid)
        stops.extend(touch.stops for touch in watch.view.latest().snapshot.intrusions)
        return len(stops) >= 3  # none where the thread that was seized got no CPU to stop on

    eventually(ends_in_the_midst)
    assert min(stops) > 0
    goes_on(target.pid, target.running)
