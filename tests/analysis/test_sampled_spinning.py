"""What is said of threads that only use CPU time, from samples of their stacks."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.model import SAMPLED, Frame, Stack, ThreadState
from livedbg.model import events as ev
from tests.analysis.test_burning import Busy, verdict

SECOND = 1_000_000_000
MAIN = "thread:box/1/1"


class Sampler:
    """Emits samples as the adapter does: each frame with since when it is held."""

    def __init__(self, world: Busy) -> None:
        self.world = world
        self._held: list[tuple[str, int, int]] = []

    def sample(self, *functions: str, repeats_since_ns: int | None = None, repeats: int = 0) -> None:
        """One more sample; innermost function first."""
        now_ns = self.world.now_ns
        before, after, same = self._held, [], True
        for place, function in enumerate(reversed(functions)):
            same = same and place < len(before) and before[place][0] == function
            after.append((function, before[place][1], before[place][2] + 1) if same else (function, now_ns, 1))
        self._held = after
        frames = tuple(
            Frame(function=name, file="job.cpp", line=7, module="job", held_mono_ns=since, held_samples=samples)
            for name, since, samples in reversed(after)
        )
        stack = Stack(
            thread=MAIN,
            frames=frames,
            taken_mono_ns=now_ns,
            source=SAMPLED,
            layer="native",
            repeats_since_mono_ns=repeats_since_ns,
            repeats=repeats,
        )
        self.world.store.apply(ev.StacksSeen(stacks=(stack,), **self.world.stamp()))


def busy(*stacks: tuple[str, ...], apart_ns: int = SECOND) -> Busy:
    """A thread that uses all of a core, and has these stacks in turn."""
    world = Busy()
    sampler = Sampler(world)
    for stack in stacks:
        world.look(apart_ns)
        sampler.sample(*stack)
    return world


def repeating(samples: int, function: str, *, computes: int = 0, apart_ns: int = SECOND) -> Busy:
    """A thread that computes in a function at first, and repeats itself there from then on."""
    world = Busy()
    sampler = Sampler(world)
    since_ns: int | None = None
    for number in range(samples):
        world.look(apart_ns)
        if number == computes:
            since_ns = world.now_ns
        sampler.sample(function, "main", repeats_since_ns=since_ns, repeats=max(0, number - computes))
    return world


FLAG = [("load", "wait_flag", "run", "main"), ("wait_flag", "run", "main")] * 7
MPI = [(poll, "progress", "MPI_Recv", "run", "main") for poll in ("poll_a", "poll_b", "poll_c")] * 5
HEALTHY = {
    "matrix": [("kernel_8x4", "gemm", "run", "main"), ("pack", "gemm", "run", "main")] * 7,
    "hash": [("rotate", "sha256", "run", "main")] * 14,
    "jit": [(f"0x7f{n:010x}", "run", "main") for n in range(14)],
    "numpy": [("DOUBLE_add_AVX2", "ufunc", "run", "main"), ("DOUBLE_multiply", "ufunc", "run", "main")] * 7,
    "flag of no telling name": [("run", "main")] * 14,
    "asks again and again": [("try_recv", "loop", "run", "main"), ("backoff", "loop", "run", "main")] * 7,
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_a_computation_is_never_a_stall_nor_progress(kind: str) -> None:
    """From outside it is the same as a loop that waits for a flag: both are unknown."""
    world = busy(*HEALTHY[kind])
    assert verdict(world).state is VerdictState.UNKNOWN
    found = world.found("spinning")
    assert found.state is VerdictState.UNKNOWN and found.inferred
    assert "computes or spins in" in found.sentence and "stall" not in found.sentence
    assert world.snapshot().activity[MAIN].steps == 0


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("matrix", "gemm (job.cpp:7)"),
        ("hash", "rotate (job.cpp:7)"),
        ("jit", "run (job.cpp:7)"),
        ("asks again and again", "loop (job.cpp:7)"),
    ],
)
def test_the_innermost_function_that_is_in_all_samples_is_named(kind: str, place: str) -> None:
    assert f"computes or spins in {place} for 13 s or more." in busy(*HEALTHY[kind]).found("spinning").sentence


@pytest.mark.invariant("spinning.N1")
@pytest.mark.parametrize(
    ("stacks", "function"),
    [(FLAG, "wait_flag"), (MPI, "MPI_Recv"), ([("round", "wait_and_hash", "main")] * 14, "wait_and_hash")],
)
def test_a_function_that_is_named_like_a_wait_may_compute(stacks: list[tuple[str, ...]], function: str) -> None:
    world = busy(*stacks)
    found = world.found("spinning")
    assert f"computes or spins in {function} (job.cpp:7) for" in found.sentence and "stall" not in found.sentence
    assert found.evidence[1].source == SAMPLED and "stacks in one place" in found.evidence[1].text
    assert verdict(world).state is VerdictState.UNKNOWN


@pytest.mark.invariant("spinning.N1")
@pytest.mark.parametrize("function", ["poll_flag", "step"])
def test_a_thread_that_repeats_itself_spins_whatever_its_function_is_named(function: str) -> None:
    world = repeating(14, function)
    found = world.found("spinning")
    assert f"spins in {function} (job.cpp:7) for 13 s or more: a stall, unless" in found.sentence
    assert "computes" not in found.sentence and found.inferred
    assert found.evidence[1].text == "13 samples found the same registers in a loop that only reads memory"
    assert (verdict(world).state, verdict(world).sentence) == (VerdictState.UNKNOWN, found.sentence)


def test_a_thread_that_has_repeated_itself_for_less_than_the_threshold_computes_or_spins() -> None:
    assert "computes or spins in step" in repeating(14, "step", computes=8).found("spinning").sentence
    assert "computes or spins" not in repeating(24, "step", computes=8).found("spinning").sentence
    few = repeating(3, "step", apart_ns=6 * SECOND).found("spinning")
    assert "computes or spins in step" in few.sentence


def test_a_spin_lock_whose_holder_works_is_a_note() -> None:
    world = repeating(14, "spin_lock")
    world.thread(2, "holder", state=ThreadState.RUNNING, cpu_ns=SECOND)
    found = world.found("spinning")
    assert found.state is None and "stall" not in found.sentence and "spins in spin_lock" in found.sentence


def test_an_earlier_phase_does_not_hide_where_it_is_now() -> None:
    world = busy(*[("load", "main")] * 20, *[("wait_flag", "main")] * 14)
    assert "spins in wait_flag (job.cpp:7) for 13 s or more" in world.found("spinning").sentence


def test_a_wait_that_was_left_and_entered_again_is_no_spin() -> None:
    world = busy(
        *[("wait_flag", "step", "main")] * 6, ("compute", "step", "main"), *[("wait_flag", "step", "main")] * 6
    )
    assert "computes or spins in step" in world.found("spinning").sentence


def test_few_samples_and_samples_that_ended_say_nothing() -> None:
    assert busy(*[("wait_flag", "main")] * 2, apart_ns=8 * SECOND).finding("spinning") is None
    world = busy(*[("wait_flag", "main")] * 5)
    assert world.look(20 * SECOND).finding("spinning") is None  # what it did since is not known


def test_a_glance_after_samples_begins_anew() -> None:
    world = busy(*[("compute", "main")] * 5)
    stack = Stack(thread=MAIN, frames=(Frame(function="main"),), taken_mono_ns=world.now_ns, source="glance")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    activity = world.snapshot().activity[MAIN]
    assert (activity.steps, activity.stack_samples, activity.stack_since_mono_ns) == (0, 1, world.now_ns)
