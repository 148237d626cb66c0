"""Shares of functions and merged stacks from samples."""

from __future__ import annotations

import pytest

from livedbg.analysis.profile import UNNAMED, Profile, function_shares, merged, profile_of
from livedbg.model import Frame
from livedbg.model.launches import ProfileSlice, SampledStack
from livedbg.state.merging import PROFILE_NS, PROFILE_SLICES, profile_after


def stack(*names: str, cpu_ns: int = 10, samples: int = 1) -> SampledStack:
    """Innermost first; `name:line`."""
    frames = tuple(Frame(n.partition(":")[0], "a.cpp", int(n.partition(":")[2] or 1), "a") for n in names)
    return SampledStack(frames, cpu_ns, samples)


def slice_of(*stacks: SampledStack, end: int = 0, unknown: int = 0, thread: str = "thread:box/1/1") -> ProfileSlice:
    return ProfileSlice(thread=thread, start_mono_ns=end, end_mono_ns=end, stacks=stacks, unknown=unknown)


@pytest.mark.invariant("profile.P1")
def test_P1_shares_are_of_the_cpu_time_that_samples_stand_for() -> None:
    # one sample of a second and ten of a tenth: as much time
    profile = profile_of(
        [slice_of(stack("slow", "main", cpu_ns=100)), slice_of(stack("fast", "main", cpu_ns=100, samples=10))]
    )
    shares = {one.function: one for one in function_shares(profile)}
    assert (shares["slow"].own, shares["fast"].own, shares["main"].own, shares["main"].total) == (0.5, 0.5, 0, 1)
    assert profile.samples == 11 and profile.cpu_ns == 200
    assert [one.function for one in function_shares(profile)] == ["fast", "slow", "main"]


@pytest.mark.invariant("profile.P1")
def test_P1_samples_without_a_stack_count() -> None:
    profile = profile_of([slice_of(stack("f", samples=3, cpu_ns=30), unknown=1)])
    (share,) = function_shares(profile)
    assert (profile.samples, profile.unknown) == (4, 1) and share.own == share.total == 0.75
    assert function_shares(profile_of([slice_of(unknown=2)])) == [] and function_shares(Profile()) == []


@pytest.mark.invariant("profile.P2")
def test_P2_a_function_that_calls_itself_counts_once_and_has_the_line_of_most_samples() -> None:
    profile = profile_of([slice_of(stack("f:7", "f:9", "main"), stack("f:7", "main"), stack("f:8", "main"))])
    shares = {one.function: one for one in function_shares(profile)}
    assert (shares["f"].own, shares["f"].total, shares["f"].line, shares["f"].samples) == (1, 1, 7, 3)


def test_equal_stacks_are_one_and_addresses_without_a_name_too() -> None:
    one, other = Frame("0x10", module="lib.so", address=16), Frame("0x20", module="lib.so", address=32)
    both = merged([stack("f", samples=2), stack("f"), SampledStack((one,), 5), SampledStack((other,), 5)])
    assert [(known.samples, known.cpu_ns) for known in both] == [(3, 20), (2, 10)]
    assert [share.function for share in function_shares(profile_of([slice_of(*both)]))] == ["f", UNNAMED]
    lines = merged([stack("f:1"), stack("f:2")])
    assert len(lines) == 2


def test_what_ended_before_is_left_out() -> None:
    slices = [slice_of(stack("old"), end=10), slice_of(stack("new"), end=20)]
    assert [known.frames[0].function for known in profile_of(slices, since_mono_ns=15).stacks] == ["new"]


@pytest.mark.invariant("store.F5")
def test_F5_of_a_threads_samples_the_last_minute_is_kept_and_no_more_than_so_many() -> None:
    known: tuple[ProfileSlice, ...] = ()
    for end in (0, PROFILE_NS // 2, PROFILE_NS + 1):
        known = profile_after(known, slice_of(stack("f"), end=end))
    assert [one.end_mono_ns for one in known] == [PROFILE_NS // 2, PROFILE_NS + 1]
    for _ in range(PROFILE_SLICES + 5):
        known = profile_after(known, slice_of(stack("f"), end=PROFILE_NS))
    assert len(known) == PROFILE_SLICES
