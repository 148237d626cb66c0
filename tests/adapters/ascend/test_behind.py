"""Tasks that wait behind a stuck one, without a graph: nobody draws them as its direct waiters."""

from __future__ import annotations

from pathlib import Path

from livedbg.graphs.ashtml import to_html
from livedbg.graphs.drawing import to_dot, to_text
from livedbg.graphs.fromdeclared import drawing_of_state
from livedbg.model.snapshot import Snapshot
from livedbg.report.build import report_of
from livedbg.report.text import wait_tree
from livedbg.session.rulebook import diagnose
from tests.adapters.ascend.replay import replay_folder, replay_lines

STALL = "[ERROR] log_stall_diagnostics: [scheduler_cold_path.cpp:274] [STALL thread=0 idle_iterations=10091] "
TASK = STALL + "TASK ring=1 task_id={} state={} fanin_refcount={}/3 kernels=[aic:-1 aiv0:{} aiv1:-1]{}"
LINES = [
    "[INFO] init: [aicpu_executor.cpp:300] AicpuExecutor: Initializing",
    TASK.format(1 << 32, "RUNNING", 3, 0, " running_on=[owner_thread=0 cores=[core=8(aiv0)]]"),
    TASK.format((1 << 32) + 1, "WAIT   ", 2, 1, " missing_deps=1"),
    TASK.format((1 << 32) + 2, "WAIT   ", 2, 2, " missing_deps=1"),
    STALL + "SUMMARY completed=1/4 last_progress_iteration=9 scan_ready=0 scan_waiting=2 scan_running=1",
]


def notes(snapshot: Snapshot) -> list[str]:
    return [row.note for row in wait_tree(report_of(snapshot, diagnose(snapshot))) if row.depth]


def test_without_a_graph_each_says_that_it_may_wait_for_another_one() -> None:
    snapshot = replay_lines(LINES)
    assert notes(snapshot) == ["(perhaps not directly)"] * 2
    drawing = drawing_of_state(snapshot, "run")
    assert to_text(drawing, 50).count("after r1t0 (perhaps not directly)") == 2
    assert to_dot(drawing).count("style=dotted") == 2
    assert to_html(drawing).count('class="perhaps') == 2


def test_the_only_one_that_lacks_one_dependency_waits_directly() -> None:
    snapshot = replay_lines([*LINES[:3], LINES[4].replace("scan_waiting=2", "scan_waiting=1")])
    assert notes(snapshot) == [""]
    assert "perhaps" not in to_text(drawing_of_state(snapshot, "run"), 50)


def test_edges_that_a_graph_declares_are_direct(recorded: Path) -> None:
    drawing = drawing_of_state(replay_folder(recorded / "01_healthy_trb"), "run")
    assert drawing.arrows and "perhaps" not in to_text(drawing, 50)
