"""More recorded runs of the simulator: too slow, thrown, too big, at the default log level.

Folders 20 to 27, August 2026: 20 is a kernel of 3 s under SIMPLER_SCHEDULER_TIMEOUT_MS=1500; 21, 22, 23 and 27 are
host_build_graph, whose orchestration code throws, calls rt_report_fatal(), submits 65 tasks into 16 slots, and does not
return; 24 is a kernel that writes to address 0xdead0000; 25 is a cycle through a flag in memory; 26 hangs at the
default log level; 28 registers an asynchronous completion that nobody signals.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.recipes.model import chosen, recipes
from livedbg.session.rulebook import diagnose
from tests.adapters.ascend.replay import Replay, findings, replay_folder
from tests.adapters.ascend.sessions import report

T = "task:ascend/"


@pytest.mark.parametrize(
    ("folder", "state", "roots", "words"),
    [
        ("20_slow_cut", "crashed", ["r1t2"], ["r1t2 (MUL", "core 8", "has returned since", "3.4 s (at most: so long"]),
        ("21_throw_hbg", "crashed", None, ["code -1 while it was prepared", "host_build_graph", "without a message"]),
        ("22_fatal_hbg", "crashed", None, ["EXPLICIT_ORCH_FATAL", "user check failed: SIZE=16384"]),
        ("23_ring_full_hbg", "crashed", None, ["needs more task slots than there are", "Task Window Exhausted"]),
        ("24_segv_hbg", "crashed", ["r0t3"], ["SIGSEGV. Task r0t3 (MUL, func 2) was running on core 8 (AIV0)"]),
        ("24_segv_default", "crashed", [], ["SIGSEGV."]),
        ("25_cycle", "stalled", ["r0t0"], ["r0t0 (WAIT_FLAG, func 0)", "core 10", "2 tasks wait behind it", "1 of 4"]),
        (
            "26_hang_hbg_default",
            "stalled",
            [],
            ["watchdog ended the run", "The log does not name the stuck task"],
        ),
        (
            "28_async_hbg",
            "stalled",
            ["r0t0"],
            ["The kernel of task r0t0 (ASYNC, func 2) has returned", "deferred", "1 task waits", "0 of 2 tasks"],
        ),
        (
            "28_async_default",
            "stalled",
            [],
            ["S3:ready-but-all-idle", "0 of 2 tasks are done. The log does not name"],
        ),
        ("28_async_info", "stalled", ["r0t0"], ["Either its kernel has returned and its asynchronous completion was"]),
        (
            "27_orchestration_hbg",
            "unknown",
            ["orchestrator"],
            ["The orchestration code has not returned", "hung, or died"],
        ),
    ],
)
def test_verdicts(recorded: Path, folder: str, state: str, roots: list[str] | None, words: list[str]) -> None:
    verdict = diagnose(replay_folder(recorded / folder)).verdict
    assert verdict.state == state, verdict
    if roots is not None:
        assert verdict.roots == tuple(T + root for root in roots)
    assert all(word in verdict.sentence for word in words), verdict.sentence


def test_a_launcher_whose_output_is_read_first(recorded: Path) -> None:
    """Names of kernels and the error that it printed belong to the log beside it, whichever is read first."""
    replay = Replay()
    for folder, name in (("25_cycle", "out.txt"), ("25_cycle", "err.txt")):
        replay.read(recorded / folder / name)
    assert replay.flush().tasks[T + "r0t0"].kernel == "WAIT_FLAG"


def test_a_run_after_one_that_failed_while_it_was_built(recorded: Path, tmp_path: Path) -> None:
    """The span of the failing step is written after the failure, and begins no run; the next one does."""
    failed = (recorded / "22_fatal_hbg/err.txt").read_text()
    healthy = (recorded / "01_healthy_hbg/err.txt").read_text()
    (tmp_path / "err.txt").write_text(failed + healthy)
    assert set(findings(replay_folder(tmp_path))) == {"ascend-run-complete"}


def test_a_code_of_the_whole_graph_says_what_to_do(recorded: Path) -> None:
    finding = findings(replay_folder(recorded / "23_ring_full_hbg"))["ascend-run-failed"]
    assert finding.next[0] == "raise PTO2_RING_TASK_WINDOW, or cut the graph into several runs"
    assert not [step for step in finding.next if "ring's head" in step]


def test_what_was_thrown_is_to_be_caught(recorded: Path) -> None:
    steps = findings(replay_folder(recorded / "21_throw_hbg"))["ascend-run-failed"].next
    assert steps[0].startswith("livedbg launch --catch std::exception -- COMMAND")
    steps = findings(replay_folder(recorded / "24_segv_hbg"))["ascend-crash"].next
    assert steps[0].startswith("livedbg launch --catch signals -- COMMAND")


def test_recipes_that_the_next_steps_name_can_be_launched(recorded: Path) -> None:
    wanted = set()
    for folder in ("20_slow_cut", "25_cycle", "26_hang_hbg_default", "28_async_default"):
        for finding in findings(replay_folder(recorded / folder)).values():
            wanted.update(re.findall(r"livedbg launch --recipe (\S+) -- COMMAND", " ".join(finding.next)))
    assert {name.partition("=")[0] for name in wanted} == {"ascend-log", "ascend-deps", "ascend-patience"}
    known, _ = recipes()
    for name in wanted:
        recipe, option = chosen(name, known)  # raises where it wants an option, or has none of that name
        assert bool(option) is bool(recipe.options)


@pytest.mark.parametrize(
    ("folder", "rule", "code"), [("20_slow_cut", "ascend-stall", 11), ("26_hang_hbg_default", "ascend-stall", 10)]
)
def test_the_cause_stands_before_the_error_that_passes_it_on(recorded: Path, folder: str, rule: str, code: int) -> None:
    """The RuntimeError that the host raises in the end is no finding of its own."""
    found, said = report(recorded / folder)
    assert found == code
    assert [finding["rule"] for finding in said["findings"]] == [rule]
    assert said["verdict"]["state"] == (VerdictState.CRASHED if code == 11 else VerdictState.STALLED)


@pytest.mark.parametrize(("failed", "shown"), [(True, False), (False, True)])
def test_error_lines_of_the_runtime_belong_to_a_failure_only_where_there_is_one(
    recorded: Path, tmp_path: Path, failed: bool, shown: bool
) -> None:
    """A line that no shape describes is what a runtime says while it ends, or else an error that nobody understands."""
    lines = (recorded / "26_hang_hbg_default/err.txt").read_text().splitlines(keepends=True)
    kept = lines if failed else lines[:2]
    (tmp_path / "err.txt").write_text(
        "".join(kept) + "[ERROR] run: [aicpu_executor.cpp:370] Thread 0: tile map is odd\n"
    )
    _, said = report(tmp_path)
    assert ("error-lines" in {finding["rule"] for finding in said["findings"]}) is shown
    assert said["verdict"]["state"] == (VerdictState.STALLED if failed else VerdictState.UNKNOWN)


def test_an_error_line_that_the_runtime_goes_on_after_leaves_a_completed_run_complete(
    recorded: Path, tmp_path: Path
) -> None:
    """Orchestration code without the optional symbol for its configuration: so in simpler's multi-chip example."""
    log = (recorded / "01_healthy_trb/err.txt").read_text().splitlines(keepends=True)
    line = (
        "[ERROR] load_orch_so: [aicpu_executor.cpp:464] Thread 0: dlsym failed for config symbol "
        "'aicpu_orchestration_config': /usr/lib64/libdevice_orch_cid0_dev0_yoc2iY.so: undefined symbol\n"
    )
    (tmp_path / "err.txt").write_text("".join((*log[:1], line, *log[1:])))
    code, said = report(tmp_path)
    assert (code, said["verdict"]["state"]) == (0, VerdictState.EXITED)
