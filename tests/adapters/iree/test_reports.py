"""What `livedbg report` says of programs of IREE that hang, wait or compute."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.iree.conftest import FOR, SOURCES, Compile, RunModule, needs_lavapipe
from tests.conftest import Target, gives_way
from tests.reports import STALL_S, at_rest, report_of, report_when, stalled_report_when

pytestmark = pytest.mark.iree

Calls = Callable[[str, str, Path], Target]


def said_of(pid: int, words: str, state: str, rests: bool = False) -> dict[str, Any]:
    """The first report whose verdict has these words, none of which says anything wrong.

    Args:
        pid: the program.
        words: of the sentence.
        state: of the verdict.
        rests: whether its main thread sleeps meanwhile, as it does in a stall.
    """

    def is_said(said: dict[str, Any]) -> bool:
        found = said["verdict"]["state"]
        assert found in {"unknown", "running", state}, said["verdict"]
        return found == state and words in said["verdict"]["sentence"]

    made = stalled_report_when if rests or state == "stalled" else report_when
    said = made(pid, is_said, stall_s=STALL_S)
    assert said["exit"] == {"stalled": 10, "deadlock": 10, "unknown": 5, "running": 0}[state]
    return said


def tasks(said: dict[str, Any]) -> dict[str, str]:
    return {name: one["state"] for name, one in said["entities"].items() if one["kind"] == "task"}


@pytest.mark.invariant("iree_adapter.R1")
def test_R1_a_dispatch_that_loops_is_named_with_its_line_and_what_waits_behind_it(
    run_module: RunModule, compiled: Compile
) -> None:
    words = ("--input=16x16xf32=1.0", "--input=16x16xf32=0.75", "--input=16x32xf32=0.1")
    target = gives_way(run_module(compiled("gated"), *words, "--task_topology_group_count=2"))
    said = said_of(target.pid, "Dispatch main_dispatch_1", "stalled")
    sentence = said["verdict"]["sentence"]
    assert "(gated.mlir:" in sentence and "on local-task (iree-worker-" in sentence
    assert "2 of its 8 workgroups are begun" in sentence
    [name] = said["verdict"]["roots"]
    assert name.startswith("task:iree/main_dispatch_1_reduction") and tasks(said)[name] == "running"
    [behind] = [one for one in tasks(said) if "main_dispatch_2" in one]
    assert tasks(said)[behind] == "submitted"
    edges = {(edge["from"], edge["to"]) for edge in said["edges"]}
    assert (behind, name) in edges


def test_a_semaphore_that_nobody_signals(calls: Calls, compiled: Compile) -> None:
    target = calls("never", "local-task", compiled("stage", "--iree-execution-model=async-external"))
    said = said_of(target.pid, "no queued operation signals it", "stalled")
    assert "waits for value 5 of a semaphore at 0" in said["verdict"]["sentence"]


@pytest.mark.heavy
@needs_lavapipe
def test_the_same_on_vulkan(calls: Calls, compiled: Compile) -> None:
    module = compiled("stage", "--iree-execution-model=async-external", device="vulkan")
    said_of(calls("never", "vulkan", module).pid, "no queued operation signals it", "stalled")


def test_one_that_another_thread_signals_later_is_no_stall(calls: Calls, compiled: Compile) -> None:
    target = calls("late", "local-task", compiled("stage", "--iree-execution-model=async-external"))
    said_of(target.pid, "could signal it", "unknown", rests=True)
    target.stdin.write(b"\n")
    target.until("DONE")


def test_a_wait_with_a_time_limit_is_no_stall(calls: Calls, compiled: Compile) -> None:
    target = calls("limit", "local-task", compiled("stage", "--iree-execution-model=async-external"))
    at_rest(target.pid)
    said = report_of(target.pid)
    assert said["verdict"]["state"] not in {"stalled", "deadlock"}, said["verdict"]
    assert [one for one in said["findings"] if one["rule"] == "iree-missing-signal"]


def test_a_call_that_nobody_waits_for_is_a_note(calls: Calls, compiled: Compile) -> None:
    target = calls("alone", "local-task", compiled("stage", "--iree-execution-model=async-external"))
    said = report_of(target.pid)
    assert said["verdict"]["state"] not in {"stalled", "deadlock"}
    [note] = [one for one in said["findings"] if one["rule"] == "iree-missing-signal"]
    assert note["severity"] == "info" and "waits for value 5 of a semaphore at 0" in note["sentence"]


def test_calls_that_wait_for_each_other(calls: Calls, compiled: Compile) -> None:
    target = calls("circle", "local-task", compiled("stage", "--iree-execution-model=async-external"))
    said = said_of(target.pid, "Deadlock of 4 tasks", "deadlock")
    assert len([root for root in said["verdict"]["roots"] if root.startswith("task:iree/")]) == 4


def test_a_circle_that_another_thread_could_end_is_unknown(calls: Calls, compiled: Compile) -> None:
    target = calls("open", "local-task", compiled("stage", "--iree-execution-model=async-external"))
    said = said_of(target.pid, "4 queue operations wait for each other", "unknown", rests=True)
    assert "could signal it" in said["verdict"]["sentence"]


def test_a_dispatch_that_loops_in_the_calling_thread_is_named(run_module: RunModule, compiled: Compile) -> None:
    words = ("--input=16x16xf32=1.0", "--input=16x16xf32=0.75", "--input=16x32xf32=0.1")
    target = gives_way(run_module(compiled("gated"), *words, device="local-sync"))
    said = said_of(target.pid, "loops on local-sync (iree-run-module)", "stalled")
    sentence = said["verdict"]["sentence"]
    assert sentence.startswith("Dispatch main_dispatch_1") and "(gated.mlir:" in sentence
    frames = [frame for one in said["entities"].values() for frame in one.get("stack", ())]
    [named] = [frame for frame in frames if frame["function"].startswith("main_dispatch_1_reduction")]
    assert named["file"] == "gated.mlir" and named["line"]


def test_what_waits_for_a_dispatch_is_told_by_the_dispatch_graph_and_its_lines_by_dumped_executables(
    run_module: RunModule, compiled: Compile, tmp_path: Path
) -> None:
    """In the calling thread: no queue has what comes next."""
    sources = tmp_path / "executables"
    dump = (
        f"--iree-hal-dump-executable-files-to={sources}",
        "--iree-flow-dump-dispatch-graph",
        f"--iree-flow-dump-dispatch-graph-output-file={tmp_path}/dispatches.dot",
    )
    command = [Path(sys.executable).with_name("iree-compile"), "gated.mlir", *FOR["cpu"], *dump]
    subprocess.run([*command, "-o", tmp_path / "gated.vmfb"], check=True, cwd=SOURCES, timeout=250)
    words = ("--input=16x16xf32=1.0", "--input=16x16xf32=0.75", "--input=16x32xf32=0.1")
    target = gives_way(run_module(tmp_path / "gated.vmfb", *words, device="local-sync"))
    said = report_when(target.pid, lambda one: "main_dispatch_1" in one["verdict"]["sentence"], "--logs", tmp_path)
    assert "1 task or thread waits behind it" in said["verdict"]["sentence"], said["verdict"]
    [behind] = [one for one in tasks(said) if "main_dispatch_2" in one]
    [edge] = [edge for edge in said["edges"] if edge["from"] == behind]
    assert edge["to"].startswith("task:iree/main_dispatch_1_reduction") and "dispatches.dot" in edge["evidence"]
    task = said["entities"][edge["to"]]["attributes"]
    assert task["device"] == "local-sync"
    file, _, lines = task["lines"].rpartition(":")
    assert f"({file}:{lines}) loops on local-sync" in said["verdict"]["sentence"]
    text = (sources / file).read_text().splitlines()
    begin = next(number for number, line in enumerate(text, 1) if "scf.while" in line)
    assert {int(line) for line in lines.split(", ")} <= set(range(begin, begin + 8)), task


def test_a_long_dispatch_whose_workgroups_are_finished_runs(run_module: RunModule, compiled: Compile) -> None:
    words = ("--input=4096x64xf32=1.0", "--input=1xi32=20000", "--task_topology_group_count=2")
    said = said_of(run_module(compiled("steps"), *words).pid, "workgroups of its command buffer", "running")
    assert "Dispatch main_dispatch_0" in said["verdict"]["sentence"]


def test_a_long_workgroup_that_counts_is_no_stall(run_module: RunModule, compiled: Compile) -> None:
    words = ("--input=4096x64xf32=1.0", "--input=1xi32=2000000000", "--task_topology_group_count=2")
    target = gives_way(run_module(compiled("steps"), *words))
    said = said_of(target.pid, "no workgroup begun or ended: endless, or long", "unknown")
    assert "on local-task (iree-worker-" in said["verdict"]["sentence"]


@pytest.mark.invariant("iree_loops.Q1")
@pytest.mark.parametrize(
    ("module", "inputs"),
    [("singles", ("8xf32=0", "8xf32=4000000")), ("outer", ("8xf32=2", "8xf64=1e12"))],
)
def test_Q1_a_long_loop_that_counts_in_floating_point_registers_only_is_no_stall(
    module: str, inputs: tuple[str, str], run_module: RunModule, compiled: Compile
) -> None:
    made = compiled(module, "--iree-input-demote-f64-to-f32=false")
    target = gives_way(run_module(made, *(f"--input={one}" for one in inputs), device="local-sync"))
    said = said_of(target.pid, "how far it is can't be read: endless, or long", "unknown")
    assert not [one for one in said["findings"] if "the same registers" in one["sentence"]]


def test_calls_one_after_another_are_no_hang(calls: Calls, compiled: Compile) -> None:
    target = calls("busy", "local-task", compiled("stage", "--iree-execution-model=async-external"))
    said = report_of(target.pid)
    assert said["verdict"]["state"] == "running" and said["exit"] == 0, said["verdict"]
