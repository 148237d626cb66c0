"""Threads in an AOTInductor model: its calls as tasks, on states built by hand and generated code of torch 2.13."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from livedbg.adapters.pytorch.aoti import adapter as models
from livedbg.adapters.pytorch.aoti.adapter import ModelsAdapter
from livedbg.adapters.pytorch.aoti.sources import in_folder
from livedbg.analysis import VerdictState
from livedbg.model import Frame, Process, Stack, TaskState, ThreadState
from livedbg.model import events as ev
from livedbg.model.request import Level, Request, TargetProcess
from tests.analysis.world import SECOND, World

CAPTURED = Path(__file__).parents[2] / "fixtures" / "pytorch" / "aoti"
READ = models._read
OPERATOR = 885
"""The line of the generated code that calls guide::throws."""
FUSED = 914


class Running:
    """What an adapter gets: a world in which something happens whenever it sleeps, until the program ends."""

    def __init__(self, world: World, happens: Sequence[Callable[[], None]], *, once: bool = False) -> None:
        self.world = world
        self.request = Request(host="box", processes=(TargetProcess(1, None),), once=once)
        self.has_settled = False
        self._happens = list(happens)

    def snapshot(self) -> Any:
        return self.world.snapshot()

    def stamp(self) -> ev.Stamp:
        return self.world.stamp()

    def emit(self, *events: ev.Event) -> None:
        for event in events:
            self.world.store.apply(event)

    def settled(self) -> None:
        self.has_settled = True

    async def sleep(self, seconds: float) -> None:
        self.world.now_ns += round(seconds * SECOND)
        if self._happens:
            self._happens.pop(0)()
        else:
            self.world.exits("process:box/1")


@pytest.fixture(autouse=True)
def unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 1 has the model of the fixture loaded."""
    monkeypatch.setattr(models, "_libraries", lambda _process: {"/tmp/aotinductor_x/model.wrapper.so"})
    monkeypatch.setattr(models, "_read", lambda _process, _name: in_folder(CAPTURED / "throw" / "model.wrapper.cpp"))


def world_of(*, waits_in: str | None = None) -> World:
    world = World()
    world.process(1)
    state = ThreadState.WAITING if waits_in else ThreadState.RUNNING
    world.thread(1, "python", state=state, waits_in=waits_in)
    return world


def seen(world: World, line: int, source: str = "sampled") -> None:
    """A stack of the thread in a call of the model."""
    frames = (
        Frame("wait_for_peer_flag", file="/opt/job/ops.cpp", line=8),
        Frame("torch::aot_inductor::AOTInductorModel::run_impl", file="/opt/cache/model.wrapper.cpp", line=line),
    )
    stack = Stack(thread="thread:box/1/1", frames=frames, taken_mono_ns=world.now_ns, source=source)
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))


async def watched(world: World, *happens: Callable[[], None], once: bool = False) -> World:
    running = Running(world, happens, once=once)
    await ModelsAdapter().run(cast("Any", running))
    assert running.has_settled
    return world


def states(world: World) -> dict[str, TaskState]:
    return {task.kernel or "": task.state for task in world.snapshot().tasks.values()}


async def test_the_operator_that_a_thread_is_in_with_what_waits_for_its_buffer() -> None:
    world = world_of(waits_in="sleep 0.2 s")
    seen(world, OPERATOR, "no stop")
    await watched(world, once=True)
    assert states(world) == {
        "aoti_torch_cpu_addmm_out": TaskState.SUBMITTED,  # the second of this name
        "cpp_fused_mul_relu_throws_0": TaskState.COMPLETED,
        "guide::throws": TaskState.RUNNING,
        "cpp_fused__softmax_add_tanh_1": TaskState.SUBMITTED,
    }
    finding = world.found("aoti-kernel")
    assert finding.sentence == (
        "Thread 1 (python) is now in guide::throws, call 3 of 5 of an AOTInductor model; aoti_torch_cpu_addmm_out, "
        "cpp_fused__softmax_add_tanh_1 wait for what it writes."
    )
    assert "guide::throws reads buf1, writes buf3" in finding.evidence[1].text
    command = " ".join(world.snapshot().processes["process:box/1"].command) or "CMD"
    assert finding.next == (f"livedbg aoti -- {command}   (in steps, with the values of its inputs)",)
    pending = [edge for edge in world.snapshot().edges.values() if edge.state == "pending"]
    assert [edge.evidence for edge in pending] == ["buf3 in model.wrapper.cpp:898", "buf5 in model.wrapper.cpp:914"]


def test_code_that_still_lies_where_it_was_compiled_is_that_of_a_library_of_any_name(tmp_path: Path) -> None:
    process = Process(id="process:box/1", pid=os.getpid(), host="box")
    assert READ(process, str(tmp_path / "model.wrapper.cpp")) is None
    shutil.copy(CAPTURED / "throw" / "model.wrapper.cpp", tmp_path)
    found = READ(process, str(tmp_path / "model.wrapper.cpp"))
    assert found is not None and len(found.code.calls) == 5
    assert READ(process, "model.wrapper.cpp") is None


@pytest.mark.invariant("aoti_rules.K1")
async def test_a_long_kernel_is_no_stall() -> None:
    world = world_of()
    seen(world, OPERATOR)
    await watched(world, lambda: seen(world, OPERATOR), lambda: seen(world, OPERATOR), lambda: None)
    world = world_of()
    seen(world, OPERATOR)
    await watched(world, once=True)
    finding = world.found("aoti-kernel")
    assert finding.state is None
    assert world.diagnosis().verdict.state not in (VerdictState.STALLED, VerdictState.DEADLOCK)


@pytest.mark.invariant("aoti_adapter.P2")
async def test_a_model_that_runs_through_its_calls_is_no_task() -> None:
    world = world_of()
    seen(world, OPERATOR)
    await watched(world, lambda: seen(world, FUSED), lambda: seen(world, OPERATOR), lambda: seen(world, FUSED))
    assert not world.snapshot().tasks


async def test_a_call_that_is_seen_again_lasts_since_it_was_seen_first() -> None:
    world = world_of()
    seen(world, OPERATOR)
    told: list[str] = []

    def look() -> None:
        seen(world, OPERATOR)

    def ask() -> None:
        told.append(world.found("aoti-kernel").sentence)
        seen(world, FUSED)

    await watched(world, look, look, ask, lambda: None)
    assert told[0].startswith("Thread 1 (python) is in guide::throws, call 3 of 5 of an AOTInductor model, at every ")
    assert set(states(world).values()) == {TaskState.COMPLETED}, "the call has returned"
    assert not world.snapshot().edges


@pytest.mark.invariant("aoti_adapter.P1")
async def test_nothing_is_read_of_a_program_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(models, "_libraries", lambda _process: set())
    monkeypatch.setattr(models, "_read", lambda _process, name: read.append(name))
    world = world_of()
    await watched(world, once=True)
    await watched(world, lambda: None)
    assert not read and not world.snapshot().tasks
    assert ModelsAdapter.level is Level.OBSERVE
