"""Stacks of threads that run, without a stop."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.proc import ProcAdapter
from livedbg.adapters.samples import SamplesAdapter, account, profiling, unwinding
from livedbg.adapters.samples.shown import HeldFrames
from livedbg.adapters.samples.unwinding import SampledStacks
from livedbg.analysis.profile import profile_of
from livedbg.linux import procfs
from livedbg.linux.access import Problem
from livedbg.model import Edge, EdgeKind, Frame, Resource, SourceHealth
from livedbg.model.events import EdgesReplaced, ResourcesSeen, ThreadRolesSeen
from livedbg.model.intents import SAMPLES, SAMPLES_FOR, SAMPLES_RATE, WantStacks
from livedbg.model.snapshot import Snapshot
from livedbg.probes import clock_samples
from livedbg.probes.clock_samples import ClockSamples, refused, refused_here
from livedbg.probes.perf_event import NoPerf
from livedbg.probes.perf_records import Sample
from livedbg.session.adapter import Adapter, Context, Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.tools import find_gdb, no_unwinder
from livedbg.unwind.pool import UnwinderPool
from tests.cli.conftest import longer
from tests.conftest import Target, eventually, settled
from tests.waiting import WALL_S

needs_samples = pytest.mark.skipif(
    refused_here() is not None or no_unwinder(Request(host="box")) is not None,
    reason=f"no samples here: {refused_here()}, or nothing that unwinds",
)


@pytest.fixture
def spinners(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> tuple[int, list[int]]:
    """A program with two threads that spin and one that is blocked: its pid, and the threads."""
    target = spawn([build_target("spinners"), "2"])
    tids = [int(word) for word in target.words[1:]]
    settled(target.pid, but=tids[:-1])
    return target.pid, tids


@contextmanager
def watching(pid: int, *, once: bool = False) -> Iterator[LiveView]:
    request = Request(host="box", processes=(TargetProcess(pid),), once=once)
    view = LiveView(request, adapters=[ProcAdapter(), SamplesAdapter()])
    view.start()
    try:
        yield view
    finally:
        view.stop()


def until(view: LiveView, true: Callable[[Snapshot], bool]) -> Snapshot:
    eventually(lambda: true(view.latest().snapshot))
    return view.latest().snapshot


class Cores(Adapter):
    """Reports, later than all samples are taken, which threads play cores, and which of these have a task."""

    name = "cores"
    sees = cost = ""

    def __init__(self, threads: dict[str, str]) -> None:
        self._states = threads

    async def run(self, context: Context) -> None:
        await asyncio.sleep(2)
        stamp, edges = context.stamp(), []
        for number, (name, state) in enumerate(self._states.items()):
            core = f"core:toy/{number}"
            context.emit(ResourcesSeen(resources=(Resource(id=core, kind="core", name=core, state=state),), **stamp))
            edges.append(Edge(kind=EdgeKind.RUNS_ON, source=core, target=name, evidence="test"))
        context.emit(EdgesReplaced(scope="toy", edges=tuple(edges), **stamp))
        context.emit(ThreadRolesSeen(roles=dict.fromkeys(self._states, "core"), **stamp))
        context.settled()


@needs_samples
def test_one_look_takes_many_samples_of_the_threads_that_execute_tasks(spinners: tuple[int, list[int]]) -> None:
    pid, tids = spinners
    busy, idle = (f"thread:box/{pid}/{tid}" for tid in tids[:2])
    request = Request(host="box", processes=(TargetProcess(pid),), once=True)
    view = LiveView(request, adapters=[ProcAdapter(), SamplesAdapter(), Cores({busy: "busy", idle: "idle"})])
    view.start()
    assert view.wait_settled(WALL_S)
    view.stop()
    snapshot = view.latest().snapshot
    assert [thread.id for thread in snapshot.players("busy")] == [busy]
    assert max(frame.held_samples for frame in snapshot.stacks[busy].frames) >= 3
    if idle in snapshot.stacks:
        assert max(frame.held_samples for frame in snapshot.stacks[idle].frames) == 1


@needs_samples
@pytest.mark.invariant("samples_adapter.S1", "samples_adapter.S2")
def test_S1_S2_running_threads_have_native_stacks_and_nothing_is_stopped(spinners: tuple[int, list[int]]) -> None:
    pid, (*running, blocked) = spinners
    switches = procfs.status_fields(pid, blocked)["voluntary_ctxt_switches"]
    names = {f"thread:box/{pid}/{tid}" for tid in running}
    with watching(pid) as view:
        shot = until(view, lambda s: names <= s.stacks.keys())
        for name in names:
            stack = shot.stacks[name]
            assert (stack.source, stack.layer, stack.partial) == ("sampled", "native", False)
            assert any("spin_in_" in frame.function and frame.line for frame in stack.frames)
        assert f"thread:box/{pid}/{blocked}" not in shot.stacks
        until(view, lambda s: all(s.stacks[name].frames[-1].held_samples >= 3 for name in names))
        until(view, lambda s: names <= s.profiles.keys())
        for name in names:
            stacks = [stack for one in view.latest().snapshot.profiles[name] for stack in one.stacks]
            assert any("spin_in_" in frame.function for stack in stacks for frame in stack.frames)
            assert all(stack.cpu_ns > 0 for stack in stacks)
        shot = until(view, lambda s: bool(s.intrusions))
    shot = view.latest().snapshot
    assert {touch.what for touch in shot.intrusions} == {"samples"}
    assert shot.touches.stops == 0 and shot.paused_ns == 0
    assert all("2 running threads" in touch.why or "1 running thread" in touch.why for touch in shot.intrusions)
    assert all(procfs.status_fields(pid, tid)["TracerPid"] == "0" for tid in running)
    assert procfs.status_fields(pid, blocked)["voluntary_ctxt_switches"] == switches
    for name in names:  # what a thread is in is held; that it was sampled is no progress
        frames = shot.stacks[name].frames
        spin = next(frame for frame in frames if "spin_in_" in frame.function)
        assert spin.held_samples == frames[-1].held_samples


@needs_samples
def test_who_asks_gets_a_newer_stack(spinners: tuple[int, list[int]]) -> None:
    pid, (first, *_) = spinners
    name = f"thread:box/{pid}/{first}"
    with watching(pid) as view:
        before = until(view, lambda s: name in s.stacks).stacks[name]
        asked = view.latest().snapshot.now().mono_ns
        view.send(WantStacks(process=f"process:box/{pid}", threads=(name,)))
        assert until(view, lambda s: s.stacks[name].taken_mono_ns > asked).stacks[name].source == before.source


@needs_samples
def test_a_session_that_samples_once_has_them_too_and_ends(spinners: tuple[int, list[int]]) -> None:
    pid, _ = spinners

    def sampled() -> bool:  # on a full machine a thread may get no CPU in the time that there is
        with watching(pid, once=True) as view:
            assert view.wait_ended(200)
            return bool(view.latest().snapshot.stacks)

    eventually(sampled)


def test_samples_can_be_switched_off() -> None:
    of = TargetProcess(os.getpid())
    assert SamplesAdapter.applies(Request(host="box", processes=(of,)))
    assert not SamplesAdapter.applies(Request(host="box", processes=(of,), options={SAMPLES: "no"}))
    assert not SamplesAdapter.applies(Request(host="box", processes=(of,), stacks="python"))
    assert not SamplesAdapter.applies(Request(host="box", logs=("x",)))


@needs_samples
def test_a_refusal_is_reported_and_withdrawn_and_the_rest_goes_on(
    spinners: tuple[int, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, (first, *_) = spinners
    opened = clock_samples.open_clock

    def denied(*args: int) -> int:
        raise NoPerf(errno.EACCES, "not allowed")

    monkeypatch.setattr(clock_samples, "open_clock", denied)
    with watching(pid) as view:
        shot = until(view, lambda s: any(status.source == "samples" for status in s.statuses.values()))
        (status,) = (status for status in shot.statuses.values() if status.source == "samples")
        assert (status.health, status.code) == (SourceHealth.DEGRADED, "samples-refused")
        assert "glance" in status.remedy and not shot.stacks and not shot.intrusions
        assert view.wait_settled(WALL_S)
        monkeypatch.setattr(clock_samples, "open_clock", opened)
        view.send(WantStacks(process=f"process:box/{pid}"))
        shot = until(view, lambda s: f"thread:box/{pid}/{first}" in s.stacks)
        assert [s.health for s in shot.statuses.values() if s.code == "samples-refused"] == [SourceHealth.OK]


@needs_samples
@pytest.mark.invariant("samples_unwinding.W1", "samples_unwinding.W2")
def test_W1_W2_places_are_remembered_until_the_layout_changes(spinners: tuple[int, list[int]]) -> None:
    pid, (first, second, _) = spinners

    async def scene() -> None:
        pool = UnwinderPool.shared(find_gdb())
        known = SampledStacks(pid, pool)
        try:
            with ClockSamples() as clocks:
                clocks.follow({first: 1_000_000, second: 1_000_000})
                eventually(lambda: found.extend(clocks.read()) or len(found) >= 6)  # type: ignore[func-returns-value]
            assert await known.recall(found) == {}
            stacks = await known.unwind(found, 100)
            assert all(stack is not None and stack.whole for stack in stacks)
            assert await known.recall(found) == {s.tid: stack for s, stack in zip(found, stacks, strict=True)}
            assert await known.unwind(found, 100) == stacks
            assert len(known._known) <= unwinding._REMEMBERED
            known._mappings = known._mappings[:1]  # as if it had been another layout
            assert known._refresh() and await known.recall(found) == {}
        finally:
            await pool.close()

    found: list[Sample] = []
    asyncio.run(scene())


@needs_samples
def test_samples_of_a_process_that_has_ended_have_their_stacks_where_its_code_was_known(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    async def scene() -> None:
        pool = UnwinderPool.shared(find_gdb())
        known, unknown = SampledStacks(target.pid, pool), SampledStacks(target.pid, pool)
        try:
            assert known._refresh()
            target.kill()
            stacks = await known.unwind(found, 100)
            assert [stack is not None and stack.whole for stack in stacks] == [True] * len(found)
            with pytest.raises((ProcessLookupError, FileNotFoundError)):
                await unknown.unwind(found, 100)
        finally:
            await pool.close()

    found: list[Sample] = []
    target = spawn([build_target("spinners"), "1"])
    with ClockSamples() as clocks:
        clocks.follow({int(target.words[1]): 1_000_000})
        eventually(lambda: found.extend(clocks.read()) or len(found) >= 3)  # type: ignore[func-returns-value]
    asyncio.run(scene())


def frames(*names: str) -> tuple[Frame, ...]:
    return tuple(Frame(name, module="m") for name in names)


@pytest.mark.invariant("shown.H1")
def test_H1_a_frame_is_held_while_it_and_all_outside_it_stay() -> None:
    held = HeldFrames()
    assert [f.held_mono_ns for f in held.seen(1, frames("a", "loop", "main"), 10)] == [10, 10, 10]
    later = held.seen(1, frames("b", "loop", "main"), 20)
    assert [(f.held_mono_ns, f.held_samples) for f in later] == [(20, 1), (10, 2), (10, 2)]
    deeper = held.seen(1, frames("c", "b", "loop", "main"), 30)
    assert [(f.held_mono_ns, f.held_samples) for f in deeper] == [(30, 1), (20, 2), (10, 3), (10, 3)]
    shallow = held.seen(1, frames("loop", "main"), 40)
    assert [(f.held_mono_ns, f.held_samples) for f in shallow] == [(10, 4), (10, 4)]
    again = held.seen(1, frames("b", "loop", "main"), 50)
    assert [f.held_mono_ns for f in again] == [50, 10, 10]
    # another outer function: all that is inside it is another place, whatever it is called
    moved = held.seen(1, frames("b", "loop", "other"), 60)
    assert [f.held_mono_ns for f in moved] == [60, 60, 60]
    held.keep({2})
    assert [f.held_mono_ns for f in held.seen(1, frames("b", "loop", "other"), 70)] == [70, 70, 70]


@needs_samples
@pytest.mark.invariant("samples_profiling.R1", "samples_profiling.R2")
def test_R1_R2_every_sample_of_a_profile_is_in_it_and_in_the_ledger(
    spinners: tuple[int, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, (first, second, _) = spinners
    monkeypatch.setattr(profiling, "_WAITING", 3)

    def whole(seconds: float) -> bool:
        options = {SAMPLES_FOR: str(seconds), SAMPLES_RATE: "999"}
        request = Request(host="box", processes=(TargetProcess(pid),), options=options)
        view = LiveView(request, adapters=[ProcAdapter(), SamplesAdapter()])
        view.start()
        try:
            assert view.wait_settled(WALL_S)
        finally:
            view.stop()
        shot = view.latest().snapshot
        profile = profile_of(one for slices in shot.profiles.values() for one in slices)
        if shot.profiles.keys() != {f"thread:box/{pid}/{tid}" for tid in (first, second)} or not profile.unknown:
            return False
        ledger = sum(int(touch.why.partition(" ")[0].replace(",", "")) for touch in shot.intrusions)
        assert profile.samples >= ledger > 0 and profile.samples > profile.unknown
        return True

    longer(0.5, whole)


def test_a_target_of_somebody_else_is_given_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked:
        request = Request(host="box", processes=(TargetProcess(os.getpid()),))

    asked: Any = Asked()
    error = NoPerf(errno.EACCES, "not allowed")
    monkeypatch.setattr(
        account, "access_problem", lambda _pid: Problem("other-user", "It runs as root.", "sudo livedbg")
    )
    why = account._refusal(asked, error)
    assert why.sentence.endswith("It runs as root.") and why.remedy == "sudo livedbg"
    monkeypatch.setattr(account, "access_problem", lambda _pid: None)
    assert account._refusal(asked, error) == refused(error)
