"""Samples that find a thread in one call of the user's code after another: progress that CPU time is not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from livedbg.analysis import VerdictState
from livedbg.model import Frame
from livedbg.model.events import CounterSeen, SamplesSeen
from livedbg.model.launches import ProfileSlice, SampledStack
from tests.analysis.test_burning import Busy, verdict
from tests.analysis.world import SECOND
from tests.cli.conftest import livedbg
from tests.conftest import Target, seen_when

USER, LIBRARY = "/home/me/train.py", "/usr/lib/python3.11/random.py"


def sampled(*calls: tuple[int, str], file: str = USER) -> Busy:
    """A thread that only uses CPU time, and was found at these lines of `train`, in what they call."""
    world = Busy().look(SECOND)

    def stack(line: int, callee: str) -> SampledStack:
        inner = [Frame(callee, LIBRARY, 3, language="python")] if callee else []
        return SampledStack((*inner, Frame("train", file, line, language="python")), SECOND // 100)

    stacks = tuple(stack(*call) for call in calls)
    piece = ProfileSlice(thread="thread:box/1/1", start_mono_ns=world.now_ns, end_mono_ns=world.now_ns, stacks=stacks)
    world.store.apply(SamplesSeen(slices=(piece,), **world.stamp()))
    return world


def counted(thread: str = "thread:box/1/1", value: float = 812, total: float | None = 10_000) -> Busy:
    """A thread that only uses CPU time, beside a loop of some thread that was read."""
    world = Busy().look(SECOND)
    name = "iterations of a loop in train (train.py)"
    world.store.apply(CounterSeen(entity=thread, name=name, value=value, total=total, per_s=3.1, **world.stamp()))
    return world


@pytest.mark.invariant("progress_seen.P2")
@pytest.mark.parametrize(
    ("value", "total", "said"),
    [
        (812, 10_000, "has done 812 of 10,000 iterations of a loop in train (train.py), 3.1 a second, 49 min left"),
        (9_999, 10_000, "has done 9,999 of 10,000 iterations of a loop in train (train.py), 3.1 a second."),
        (812, None, "has done 812 iterations of a loop in train (train.py), 3.1 a second."),
        (-812, 0, "has done all but 812 iterations of a loop in train (train.py), 3.1 a second, 4 min left"),
    ],
)
def test_P2_a_loop_that_goes_round_is_progress_and_the_verdict_says_how_far(
    value: float, total: float | None, said: str
) -> None:
    found = verdict(counted(value=value, total=total))
    assert found.state is VerdictState.RUNNING
    assert said in found.sentence


@pytest.mark.invariant("progress_seen.P2")
def test_P2_who_goes_round_is_not_said_to_spin() -> None:
    world = Busy()
    for step in range(13):
        world.look(SECOND)
        world.stack("train:9")
        counter = CounterSeen(
            entity="thread:box/1/1", name="iterations of a loop", value=step, per_s=1.0, **world.stamp()
        )
        world.store.apply(counter)
    assert world.finding("spinning") is None
    for _ in range(11):
        world.look(SECOND)
        world.stack("train:9")
    assert "computes or spins in train" in world.found("spinning").sentence


@pytest.mark.invariant("progress_seen.P2")
def test_P2_a_loop_of_another_thread_or_of_long_ago_is_no_progress() -> None:
    assert verdict(counted("thread:box/1/2")).state is VerdictState.UNKNOWN
    world = counted()
    for _ in range(11):
        assert verdict(world).state is VerdictState.RUNNING
        world.look(SECOND)
    found = verdict(world)
    assert found.state is VerdictState.UNKNOWN and "computes, or spins" in found.sentence


@pytest.mark.invariant("progress_seen.P1")
def test_P1_three_calls_are_progress_and_the_verdict_names_them() -> None:
    found = verdict(sampled((9, "forward"), (10, "backward"), (11, "step")))
    assert found.state is VerdictState.RUNNING
    assert "goes from call to call in train (train.py:9, :10, :11)" in found.sentence
    assert verdict(sampled((9, "forward"), (9, "backward"), (9, "step"))).state is VerdictState.RUNNING


@pytest.mark.invariant("progress_seen.P1")
@pytest.mark.parametrize(
    "calls",
    [
        [(9, "forward"), (10, "backward")],  # two calls: a loop that asks, and does a little
        [(9, ""), (10, ""), (11, ""), (12, "")],  # lines without a call: a loop that computes, or never ends
        [(9, "forward"), (9, "forward"), (9, "forward")],
        [(9, "is_set"), (10, "sleep"), (11, "wait"), (12, "poll"), (13, "forward")],
    ],
)
def test_P1_what_a_loop_that_gets_nowhere_looks_like_too_is_none(calls: list[tuple[int, str]]) -> None:
    assert verdict(sampled(*calls)).state is VerdictState.UNKNOWN


@pytest.mark.invariant("progress_seen.P1")
def test_P1_calls_of_a_library_are_not_those_of_the_user_and_old_ones_do_not_count() -> None:
    calls = ((9, "forward"), (10, "backward"), (11, "step"))
    assert verdict(sampled(*calls, file=LIBRARY)).state is VerdictState.UNKNOWN
    world = sampled(*calls)
    assert verdict(world.look(9 * SECOND)).state is VerdictState.RUNNING
    assert verdict(world.look(2 * SECOND)).state is VerdictState.UNKNOWN


TRAINS = """
def forward(x): return [a * 3 % 1000003 for a in x]
def backward(x): return sorted(x, key=lambda a: -a)
def step(x): return x[1:] + x[:1]
def main():
    x = list(range(20000))
    print("READY", flush=True)
    while True:
        x = forward(x)
        x = backward(x)
        x = step(x)
main()
"""
HANGS = """
def main(low=0, high=10, middle=0):
    print("READY", flush=True)
    while low < high:
        middle = (low + high) // 2
        if middle < 7:
            low = middle
        else:
            high = middle + 1
main()
"""


@pytest.mark.parametrize(("program", "states"), [(TRAINS, {"running"}), (HANGS, {"unknown"})])
def test_a_real_loop_that_makes_calls_runs_and_one_that_makes_none_is_not_said_to(
    program: str, states: set[str], spawn: Callable[..., Target]
) -> None:
    target = spawn([sys.executable, "-c", program])

    def state() -> str:
        said: str = json.loads(livedbg("report", target.pid, "--json").out)["verdict"]["state"]
        return said

    assert seen_when(lambda said: said in states, state) in states
    assert {state() for _ in range(2)} == states
