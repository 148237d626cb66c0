"""What the rules of single systems judge is left to them by the generic rules."""

from __future__ import annotations

from livedbg.analysis import Diagnosis, Diagnostician
from livedbg.analysis.rules import Judged
from livedbg.model import EdgeKind, ExceptionHit, TaskState
from livedbg.model.snapshot import Snapshot
from livedbg.session.rulebook import all_rules, judged
from tests.analysis.world import SECOND, World


def diagnosis(world: World, by: Judged) -> Diagnosis:
    return Diagnostician(all_rules(), judged=by).diagnose(world.snapshot())


def rules_of(world: World, by: Judged) -> set[str]:
    return {finding.rule for finding in diagnosis(world, by).findings.values()}


def stalled_task() -> World:
    world = World()
    slow = world.task("t1", TaskState.RUNNING, world.now_ns, system="toy")
    world.edge(EdgeKind.DEPENDS_ON, world.task("t2", TaskState.SUBMITTED, 0, system="toy"), slow)
    return world.later(11 * SECOND)


def test_a_stalled_task_is_left_to_a_system_that_judges_its_tasks() -> None:
    assert "task-stalled" in rules_of(stalled_task(), Judged(tasks=frozenset({"other"})))
    assert "task-stalled" not in rules_of(stalled_task(), Judged(tasks=frozenset({"toy"})))


def test_an_exception_is_left_to_the_system_that_explains_it() -> None:
    def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
        return "boom" in hit.message and snapshot.revision > 0

    world = World()
    world.exception("terminate")
    assert "crash" in rules_of(world, Judged())
    assert "crash" in rules_of(world, Judged(explains=(lambda hit, snapshot: False,)))
    assert "crash" not in rules_of(world, Judged(explains=(lambda hit, snapshot: False, explains)))


def test_the_systems_declare_what_they_judge() -> None:
    known = judged()
    assert {"ascend", "nvfuser"} <= known.tasks
    assert len(known.explains) >= 2
