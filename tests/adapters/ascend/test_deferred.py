"""A task that is ready and on no core: its kernel has returned, it was never started, or the log can't tell.

The lines are written by the formats of simpler's scheduler_cold_path.cpp and scheduler_dispatch.cpp, of both runtimes.
"""

from __future__ import annotations

import pytest

from tests.adapters.ascend.replay import BEGIN, RING, dispatched, findings, replay_lines, stall, summary, task_line


def stopped(fanin: str, verdict: str = "") -> list[str]:
    """The watchdog's last words: task 1 is ready on no core, task 2 waits."""
    return [
        stall(f"TIMEOUT_EXIT after_idle_iterations=480000{verdict}", level="ERROR", func="handle_timeout_exit"),
        stall(task_line(1, "READY", "1/1", aiv0=1, name=fanin)),
        stall(task_line(2, "WAIT", "1/2", aiv0=1, tail=" missing_deps=1", name=fanin)),
        stall(summary("1/3", 1, 1, 0)),
        stall("CLUSTER cluster_id=0 aic=core0(idle) aiv0=core8(idle) aiv1=core9(idle)"),
    ]


COUNTS = "completed=1/3 running=0 ready=1 waiting=1"
S3 = f" sub_class=S3:ready-but-all-idle {COUNTS} orch_done=1 stuck_task_id=-1 stuck_core=-1"


@pytest.mark.parametrize("printed", [("fanin_refcount", S3), ("fanin_met", "")], ids=["ringbuffer", "graph"])
@pytest.mark.parametrize(
    ("shown", "words", "step"),
    [
        (
            [0, 1],
            "The kernel of task r0t1 (func 1) has returned, but its deferred",
            "signal the asynchronous completion",
        ),
        ([0], "the scheduler has not dispatched it", "require_sync_start"),
        ([], "Either its kernel has returned and its asynchronous completion", "signal the asynchronous completion"),
    ],
    ids=["deferred", "held back", "not told"],
)
def test_ready_and_on_no_core(printed: tuple[str, str], shown: list[int], words: str, step: str) -> None:
    fanin, verdict = printed
    lines = [BEGIN, RING[3], *(dispatched(task, 8 + task, f"-1,{task},-1") for task in shown), *stopped(fanin, verdict)]
    finding = findings(replay_lines(lines))["ascend-stall"]
    assert finding.roots == ("task:ascend/r0t1",)
    assert words in finding.sentence, finding.sentence
    assert any(step in said for said in finding.next), finding.next
    by = "" if verdict else " by its counts"
    assert f"S3:ready-but-all-idle{by})" in finding.sentence


def test_a_log_that_begins_later_tells_nothing_of_dispatches_before() -> None:
    finding = findings(replay_lines([dispatched(0, 8, "-1,0,-1"), *stopped("fanin_met")]))["ascend-stall"]
    assert "Either its kernel has returned" in finding.sentence


def test_the_class_of_a_log_that_prints_none_follows_from_its_counts() -> None:
    running = [
        line.replace("scan_running=0", "scan_running=1").replace("state=READY  ", "state=RUNNING")
        for line in stopped("fanin_met")
    ]
    finding = findings(replay_lines([BEGIN, RING[3], *running]))["ascend-stall"]
    assert "S1:running-stalled by its counts" in finding.sentence
