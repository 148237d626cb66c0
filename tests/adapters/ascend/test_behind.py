"""Tasks that wait behind a stuck one, without a graph: nobody draws them as direct waiters, and all are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.adapters.ascend.waits import _MOST_EDGES
from livedbg.analysis import VerdictState
from livedbg.graphs.ashtml import to_html
from livedbg.graphs.drawing import to_dot, to_text
from livedbg.graphs.fromdeclared import drawing_of_state
from livedbg.model import EdgeKind
from livedbg.model.snapshot import Snapshot
from livedbg.report.build import report_of
from livedbg.report.text import wait_tree
from livedbg.session.rulebook import diagnose, diagnostician
from tests.adapters.ascend.replay import (
    BEGIN,
    RING,
    Replay,
    dispatched,
    replay_folder,
    replay_lines,
    stall,
    summary,
    task_line,
)

LINES = [
    BEGIN,
    stall(task_line(1 << 32, "RUNNING", "3/3", aiv0=0, tail=" running_on=[owner_thread=0 cores=[core=8(aiv0)]]")),
    stall(task_line((1 << 32) + 1, "WAIT", "2/3", aiv0=1, tail=" missing_deps=1")),
    stall(task_line((1 << 32) + 2, "WAIT", "2/3", aiv0=2, tail=" missing_deps=1")),
    stall(summary("1/4", 0, 2, 1)),
]


PERHAPS = "(perhaps not directly)"


def notes(snapshot: Snapshot) -> list[str]:
    return [row.note for row in wait_tree(report_of(snapshot, diagnose(snapshot))) if row.depth]


def test_without_a_graph_one_that_may_wait_for_another_one_says_so() -> None:
    snapshot = replay_lines(LINES)
    assert notes(snapshot) == ["", PERHAPS]  # the first can wait for nothing else, the second also for the first
    drawing = drawing_of_state(snapshot, "run")
    assert to_text(drawing, 50).count("after r1t0 (perhaps not directly)") == 1
    assert to_dot(drawing).count("style=dotted") == 1
    assert to_html(drawing).count('class="perhaps') == 1


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([*LINES[:3], LINES[3].replace("deps=1", "deps=2"), LINES[4]], ["", ""]),
        ([*LINES[:4], LINES[4].replace("scan_waiting=2", "scan_waiting=3")], [PERHAPS] * 2),  # one is not listed
        ([*LINES[:3], LINES[3].replace(str((1 << 32) + 2), "5"), LINES[4]], [PERHAPS] * 2),  # of another ring: earlier?
        ([*LINES, dispatched((1 << 32) + 3, 9)], []),  # it went on
    ],
    ids=["as many as are open", "more are open", "two rings", "a dispatch since"],
)
def test_who_lacks_as_many_as_are_open_before_it_waits_for_all_of_them(lines: list[str], says: list[str]) -> None:
    assert sorted(notes(replay_lines(lines)))[:2] == says


def test_the_only_one_that_lacks_one_dependency_waits_directly() -> None:
    snapshot = replay_lines([*LINES[:3], LINES[4].replace("scan_waiting=2", "scan_waiting=1")])
    assert notes(snapshot) == [""]
    assert "perhaps" not in to_text(drawing_of_state(snapshot, "run"), 50)


def test_edges_that_a_graph_declares_are_direct(recorded: Path) -> None:
    drawing = drawing_of_state(replay_folder(recorded / "01_healthy_trb"), "run")
    assert drawing.arrows and "perhaps" not in to_text(drawing, 50)


TASKS, CORES = 20_000, 72


def test_many_that_wait_for_one_of_many() -> None:
    lines = [BEGIN, RING[1].replace("total_tasks=1", f"total_tasks={TASKS}")]
    lines += [dispatched(core, core, f"-1,{core % 3},-1") for core in range(CORES)] + [""]
    replay = Replay()
    source = replay.open(Path("/run/err.txt"))
    replay.feed(source, "\n".join(lines).encode())
    replay.model.job(source).last_wall_ns = 1  # long ago
    snapshot = replay.flush()
    waits = [edge for edge in snapshot.edges.values() if edge.kind is EdgeKind.DEPENDS_ON]
    assert TASKS - CORES <= len(waits) <= _MOST_EDGES + TASKS
    assert {edge.source for edge in waits} == {f"task:ascend/r0t{number}" for number in range(CORES, TASKS)}
    assert {edge.target for edge in waits} == {f"task:ascend/r0t{number}" for number in range(CORES)}
    verdict = diagnostician().diagnose(snapshot).verdict
    assert verdict.state is VerdictState.UNKNOWN and "hung, or died" in verdict.sentence  # a log without a process
    assert f"{TASKS - CORES} tasks wait behind them" in verdict.sentence.replace(",", "")
