"""Processes whose file descriptors are used up: states built by hand."""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from livedbg.model import EdgeKind, ThreadState
from livedbg.model.facts import DescriptorFacts
from tests.analysis.world import World


def full(state: ThreadState) -> World:
    world = World()
    process = world.process(1)
    world.thread(1, pid=1, state=state, cpu_ns=10**9 if state is ThreadState.RUNNING else 0)
    files = world.resource("descriptors:box/1", "used up", facts=DescriptorFacts(limit=1024))
    world.edge(EdgeKind.PART_OF, files, process)
    return world


@pytest.mark.invariant("rules_descriptors.D1")
def test_D1_it_is_told_and_decides_nothing() -> None:
    world = full(ThreadState.RUNNING)
    one = world.found("descriptors-used-up")
    assert one.state is None and not one.decides
    assert one.sentence == "Process 1 (prog1) has all 1024 files open that it may: opening another one fails (EMFILE)."
    assert one.next[1] == "prlimit --pid 1 --nofile=2048:   raises the limit of the running process"
    assert world.diagnosis().verdict.state is VerdictState.RUNNING
    world.exits("process:box/1")
    assert world.finding("descriptors-used-up") is None


def test_it_is_told_of_the_process_whose_they_are() -> None:
    world = full(ThreadState.WAITING)
    world.process(2)
    world.thread(2, pid=2)
    (one,) = [one for one in world.diagnosis().findings.values() if one.rule == "descriptors-used-up"]
    assert one.entities == ("process:box/1", "descriptors:box/1")
