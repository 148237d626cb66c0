"""A large graph that hangs before its deps.json is written: its edges are bounded, and all that wait are counted."""

from __future__ import annotations

from pathlib import Path

from livedbg.adapters.ascend.waits import _MOST_EDGES
from livedbg.analysis import VerdictState
from livedbg.model import EdgeKind
from livedbg.session.rulebook import diagnostician
from tests.adapters.ascend.replay import BEGIN, RING, Replay, dispatched

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
