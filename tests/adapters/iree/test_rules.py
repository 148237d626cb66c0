"""What is said of operations and dispatches in flight: states that are made up."""

from __future__ import annotations

import pytest

from livedbg.adapters.iree.facts import DispatchFacts
from livedbg.analysis import VerdictState
from livedbg.model import Task, TaskState
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World


def _runs(world: World, name: str, age_ns: int, **facts: str) -> World:
    """A task of the process that has been seen to run for a while."""
    task = Task(
        id=f"task:iree/{name}#0",
        system="iree",
        name=f"{name}#0",
        kernel=None,
        state=TaskState.RUNNING,
        since_mono_ns=world.now_ns - age_ns,
        owner="process:box/1",
        facts=DispatchFacts(**facts),
    )
    world.store.apply(ev.TasksSeen(tasks=(task,), **world.stamp()))
    return world


def _submission(age_ns: int) -> World:
    world = World()
    world.process(1)
    told = {"operation": "execute", "device": "vulkan", "one_of": "first, second"}
    return _runs(world, "execute", age_ns, **told)


def test_a_submission_of_which_the_dispatch_is_not_known_has_all_of_them_in_order() -> None:
    found = _submission(20 * SECOND).found("iree-submission")
    assert "In this order it has: first, second" in found.sentence
    assert found.state is VerdictState.UNKNOWN and found.decides and found.roots == ("task:iree/execute#0",)
    fresh = _submission(SECOND).found("iree-submission")
    assert not fresh.decides and fresh.roots == ()
    assert _submission(SECOND // 10).finding("iree-submission") is None


@pytest.mark.parametrize(("device", "told"), [("vulkan", False), ("local-task", True)])
def test_where_a_dispatch_of_the_same_device_is_named_the_list_is_left_out(device: str, told: bool) -> None:
    world = _runs(_submission(20 * SECOND), "first", 20 * SECOND, dispatch="first", device=device, by="stacks")
    assert (world.finding("iree-submission") is not None) is told


@pytest.mark.parametrize(("age_s", "state"), [(1, VerdictState.RUNNING), (30, VerdictState.UNKNOWN)])
def test_an_operation_that_went_on_to_another_dispatch_lately_runs(age_s: int, state: VerdictState) -> None:
    world = World()
    world.process(1)
    _runs(world, "second", age_s * SECOND, dispatch="second", device="vulkan", after="first")
    assert world.found("iree-dispatch").state is state
