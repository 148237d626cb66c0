"""Agents that wait for other nodes: states built by hand."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.analysis import VerdictState
from livedbg.model import Frame, Stack
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

TORCH = "/venv/lib/python3.11/site-packages/torch/distributed/elastic"
WAITS = f"{TORCH}/rendezvous/dynamic_rendezvous.py"


def agent(*files: str, age_s: int = 30, child: bool = False) -> World:
    """Process 5, whose main thread polls in functions of some files."""
    world = World()
    world.process(5)
    process = world.snapshot().processes["process:box/5"]
    command = ("python", "torchrun", "--nnodes=2", "--rdzv_endpoint", "10.0.0.1:29500", "train.py")
    began = structs.replace(process, command=command, start_wall_ns=world.stamp()["wall_ns"], target=True)
    world.store.apply(ev.ProcessSeen(process=began, **world.stamp()))
    for times in range(4):
        world.now_ns += age_s * SECOND // 4
        world.thread(5, pid=5, waits_in="sleep 1 s", timed=True, cpu_ns=times * SECOND // 50, switches=times)
    frames = tuple(Frame(function="run", file=file, line=7, language="python") for file in files)
    stack = Stack(thread="thread:box/5/5", layer="python", frames=frames, taken_mono_ns=world.now_ns, source="no stop")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    if child:
        world.process(10, ppid=5)
    world.store.apply(ev.Tick(**world.stamp()))
    return world


def test_an_agent_that_polls_for_other_nodes_is_no_running_job() -> None:
    world = agent(WAITS, f"{TORCH}/agent/server/api.py")
    one = world.found("rendezvous-wait")
    assert one.sentence == (
        "Process 5 (python) waits in torchrun's rendezvous for other nodes to join (--nnodes 2, --rdzv-endpoint "
        "10.0.0.1:29500); it has started no worker."
    )
    assert world.diagnosis().verdict.state is VerdictState.UNKNOWN


@pytest.mark.parametrize(
    "world",
    [
        agent(WAITS, age_s=4),
        agent(WAITS, child=True),
        agent(f"{TORCH}/agent/server/api.py"),
        agent(),
    ],
)
def test_one_that_has_just_begun_or_has_workers_is_not_told(world: World) -> None:
    assert world.finding("rendezvous-wait") is None
