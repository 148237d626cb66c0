"""What can't be seen is part of the verdict, and healthy programs of which a part can't be seen stay healthy."""

from __future__ import annotations

import msgspec
import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.verdict import exit_code
from livedbg.model import SOURCE_FAILED, Process, SourceHealth, SourceStatus
from livedbg.model import events as ev
from tests.analysis.world import World, two_locks


def named(world: World, pid: int = 1) -> World:
    process: Process = world.snapshot().processes[f"process:box/{pid}"]
    world.store.apply(ev.ProcessSeen(process=msgspec.structs.replace(process, named=True), **world.stamp()))
    return world


def busy() -> World:
    """Its main thread uses CPU time."""
    world = World()
    world.process(1)
    world.thread(1, cpu_ns=10)
    world.later()
    world.thread(1, cpu_ns=100_000_000)
    return named(world.later())


def status(world: World, code: str, health: SourceHealth, source: str = "proc", target: str = "process:box/1") -> World:
    said = SourceStatus(
        source=source, target=target, health=health, code=code, sentence=f"It is {code}.", remedy="sudo livedbg"
    )
    world.store.apply(ev.StatusSeen(status=said, **world.stamp()))
    return world


def answer(world: World) -> tuple[VerdictState, int]:
    made = world.diagnosis()
    return made.verdict.state, exit_code(made.verdict, made.findings.values())


@pytest.mark.invariant("sight.S1", "verdict.V1")
def test_S1_V1_no_permission_and_a_failed_source_are_unknown_and_code_3() -> None:
    assert answer(busy()) == (VerdictState.RUNNING, 0)
    denied = status(busy(), "other-user", SourceHealth.DEGRADED)
    assert answer(denied) == (VerdictState.UNKNOWN, 3)
    assert denied.diagnosis().verdict.sentence == "It is other-user."
    assert answer(status(busy(), SOURCE_FAILED, SourceHealth.FAILED, target="")) == (VerdictState.UNKNOWN, 3)
    assert answer(World().later()) == (VerdictState.UNKNOWN, 5)


def test_what_is_seen_all_the_same_stays_the_verdict() -> None:
    """A tool that is missing, another process that is hidden, a proved deadlock, an end that was seen."""
    assert answer(status(busy(), "gdb-missing", SourceHealth.FAILED, "native", "")) == (VerdictState.RUNNING, 0)
    assert (
        answer(status(busy(), "other-user", SourceHealth.DEGRADED, target="process:box/7"))[0] is VerdictState.RUNNING
    )
    assert answer(status(two_locks(), SOURCE_FAILED, SourceHealth.FAILED, "logs", "")) == (VerdictState.DEADLOCK, 10)
    over = status(busy(), "other-user", SourceHealth.DEGRADED)
    over.exits("process:box/1", 0)
    assert answer(over) == (VerdictState.EXITED, 0)


@pytest.mark.invariant("sight.S2")
def test_S2_one_reason_is_said_once() -> None:
    world = status(busy(), "other-user", SourceHealth.DEGRADED)
    said = SourceStatus(
        source="python",
        target="process:box/1",
        health=SourceHealth.FAILED,
        code="no-permission",
        sentence="It is other-user.",
    )
    world.store.apply(ev.StatusSeen(status=said, **world.stamp()))
    assert [f.rule for f in world.diagnosis().findings.values()].count("cant-see") == 1
