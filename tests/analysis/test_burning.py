"""Threads that compute or spin: never a stall by themselves, and no progress that was seen."""

from __future__ import annotations

import pytest

from livedbg.analysis import Verdict, VerdictState
from livedbg.model import Frame, Stack, ThreadState
from livedbg.model import events as ev
from livedbg.model.entities import Thread
from livedbg.state.stacks import place_of
from tests.analysis.world import SECOND, World


class Busy(World):
    """A process whose main thread runs at each look."""

    def __init__(self) -> None:
        super().__init__()
        self.process(1)
        self.cpu_ns = 0
        self.marks: int | None = 100
        self.look(0)

    def look(self, after_ns: int, marks: int = 0, state: ThreadState = ThreadState.RUNNING) -> Busy:
        """The next look at it: it has used all of a core, and made that many calls."""
        self.now_ns += after_ns
        self.cpu_ns += after_ns
        if self.marks is not None:
            self.marks += marks
        running = state is ThreadState.RUNNING
        thread = Thread(
            id="thread:box/1/1",
            process="process:box/1",
            tid=1,
            name="solver",
            state=state,
            syscall=None if running else "read",
            waits_in=None if running else "read of /data",
            cpu_ns=self.cpu_ns,
            marks=self.marks if running else None,
        )
        self.store.apply(ev.ThreadsSeen(threads=(thread,), **self.stamp()))
        return self

    def stack(self, *functions: str, layer: str = "python") -> None:
        """A stack of it, innermost function first, each `NAME` or `NAME:LINE`."""
        frames = tuple(
            Frame(function=name, file="/home/me/train.py", line=int(line or "7"), language=layer)
            for name, _, line in (function.partition(":") for function in functions)
        )
        stack = Stack(thread="thread:box/1/1", frames=frames, taken_mono_ns=self.now_ns, source="py-spy", layer=layer)
        self.store.apply(ev.StacksSeen(stacks=(stack,), **self.stamp()))


def verdict(world: World) -> Verdict:
    return world.diagnosis().verdict


@pytest.mark.invariant("behaviour.L4")
def test_L4_cpu_time_alone_is_no_progress_and_no_stall() -> None:
    for seconds in (0.3, 5, 60, 7200):  # a loop that spins, or a multiplication of matrices
        found = verdict(Busy().look(int(seconds * SECOND)))
        assert found.state is VerdictState.UNKNOWN
        assert "thread 1 (solver) computes, or spins (100% of a core)" in found.sentence
        assert "`livedbg stacks 1 --for 10s`" in found.sentence


@pytest.mark.parametrize("marks", [1, 4000])
def test_a_thread_that_reads_writes_waits_or_touches_new_memory_gets_on(marks: int) -> None:
    """A compiler, gzip, a solver that writes a file now and then."""
    assert verdict(Busy().look(SECOND, marks)).state is VerdictState.RUNNING


def test_a_thread_that_blocks_between_looks_gets_on() -> None:
    world = Busy().look(SECOND).look(SECOND, state=ThreadState.WAITING).look(SECOND)
    assert verdict(world).state is VerdictState.RUNNING


@pytest.mark.invariant("behaviour.L9")
def test_B1_what_is_not_known_to_make_no_calls_gets_on() -> None:
    world = Busy()
    world.marks = None
    assert verdict(world.look(SECOND)).state is VerdictState.RUNNING


@pytest.mark.invariant("behaviour.L9")
def test_B2_a_program_that_gets_on_now_and_then_does_not_flap() -> None:
    world = Busy()
    for _ in range(5):  # a step a minute
        for second in range(60):
            world.look(SECOND, marks=second == 59)
        assert verdict(world).state is VerdictState.RUNNING
    assert verdict(world.look(590 * SECOND)).state is VerdictState.RUNNING
    assert verdict(world.look(20 * SECOND)).state is VerdictState.UNKNOWN
    quick = Busy().look(SECOND, 5)
    assert verdict(quick.look(9 * SECOND)).state is VerdictState.RUNNING
    assert verdict(quick.look(2 * SECOND)).state is VerdictState.UNKNOWN


def test_a_rising_count_of_completed_work_is_progress_of_threads_that_compute() -> None:
    world = Busy()
    world.counter("ring:toy/1", 1, 9)
    world.look(SECOND)
    world.counter("ring:toy/1", 2, 9)
    assert verdict(world).state is VerdictState.RUNNING
    assert verdict(world.look(11 * SECOND)).state is VerdictState.UNKNOWN


