"""A large graph that hangs before its deps.json is written: its edges are bounded, and all that wait are counted."""

from __future__ import annotations

from pathlib import Path

from livedbg.adapters.ascend.waits import _MOST_EDGES
from livedbg.analysis import VerdictState
from livedbg.model import EdgeKind
from livedbg.session.rulebook import diagnostician
from tests.adapters.ascend.replay import Replay

TASKS, CORES = 20_000, 72
DISPATCHED = (
    "[DEBUG] prepare_subtask_to_core: [scheduler_dispatch.cpp:205] Thread 0: Dispatched idle aiv0 task {} "
    "kernel_id=[-1,{},-1] block_idx=0/total_blocks=1 to core_offset=1 core_id={} reg_task_id=3\n"
)


def test_many_that_wait_for_one_of_many() -> None:
    lines = ["[INFO] init: [x.cpp:1] AicpuExecutor: Initializing\n"]
    lines.append(f"[DEBUG] mark_done: [pto_orchestrator.cpp:7] === [Orchestrator] ring 0: total_tasks={TASKS} ===\n")
    lines += [DISPATCHED.format(core, core % 3, core) for core in range(CORES)]
    replay = Replay()
    source = replay.open(Path("/run/err.txt"))
    replay.feed(source, "".join(lines).encode())
    replay.model.job(source).last_wall_ns = 1  # long ago
    snapshot = replay.flush()
    waits = [edge for edge in snapshot.edges.values() if edge.kind is EdgeKind.DEPENDS_ON]
    assert TASKS - CORES <= len(waits) <= _MOST_EDGES + TASKS
    assert {edge.source for edge in waits} == {f"task:ascend/r0t{number}" for number in range(CORES, TASKS)}
    assert {edge.target for edge in waits} == {f"task:ascend/r0t{number}" for number in range(CORES)}
    verdict = diagnostician().diagnose(snapshot).verdict
    assert verdict.state is VerdictState.UNKNOWN and "hung, or died" in verdict.sentence  # a log without a process
    assert f"{TASKS - CORES} tasks wait behind them" in verdict.sentence.replace(",", "")
