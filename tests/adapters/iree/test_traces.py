"""What a module prints that traces the tensors of its dispatches."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.iree.adapter import TraceDecoder
from livedbg.adapters.iree.dispatch_graph import Dumped, dumped_beside
from livedbg.adapters.iree.facts import dispatch_facts
from livedbg.adapters.iree.traced import TracedTensor, header, tensor
from livedbg.model import LogRecord, TaskState
from livedbg.model.events import Stamper
from tests.adapters.iree.conftest import Compile, tool
from tests.cli.zygote import run_livedbg
from tests.conftest import Target, gives_way

ONE = "=== main_dispatch_0::main_dispatch_0_matmul {io} ===\n2x2xf32=[1 2][3 4]\n\n"
SAID = "=== main_dispatch_1::main_dispatch_1_softmax {io} ===\n2xf32={values}\n\n"
FIRST = ONE.format(io="inputs") + ONE.format(io="outputs")


def report(text: str, folder: Path) -> dict[str, Any]:
    (folder / "stderr.log").write_text(text)
    done = run_livedbg(["report", "--logs", folder / "stderr.log", "--json"], 100)
    said: dict[str, Any] = json.loads(done.stdout)
    return said | {"exit": done.returncode}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("2x2xf32=[1 2][3 4]", TracedTensor((2, 2), "f32", 4, 0, 0, 1.0, 4.0, 2.5)),
        ("f32=0.5", TracedTensor((), "f32", 1, 0, 0, 0.5, 0.5, 0.5)),
        ("3xi32=1 -2 3", TracedTensor((3,), "i32", 3, 0, 0, -2.0, 3.0, 2 / 3)),
        ("2xf16=nan 1", TracedTensor((2,), "f16", 2, 1, 0, 1.0, 1.0, 1.0, (0,))),
        ("2x2xf32=[1 1][1 nan]", TracedTensor((2, 2), "f32", 4, 1, 0, 1.0, 1.0, 1.0, (1, 1))),
        ("2xbf16=-inf 1", TracedTensor((2,), "bf16", 2, 0, 1, 1.0, 1.0, 1.0)),
        ("8xf32=1 2 3", TracedTensor((8,), "f32", 2, 0, 0, 1.0, 2.0, 1.5)),  # cut, perhaps within a number
        ("2xf32=1 x", TracedTensor((2,), "f32")),
        ("result[0]: hal.buffer_view", None),
        ("x=3", None),
    ],
)
def test_a_tensor_is_read_with_its_statistics(line: str, found: TracedTensor | None) -> None:
    assert tensor(line) == found


def test_only_whole_headers_count() -> None:
    one = header("=== a_dispatch_0::a_dispatch_0_gemm inputs ===")
    assert one is not None and one.dispatch == "a_dispatch_0_gemm" and one.inputs
    assert header("=== run inputs ===") is None and header("# === a::b inputs ===") is None


@pytest.mark.invariant("iree_adapter.D1")
def test_D1_inputs_without_outputs_are_the_dispatch_where_it_ends(tmp_path: Path) -> None:
    said = report(FIRST + SAID.format(io="inputs", values="1 2"), tmp_path)
    assert said["verdict"]["state"] == "unknown" and "dispatch main_dispatch_1_softmax" in said["verdict"]["sentence"]
    assert said["verdict"]["roots"] == ["task:iree/traced/main_dispatch_1_softmax#0"]
    assert "2xf32: least 1, most 2" in said["verdict"]["sentence"]


def test_a_trace_whose_last_dispatch_returned_says_nothing_of_a_hang(tmp_path: Path) -> None:
    bare = ONE.format(io="inputs") + "=== main_dispatch_0::main_dispatch_0_matmul outputs ==="
    for text in (FIRST, FIRST.rstrip(), FIRST * 2, bare):
        assert not [one for one in report(text, tmp_path)["findings"] if one["rule"] == "iree-traced-dispatch"], text


def test_each_execution_is_a_task_with_its_inputs_and_outputs() -> None:
    decoder, stamp = TraceDecoder(), Stamper("box")()
    events = [
        event
        for line in (FIRST * 2).split("\n")
        for event in decoder.feed(LogRecord(source="log:box/err", text=line), stamp)[0]
    ]
    tasks = {task.name: task for event in [*events, *decoder.flush(stamp)] for task in getattr(event, "tasks", ())}
    assert {name: task.state for name, task in tasks.items()} == {
        "main_dispatch_0_matmul#0": TaskState.COMPLETED,
        "main_dispatch_0_matmul#1": TaskState.COMPLETED,
    }
    last = tasks["main_dispatch_0_matmul#1"]
    assert dispatch_facts(last).inputs == dispatch_facts(last).outputs == "2x2xf32: least 1, most 4, mean 2.5"


def test_what_waits_for_the_last_dispatch_is_told_by_the_graph_beside_the_log(tmp_path: Path) -> None:
    (tmp_path / "dispatches.dot").write_text(
        'v1 [shape = box, label = "%0 = flow.dispatch\\n@main_dispatch_0::@main_dispatch_0_matmul(%a)"];\n'
        'v2 [shape = box, label = "%1 = flow.dispatch\\n@main_dispatch_1::@main_dispatch_1_softmax(%0)"];\n'
        'v3 [shape = box, label = "%2 = flow.dispatch\\n@main_dispatch_2::@main_dispatch_2_sum(%1)"];\n'
        "v1 -> v2 [style = solid];\nv2 -> v3 [style = solid];\n"
    )
    said = report(FIRST + SAID.format(io="inputs", values="1 2"), tmp_path)
    assert "1 dispatch waits for its results" in said["verdict"]["sentence"]
    assert ("task:iree/graph/main_dispatch_2_sum@v3", "task:iree/traced/main_dispatch_1_softmax#0") in {
        (edge["from"], edge["to"]) for edge in said["edges"]
    }


@pytest.mark.invariant("iree_adapter.D2")
def test_D2_only_who_got_sound_inputs_made_the_nan(tmp_path: Path) -> None:
    made = SAID.format(io="inputs", values="1 2") + SAID.format(io="outputs", values="nan 2")
    said = report(FIRST + made + made, tmp_path)
    [finding] = [one for one in said["findings"] if one["rule"] == "iree-made-nan"]
    assert (
        "main_dispatch_1_softmax made NaN (1 of 2 elements, first at [0]): its inputs are finite."
        in (finding["sentence"])
    )
    assert said["exit"] == 12
    for values in ("nan 2", "inf 2", "1"):  # it got it, or may have, or that is not known
        got = SAID.format(io="inputs", values=values) + SAID.format(io="outputs", values="nan 2")
        assert not [one for one in report(FIRST + got, tmp_path)["findings"] if one["rule"] == "iree-made-nan"]


@pytest.mark.iree
def test_a_real_module_that_hangs_shows_its_last_inputs(
    compiled: Compile, spawn: Callable[..., Target], tmp_path: Path
) -> None:
    module = compiled("gated", "--iree-flow-trace-dispatch-tensors")
    words = ("--input=16x16xf32=1.0", "--input=16x16xf32=0.75", "--input=16x32xf32=0.1")
    line = [tool("iree-run-module"), f"--module={module}", "--device=local-task", "--function=main", *words]
    target = gives_way(spawn(line, wait_for=None))
    for _ in range(200):
        done = run_livedbg(["report", target.pid, "--json"], 150)
        said = json.loads(done.stdout)
        found = [one for one in said["findings"] if one["rule"] == "iree-traced-dispatch"]
        if found and "main_dispatch_1" in found[0]["sentence"]:
            break
    assert "16x16xf32: least 0.75, most 0.75" in found[0]["sentence"]
    running = said["entities"]["task:iree/traced/main_dispatch_1_reduction_16x32_f32#0"]
    assert running["state"] == "running" and "16x32xf32: least 1.6" in running["attributes"]["inputs"]


@pytest.mark.iree
@pytest.mark.parametrize("device", ["local-sync", "local-task"])
def test_a_real_module_whose_dispatch_makes_nan(compiled: Compile, tmp_path: Path, device: str) -> None:
    module = compiled("roots", "--iree-flow-trace-dispatch-tensors")
    line = [tool("iree-run-module"), f"--module={module}", f"--device={device}", "--function=main"]
    for values, count in (("1 2 -3 4 5 -6 7 8", 1), ("1 2 3 4 5 6 7 8", 0)):
        with (tmp_path / "run.err").open("wb") as errors:
            subprocess.run([*line, f"--input=8xf32={values}"], stderr=errors, check=True, timeout=100)
        done = run_livedbg(["report", "--logs", tmp_path / "run.err", "--json"], 100)
        said = [one["sentence"] for one in json.loads(done.stdout)["findings"] if one["rule"] == "iree-made-nan"]
        assert len(said) == count and done.returncode == (12 if count else 5)
        for sentence in said:
            assert "made NaN (2 of 8 elements, first at [2]): its inputs are finite." in sentence
            assert sentence.startswith("Dispatch main_dispatch_1_") and "8xf32: 2 NaN" in sentence


SOURCE = """hal.executable public @main_dispatch_1 {
  hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64", {cpu = "generic"}>) {
    hal.executable.export public @main_dispatch_1_softmax ordinal(0) layout(#hal.pipeline.layout<bindings = []>)
    builtin.module {
      func.func @main_dispatch_1_softmax() {
"""


def test_a_traced_dispatch_has_the_place_of_its_dumped_source_and_what_it_was_compiled_for(tmp_path: Path) -> None:
    (tmp_path / "executables").mkdir()
    (tmp_path / "executables" / "configured_m_main_dispatch_1.mlir").write_text(SOURCE)
    said = report(FIRST + SAID.format(io="inputs", values="1 2"), tmp_path)
    place = "configured_m_main_dispatch_1.mlir:5, compiled for llvm-cpu"
    assert f"dispatch main_dispatch_1_softmax ({place}) and not its outputs" in said["verdict"]["sentence"]
    assert set(dumped_beside([tmp_path])) == {"main_dispatch_1_softmax"}


@pytest.mark.invariant("iree_dispatch_graph.E1")
def test_E1_a_name_in_two_dumped_sources_is_not_told(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"configured_{name}.mlir").write_text(SOURCE)
    (tmp_path / "configured_three.mlir").write_text(SOURCE.replace("softmax", "gemm"))
    assert dumped_beside([tmp_path]) == {"main_dispatch_1_gemm": Dumped("configured_three.mlir:5", "llvm-cpu")}
