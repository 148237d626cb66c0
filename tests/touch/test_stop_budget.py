"""How long a stop may last beside a watchdog: a pure function of the state."""

from __future__ import annotations

import pytest

from livedbg.model import Diagnostic, Process, Severity
from livedbg.model.events import DiagnosticSeen, ProcessSeen, Stamp
from livedbg.model.snapshot import Snapshot
from livedbg.state.store import Store
from livedbg.touch.stop_budget import StopBudget, stop_budget

NOW = 1_800_000_000_000_000_000
STAMP: Stamp = {"host": "box", "mono_ns": 1, "wall_ns": NOW}
PARENT, CHILD, OTHER = "process:box/10", "process:box/11", "process:box/12"


def state(*watchdogs: tuple[str, str, int], resolved: bool = False, **more: str) -> Snapshot:
    """Processes 10 and its child 11, another 12, and watchdogs (of whom, limit in s, ns since something went on)."""
    store = Store()
    processes = (
        Process(id=PARENT, host="box", pid=10),
        Process(id=CHILD, host="box", pid=11, ppid=10),
        Process(id=OTHER, host="box", pid=12, ppid=1),
    )
    store.apply_all([ProcessSeen(process=process, **STAMP) for process in processes])
    for number, (process, limit, idle_ns) in enumerate(watchdogs):
        said = Diagnostic(
            id=f"x/{number}",
            system="ascend",
            code="watchdog-armed",
            severity=Severity.DEBUG,
            sentence="s",
            entities=(process,),
            attributes={"limit_s": limit, "since_wall_ns": str(NOW - idle_ns), "watchdog": "the dog", **more},
            resolved=resolved,
        )
        store.apply(DiagnosticSeen(diagnostic=said, **STAMP))
    return store.snapshot()


def budget(snapshot: Snapshot, process: str = PARENT) -> StopBudget:
    found = stop_budget(snapshot, process, NOW)
    assert found is not None
    return found


@pytest.mark.invariant("stop_budget.W1")
def test_what_is_left_of_the_limit_with_a_reserve() -> None:
    found = budget(state((PARENT, "10", 4_000_000_000)))
    assert found.seconds == pytest.approx(5.0)
    assert found.sentence == (
        "A longer stop would end the run: the dog ends the run after 10 s without progress; there was none for 4 s."
    )


def test_nothing_is_left_shortly_before_the_end() -> None:
    assert budget(state((PARENT, "10", 9_600_000_000))).seconds == 0.0


def test_a_short_limit_leaves_a_little() -> None:
    assert 0 < budget(state((PARENT, "0.5", 0))).seconds < 0.5


@pytest.mark.parametrize("idle_ns", [11_000_000_000, -5_000_000_000])
@pytest.mark.invariant("stop_budget.W2")
def test_where_the_log_does_not_tell_half_the_limit_is_left(idle_ns: int) -> None:
    found = budget(state((PARENT, "10", idle_ns)))
    assert found.seconds == pytest.approx(4.0)
    assert "does not show" in found.sentence


def test_the_tightest_of_several_counts() -> None:
    assert budget(state((PARENT, "60", 0), (PARENT, "10", 0))).seconds == pytest.approx(9.0)


def test_parents_and_children_share_a_log() -> None:
    assert budget(state((PARENT, "10", 0)), CHILD).seconds == pytest.approx(9.0)
    assert budget(state((CHILD, "10", 0)), PARENT).seconds == pytest.approx(9.0)


@pytest.mark.invariant("stop_budget.W2")
def test_others_are_free() -> None:
    assert stop_budget(state((PARENT, "10", 0)), OTHER, NOW) is None
    assert stop_budget(state(), PARENT, NOW) is None
    assert stop_budget(state((PARENT, "10", 0), resolved=True), PARENT, NOW) is None


def test_nonsense_is_no_limit() -> None:
    assert stop_budget(state((PARENT, "soon", 0)), PARENT, NOW) is None
    assert stop_budget(state((PARENT, "10", 0), since_wall_ns=""), PARENT, NOW) is None
