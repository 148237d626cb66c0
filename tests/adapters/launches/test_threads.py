"""One thread that waits for the GPU while others of its process go on launching."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.adapters.cuda.rules.launches import silent_threads
from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.rules import Settings
from livedbg.model import Frame, Severity, Stack, ThreadState
from livedbg.model import events as ev
from livedbg.model.launches import CALLS, TRACED, TRACED_TO, Launch, LaunchTrail
from tests.analysis.world import SECOND, World

RULE = "thread-launches-stopped"


class TwoThreads(World):
    """Threads 11 and 12 of process 1 have launched 20 times a second for 20 s while each launch was listened to."""

    def __init__(self) -> None:
        super().__init__()
        self.of = self.process(1)
        self.feeder, self.other = self.thread(11, "feeder", waits_in="pause"), self.thread(12, "other", waits_in="nap")
        self.calls, self.begun_ns = 0, self.now_ns
        self.trails = {tid: LaunchTrail(thread=tid, process=self.of, count=0) for tid in (self.feeder, self.other)}
        self.counts(TRACED, 1)
        self.both(20)

    def counts(self, name: str, value: float) -> None:
        self.store.apply(ev.CounterSeen(entity=self.of, name=name, value=value, **self.stamp()))

    def launches(self, thread: str, kernel: str = "gate") -> None:
        before = self.trails[thread]
        trail = structs.replace(
            before, count=before.count + 10, beats=before.beats + 1, first_mono_ns=before.first_mono_ns or self.now_ns,
            last=(Launch(function="cuLaunchKernel", kernel=kernel, mono_ns=self.now_ns, wall_ns=self.now_ns),),
        )  # fmt: skip
        self.says(trail)
        self.calls += 10
        self.counts(CALLS, self.calls)

    def says(self, trail: LaunchTrail) -> None:
        self.trails[trail.thread] = trail
        self.store.apply(ev.LaunchesSeen(trails=(trail,), **self.stamp()))

    def both(self, seconds: int) -> TwoThreads:
        for _ in range(2 * seconds):
            self.launches(self.feeder)
            self.launches(self.other, "scale")
            self.later(SECOND // 2)
        return self

    def one(self, seconds: int) -> TwoThreads:
        """Only the other one launches."""
        for _ in range(2 * seconds):
            self.launches(self.other, "scale")
            self.later(SECOND // 2)
        return self

    def stands_in(self, *functions: str) -> TwoThreads:
        stack = Stack(
            thread=self.feeder, frames=tuple(map(Frame, functions)), taken_mono_ns=self.now_ns, source="no stop"
        )
        self.store.apply(ev.StacksSeen(stacks=(stack,), **self.stamp()))
        return self


def test_a_thread_that_waits_for_the_gpu_is_a_stall_though_others_launch() -> None:
    world = TwoThreads().one(43).stands_in("ioctl", "cudaStreamSynchronize")
    finding = world.found(RULE)
    assert finding.sentence == (
        "Thread 11 (feeder) has launched nothing on a GPU for 44 s and waits for it in cudaStreamSynchronize, while "
        "other threads of process 1 (prog1) go on launching; before that it launched 21 a second in the mean. Launched "
        "last (newest first): gate."
    )
    assert (finding.state, finding.severity, finding.inferred) == (VerdictState.STALLED, Severity.WARNING, True)
    assert finding.entities == (world.feeder, world.of) and finding.roots == (world.feeder,)
    assert world.diagnosis().verdict.state is VerdictState.STALLED
    assert world.finding("launches-stopped") is None


@pytest.mark.parametrize("functions", [(), ("pthread_cond_wait", "worker_loop"), ("accept", "serve")])
def test_a_thread_that_waits_for_anything_else_has_no_more_work(functions: tuple[str, ...]) -> None:
    world = TwoThreads().one(43).stands_in(*functions)
    assert [silent.thread.id for silent in silent_threads(world.snapshot(), Settings())] == [world.feeder]
    assert world.finding(RULE) is None
    assert world.diagnosis().verdict.state is not VerdictState.STALLED


def test_what_is_no_stall_of_a_thread() -> None:
    short = TwoThreads().one(5).stands_in("cudaStreamSynchronize")
    assert short.finding(RULE) is None

    earlier = TwoThreads().one(20).stands_in("cudaStreamSynchronize")
    earlier.later()
    earlier.thread(11, "feeder", waits_in="read", cpu_ns=SECOND)  # it has run since, and waits for something else
    assert earlier.one(20).finding(RULE) is None

    again = TwoThreads()  # one short wait after the other, for what others launch
    for second in range(43):
        again.thread(11, "feeder", waits_in="pause", cpu_ns=second * SECOND // 100)
        again.one(1).stands_in("cudaEventSynchronize")
    assert again.finding(RULE) is None

    running = TwoThreads().stands_in("cudaStreamSynchronize")
    running.thread(11, "feeder", state=ThreadState.RUNNING)
    assert running.one(43).finding(RULE) is None

    seldom = TwoThreads()  # from now on a launch each 40 s
    for _ in range(100):
        seldom.one(40).launches(seldom.feeder)
    assert seldom.one(43).stands_in("cudaStreamSynchronize").finding(RULE) is None

    ended = TwoThreads().one(43).stands_in("cudaStreamSynchronize")
    ended.exits(ended.of, 0)
    assert ended.finding(RULE) is None


def test_once_is_no_habit() -> None:
    world = TwoThreads()
    world.says(structs.replace(world.trails[world.feeder], beats=3))
    assert world.one(43).stands_in("cudaStreamSynchronize").finding(RULE) is None


@pytest.mark.invariant("launch_rates.L1")
def test_L1_time_in_which_its_launches_were_not_looked_at_does_not_count() -> None:
    world = TwoThreads().one(30).stands_in("cudaStreamSynchronize")
    assert world.finding(RULE) is not None
    known = world.trails[world.feeder]
    world.says(structs.replace(known, seen=False))  # only counted: whose they are nobody knows
    assert world.finding(RULE) is None
    world.says(structs.replace(known, seen=True, seen_since_mono_ns=world.now_ns))
    assert world.one(9).finding(RULE) is None
    assert "nothing on a GPU for 12 s" in world.one(3).found(RULE).sentence
    world.counts(TRACED_TO, world.now_ns / SECOND - 3)
    assert world.finding(RULE) is None


def test_where_all_have_stopped_it_is_the_process() -> None:
    world = TwoThreads().one(10).stands_in("cudaStreamSynchronize")
    for second in range(40):
        world.later(SECOND)
        assert world.finding(RULE) is None or second < 10
    assert world.found("launches-stopped").state is VerdictState.STALLED and world.finding(RULE) is None
