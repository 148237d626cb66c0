"""Every recorded run gives what is known to be true of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.model import EdgeKind, EdgeState, TaskState
from livedbg.model.snapshot import CounterKey
from tests.adapters.ascend.replay import findings, replay_folder

T = "task:ascend/"
ORCHESTRATOR = T + "orchestrator"


@pytest.mark.parametrize(
    ("folder", "root", "core", "kernel"),
    [
        ("02_hang_kernel/live_gdb", "r1t2", 8, "MUL"),
        ("02_hang_kernel/sym", "r1t2", 12, "func 2"),
        ("02_hang_kernel/timeout_debug", "r1t2", 8, "MUL"),
        ("02_hang_kernel/timeout_info", "r1t2", 10, "MUL"),
        ("02_hang_kernel/timeout_v0", "r1t2", 8, None),
        ("05_hang_ring_full", "r1t0", 8, "MUL"),
        ("06_hang_tensor_wait/timeout_debug", "r0t0", 8, "MUL"),
        ("06_hang_tensor_wait/live_gdb", "r0t0", 10, "func 2"),
        ("12_june2026_v0_era/hang_debug", "r1t2", 10, "func 2"),
        ("12_june2026_v0_era/hang_v0", "r1t2", 8, "func 2"),
    ],
)
@pytest.mark.parametrize("files_first", [False, True])
def test_hangs(*, recorded: Path, folder: str, root: str, core: int, kernel: str | None, files_first: bool) -> None:
    snapshot = replay_folder(recorded / folder, files_first=files_first)
    found = findings(snapshot)
    assert set(found) == {"ascend-stall"}
    stall = found["ascend-stall"]
    assert stall.entities[0] == T + root
    assert f"core:ascend/{core}" in stall.entities
    assert stall.evidence
    task = snapshot.tasks[T + root]
    assert (task.state, task.where, task.kernel) == (TaskState.RUNNING, (f"core:ascend/{core}",), kernel)
    others = {t.name for t in snapshot.tasks.values() if t.name != root and t.state is TaskState.RUNNING}
    assert others <= {"orchestrator", "r1t0"}  # r1t0: only where no dump says that it is done
    assert root in stall.sentence and f"core {core}" in stall.sentence


@pytest.mark.parametrize("folder", ["timeout_debug", "timeout_info", "live_gdb", "sym"])
def test_what_waits_behind_the_hung_kernel(recorded: Path, folder: str) -> None:
    snapshot = replay_folder(recorded / "02_hang_kernel" / folder)
    edge = snapshot.edges[EdgeKind.DEPENDS_ON, T + "r1t3", T + "r1t2"]
    assert edge.state is EdgeState.PENDING
    assert "1 task waits behind it, 1 directly" in findings(snapshot)["ascend-stall"].sentence


def test_counts_of_the_hung_kernel(recorded: Path) -> None:
    snapshot = replay_folder(recorded / "02_hang_kernel/timeout_debug")
    counter = snapshot.counters[CounterKey("run:ascend/main", "completed")]
    assert (counter.value, counter.total) == (3, 5)
    assert snapshot.tasks[T + "r1t3"].fanin_left == 1
    assert snapshot.diagnostics["ascend/timeout-exit"].facts.sub_class == "S1:running-stalled"
    assert snapshot.resources["core:ascend/8"].attributes["type"] == "AIV0"
    assert snapshot.resources["core:ascend/9"].attributes["type"] == "AIV1"


def test_ring_full_is_the_symptom(recorded: Path) -> None:
    snapshot = replay_folder(recorded / "05_hang_ring_full")
    stall = findings(snapshot)["ascend-stall"]
    assert set(stall.entities) == {T + "r1t0", "core:ascend/8", ORCHESTRATOR, "ring:ascend/1"}
    assert "symptom" in stall.sentence
    assert (EdgeKind.WAITS_FOR, ORCHESTRATOR, "ring:ascend/1") in snapshot.edges
    assert (EdgeKind.HOLDS, T + "r1t0", "ring:ascend/1") in snapshot.edges
    done = [t for t in snapshot.tasks.values() if t.state is TaskState.COMPLETED]
    assert len(done) == 14
    assert all(t.facts.inferred for t in done)


@pytest.mark.parametrize("folder", ["timeout_debug", "live_gdb"])
def test_orchestrator_waits_for_a_tensor(recorded: Path, folder: str) -> None:
    snapshot = replay_folder(recorded / "06_hang_tensor_wait" / folder)
    assert ORCHESTRATOR in findings(snapshot)["ascend-stall"].entities
    assert snapshot.edges[EdgeKind.WAITS_FOR, ORCHESTRATOR, T + "r0t0"].inferred is (folder == "live_gdb")


def test_crash(recorded: Path) -> None:
    found = findings(replay_folder(recorded / "07_crash_throw"))
    assert set(found) == {"ascend-crash"}
    assert "std::runtime_error: orchestration: bad tile shape 0x128" in found["ascend-crash"].sentence


def test_explicit_fatal(recorded: Path) -> None:
    found = findings(replay_folder(recorded / "08_fatal_explicit"))
    assert set(found) == {"ascend-run-failed"}
    failed = found["ascend-run-failed"]
    assert "EXPLICIT_ORCH_FATAL" in failed.sentence
    assert "user check failed: SIZE=256" in failed.sentence
    assert failed.entities == (ORCHESTRATOR,)


@pytest.mark.parametrize(
    ("folder", "tasks", "edges"),
    [
        ("01_healthy_trb", 5, 6),
        ("01_healthy_hbg", 5, 6),
        ("09_dep_good", 2, 1),
        ("12_june2026_v0_era/healthy_debug", 5, 6),
    ],
)
@pytest.mark.parametrize("files_first", [False, True])
def test_healthy(*, recorded: Path, folder: str, tasks: int, edges: int, files_first: bool) -> None:
    snapshot = replay_folder(recorded / folder, files_first=files_first)
    assert set(findings(snapshot)) == {"ascend-run-complete"}
    assert len(snapshot.tasks) - (ORCHESTRATOR in snapshot.tasks) == tasks
    assert {t.state for t in snapshot.tasks.values()} == {TaskState.COMPLETED}
    declared = [e for e in snapshot.edges.values() if e.kind is EdgeKind.DEPENDS_ON]
    assert len(declared) == edges
    assert {e.state for e in snapshot.edges.values()} == {EdgeState.SATISFIED}


def test_lost_dependency(recorded: Path) -> None:
    snapshot = replay_folder(recorded / "09_dep_lost")
    found = findings(snapshot)
    assert set(found) == {"ascend-missing-edge", "ascend-run-complete"}
    assert set(found["ascend-missing-edge"].entities) == {T + "r0t0", T + "r0t1"}
    assert snapshot.edges[EdgeKind.DEPENDS_ON, T + "r0t1", T + "r0t0"].state is EdgeState.MISSING


def test_graph_alone_shows_the_lost_dependency(recorded: Path) -> None:
    snapshot = replay_folder(recorded / "09_dep_lost" / "dfx")
    assert set(findings(snapshot)) == {"ascend-missing-edge"}
    assert not findings(replay_folder(recorded / "09_dep_good" / "dfx"))


def test_several_runs_in_one_folder_stay_apart(recorded: Path) -> None:
    snapshot = replay_folder(recorded / "12_june2026_v0_era")
    assert snapshot.tasks[T + "r1t2"].state is TaskState.RUNNING
    assert snapshot.tasks[T + "hang_v0/r1t2"].where == ("core:ascend/hang_v0/8",)
    assert snapshot.tasks[T + "healthy_debug/r1t2"].state is TaskState.COMPLETED
