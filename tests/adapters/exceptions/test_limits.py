"""Catchpoints within bounds, and what becomes of one that fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.adapters.exceptions.native_calls import NativeCalls
from livedbg.model.catchpoints import CatchpointState, Moment
from livedbg.model.intents import Uncatch
from tests.adapters.exceptions.catching import Tracing, functions, tell
from tests.conftest import Target, eventually
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

Build = Callable[..., Path]
Spawn = Callable[..., Target]


@pytest.fixture
def tracing(build_target: Build, spawn: Spawn) -> Iterator[tuple[Tracing, Target]]:
    target = spawn([build_target("throws")])
    one = Tracing(target.pid)
    yield one, target
    one.stop()


@pytest.mark.invariant("hits.Q2")
def test_Q2_ever_different_messages(tracing: tuple[Tracing, Target]) -> None:
    session, target = tracing
    session.catch("any")
    for number in range(60):
        tell(target, f"runtime number {number}")
    hits = session.hits_after(60)
    assert sum(hit.count for hit in hits) == 60 and len(hits) == 21
    merged = max(hits, key=lambda hit: hit.count)
    assert merged.message == "40 different messages; the last: number 59"
    assert functions(merged)[:2] == ["__cxa_throw", "innermost"]


def test_E1_a_listener_that_fails_says_so_and_no_other_does(
    tracing: tuple[Tracing, Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, target = tracing
    session.catch("any")
    tell(target, "runtime before")
    session.hits_after(1)
    whole = NativeCalls.describe

    def describe(self: NativeCalls, *arguments: object) -> object:
        call = whole(self, *arguments)  # type: ignore[arg-type]
        if call is not None and call.message == "the end":
            raise ArithmeticError("by a test")
        return call

    monkeypatch.setattr(NativeCalls, "describe", describe)
    tell(target, "logic the end")
    eventually(lambda: session.points["C1"].state is CatchpointState.FAILED)
    point = session.points["C1"]
    assert "tracing has failed (ArithmeticError: by a test)" in point.note and point.remedy
    assert [hit.message for hit in session.hits] == ["before"] and point.hits == 1
    session.catch("any")
    tell(target, "runtime after")
    session.hits_after(2)
    assert session.points["C2"].state is CatchpointState.ARMED
    assert {hit.message for hit in session.hits} == {"before", "after"}


@pytest.mark.invariant("native_calls.J1")
def test_J1_a_subject_is_asked_in_one_thread_alone(
    tracing: tuple[Tracing, Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[int, set[int]] = {}

    def note(whole: Callable[..., object]) -> Callable[..., object]:
        def noted(self: NativeCalls, *of: object) -> object:
            asked.setdefault(id(self), set()).add(threading.get_native_id())
            return whole(self, *of)

        return noted

    for name in ("describe", "python", "changed"):
        monkeypatch.setattr(NativeCalls, name, note(getattr(NativeCalls, name)))
    session, target = tracing
    session.catch("any")
    session.catch("std::runtime_error")
    tell(target, "runtime of the main thread")
    tell(target, "thread runtime of another")
    tell(target, "logic and of another type")
    session.hits_after(5)
    assert len(asked) == 2 and [len(threads) for threads in asked.values()] == [1, 1]
    assert len(set().union(*asked.values())) == 2 and threading.get_native_id() not in set().union(*asked.values())


def test_many_catchpoints_at_once(tracing: tuple[Tracing, Target]) -> None:
    session, target = tracing
    for _ in range(10):
        session.catch("any")
    tell(target, "runtime reported by all")
    hits = session.hits_after(10)
    assert {hit.catchpoint for hit in hits} == {f"C{number}" for number in range(1, 11)}
    assert all(functions(hit)[:2] == ["__cxa_throw", "innermost"] for hit in hits)
    for number in range(1, 11):
        session.view.send(Uncatch(catchpoint=f"C{number}"))
    eventually(lambda: all(point.state is CatchpointState.DONE for point in session.points.values()))


def test_seen_is_of_the_process_alone(tracing: tuple[Tracing, Target], build_target: Build, spawn: Spawn) -> None:
    """Also where types are left to the kernel, and somebody listens to the same function in another process."""
    session, target = tracing
    other = spawn([build_target("throws")])
    elsewhere = Tracing(other.pid)
    try:
        elsewhere.catch("any")
        session.catch("nvfuser::nvfError")
        for number in range(1, 7):
            tell(target, "flood logic 100 1500")  # no more than the rings hold: what is not read in time is lost
            tell(target, "thread logic from a thread")
            tell(target, f"nvf {number}")
            session.hits_after(number)
            if number == 4:
                tell(other, "flood runtime 3000 10000")
    finally:
        elsewhere.stop()
    session.view.send(Uncatch(catchpoint="C1"))
    eventually(lambda: session.points["C1"].state is CatchpointState.DONE)
    point = session.points["C1"]
    assert point.lost or 612 <= point.seen <= 812  # some count twice while the counting begins


def test_a_rethrow_has_no_type_which_is_said(tracing: tuple[Tracing, Target]) -> None:
    session, target = tracing
    session.catch("std::runtime_error", moment=Moment.RETHROW)
    tell(target, "rethrow whatever")
    (hit,) = session.hits_after(1)
    assert functions(hit)[:2] == ["__cxa_rethrow", "outer"]
    assert "neither type nor message" in session.points["C1"].note


def test_many_children_cost_one_stack(tracing: tuple[Tracing, Target]) -> None:
    session, target = tracing
    session.catch("any", follow=True)
    for _ in range(100):
        tell(target, "fork runtime of a child")
    (hit,) = session.hits_after(100)
    assert hit.count == 100 and functions(hit)[:2] == ["__cxa_throw", "innermost"]


def test_a_child_that_ends_at_once_has_its_stack(tracing: tuple[Tracing, Target]) -> None:
    session, target = tracing
    session.catch("any", follow=True)
    for number in range(5):
        tell(target, f"fork runtime of child {number}")
    hits = session.hits_after(5)
    assert all(functions(hit)[:3] == ["__cxa_throw", "innermost", "outer"] and not hit.partial for hit in hits)
    assert len({hit.process for hit in hits}) == 5
