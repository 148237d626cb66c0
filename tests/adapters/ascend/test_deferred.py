"""A task that is ready and on no core: its kernel has returned, it was never started, or the log can't tell.

The lines are written by the formats of simpler's scheduler_cold_path.cpp and scheduler_dispatch.cpp, of both runtimes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ascend_replay import replay_lines

from livedbg.analysis.diagnosis import Finding
from livedbg.model.snapshot import Snapshot

Find = Callable[[Snapshot], dict[str, Finding]]

BEGUN = "[INFO] init: [aicpu_executor.cpp:241] AicpuExecutor: Initializing"
SUBMITTED = "[DEBUG] mark_done: [pto_orchestrator.cpp:1369] === [Orchestrator] ring 0: total_tasks=3 ==="
STALL = "[INFO] log_stall_diagnostics: [scheduler_cold_path.cpp:294] [STALL thread=0 idle_iterations=90000] "


def dispatched(task: int, core: int) -> str:
    return (
        f"[DEBUG] prepare_subtask_to_core: [scheduler_dispatch.cpp:205] Thread 0: Dispatched idle aiv0 task {task} "
        f"kernel_id=[-1,{task},-1] block_idx=0/total_blocks=1 to core_offset=1 core_id={core} reg_task_id=1"
    )


def stopped(fanin: str, verdict: str = "") -> list[str]:
    """The watchdog's last words: task 1 is ready on no core, task 2 waits."""
    kernels = "kernels=[aic:-1 aiv0:1 aiv1:-1]"
    return [
        f"[ERROR] handle_timeout_exit: [s.cpp:1] [STALL thread=0 idle_iterations=90000] TIMEOUT_EXIT "
        f"after_idle_iterations=90000{verdict}",
        f"{STALL}TASK ring=0 task_id=1 state=READY   {fanin}=1/1 {kernels}",
        f"{STALL}TASK ring=0 task_id=2 state=WAIT    {fanin}=1/2 {kernels} missing_deps=1",
        f"{STALL}SUMMARY completed=1/3 last_progress_iteration=1 scan_ready=1 scan_waiting=1 scan_running=0",
        f"{STALL}CLUSTER cluster_id=0 aic=core0(idle) aiv0=core8(idle) aiv1=core9(idle)",
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
def test_ready_and_on_no_core(
    findings: Find, printed: tuple[str, str], shown: list[int], words: str, step: str
) -> None:
    fanin, verdict = printed
    lines = [BEGUN, SUBMITTED, *(dispatched(task, 8 + task) for task in shown), *stopped(fanin, verdict)]
    finding = findings(replay_lines(lines))["ascend-stall"]
    assert finding.roots == ("task:ascend/r0t1",)
    assert words in finding.sentence, finding.sentence
    assert any(step in said for said in finding.next), finding.next
    by = "" if verdict else " by its counts"
    assert f"S3:ready-but-all-idle{by})" in finding.sentence


def test_a_log_that_begins_later_tells_nothing_of_dispatches_before(findings: Find) -> None:
    finding = findings(replay_lines([dispatched(0, 8), *stopped("fanin_met")]))["ascend-stall"]
    assert "Either its kernel has returned" in finding.sentence


def test_the_class_of_a_log_that_prints_none_follows_from_its_counts(findings: Find) -> None:
    running = [
        line.replace("scan_running=0", "scan_running=1").replace("state=READY  ", "state=RUNNING")
        for line in stopped("fanin_met")
    ]
    finding = findings(replay_lines([BEGUN, SUBMITTED, *running]))["ascend-stall"]
    assert "S1:running-stalled by its counts" in finding.sentence