def test_another_thread_that_gets_on_says_nothing_of_a_main_thread_that_computes() -> None:
    world = Busy()
    world.thread(2, "writer", state=ThreadState.RUNNING)
    world.look(SECOND)
    world.thread(2, "writer", state=ThreadState.RUNNING, cpu_ns=SECOND // 2)
    found = verdict(world)
    assert found.state is VerdictState.UNKNOWN  # it may write that it lives, whatever the main thread does
    assert "thread 1 (solver) computes, or spins" in found.sentence


def test_a_lock_whose_holder_computes_or_spins_is_no_progress_and_no_stall() -> None:
    world = Busy()
    lock = world.lock(0x10)
    world.holds(lock, "thread:box/1/1")
    world.waits(world.thread(2), lock)
    found = verdict(world.look(20 * SECOND))
    assert found.state is VerdictState.UNKNOWN
    assert "is running (it computes, or spins); 1 thread waits for it" in found.sentence
    assert verdict(world.look(SECOND, marks=1)).state is VerdictState.RUNNING


def sampled(*stacks: tuple[str, ...], every_s: int = 4) -> Busy:
    """A thread that runs, whose stacks were taken."""
    world = Busy()
    for functions in stacks:
        world.look(every_s * SECOND)
        world.stack(*functions)
    return world.look(SECOND)


def test_stacks_that_differ_are_progress() -> None:
    world = sampled(("matmul", "step", "main"), ("relu", "step", "main"), ("save", "main"), ("relu", "step", "main"))
    assert verdict(world).state is VerdictState.RUNNING


def test_a_thread_that_stays_in_a_function_that_is_named_like_a_wait_computes_or_spins_there() -> None:
    world = sampled(*[("progress_engine", "MPI_Recv", "exchange:31", "main"), ("MPI_Recv", "exchange:31", "main")] * 3)
    found = world.found("spinning")
    assert "Thread 1 (solver) computes or spins in MPI_Recv (train.py:7) for 21 s or more." in found.sentence
    assert found.inferred
    assert verdict(world).state is VerdictState.UNKNOWN


def test_a_thread_that_spins_while_another_one_computes_may_wait_for_that_one() -> None:
    """A team of threads that waits actively for the one that does the serial part."""
    world = sampled(*[("barrier_wait", "parallel", "main")] * 4)
    world.thread(2, "serial", state=ThreadState.RUNNING, cpu_ns=SECOND)
    found = world.found("spinning")
    assert found.state is None
    assert "stall" not in found.sentence


def test_a_thread_that_stays_in_one_function_computes_or_spins_there() -> None:
    found = sampled(("multiply:3", "main"), ("multiply:4", "main"), ("multiply:3", "main"), ("multiply:3", "main"))
    assert "computes or spins in multiply (train.py:3) for 13 s or more." in found.found("spinning").sentence
    assert verdict(found).state is VerdictState.UNKNOWN


@pytest.mark.parametrize(
    "world",
    [
        sampled(("spin_wait", "main"), ("spin_wait", "main")),  # two stacks
        sampled(*[("spin_wait", "main")] * 6, every_s=1),  # not for long
        sampled(*[("spin_wait", "main")] * 4).look(SECOND, 1),
        sampled(*[("spin_wait", "main")] * 4).look(SECOND, state=ThreadState.WAITING),
    ],
)
def test_other_threads_do_not_spin(world: World) -> None:
    assert world.finding("spinning") is None


def place(*functions: str) -> tuple[str, ...]:
    frames = tuple(Frame(function=name) for name in functions)
    return place_of(Stack(thread="t", frames=frames, taken_mono_ns=0, source="glance"))


def test_a_loop_that_asks_stays_in_its_place_and_one_that_works_does_not() -> None:
    assert place("is_set", "main") == place("main")
    assert place("cudaStreamQuery", "driver", "loop") == place("driver", "loop")
    assert place("opal_progress", "MPI_Recv", "main") == place("poll_all", "btl", "MPI_Recv", "main")
    assert place("app::spin_lock(int)", "main") != place("main")
    assert place("forward", "train") != place("backward", "train")
    assert place("dispatch", "train") != place("train")
    assert place() == ()
