"""What `livedbg iree` reads from command lines, declarations, messages, saved tensors and its own notes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from livedbg.adapters.iree.differences.first import bad_inputs, first_bad
from livedbg.adapters.iree.differences.trace import Trace, read_trace
from livedbg.adapters.iree.flow.as_given import error_words
from livedbg.adapters.iree.flow.ground import program_of
from livedbg.adapters.iree.flow.sanity import declared_inputs, misfits
from livedbg.adapters.iree.flow.steps import Notebook, read
from livedbg.session.guide import StepRun

NAN = float("nan")
DECLARATION = (
    "sync func @main(%input0: tensor<4x?xf32>, %input1: i32, %input2: tensor<8xsi8>) -> (%output0: tensor<4xf32>)"
)


def test_what_a_command_line_runs() -> None:
    program = program_of(
        ("/opt/bin/iree-benchmark-module", "--module=m.vmfb", "--device=vulkan", "--function=f", "--input=4xf32",
         "--input=2xi32=1 2", "--task_topology_group_count=1", "--benchmark_min_time=1s", "--device_replay_output=x")
    )  # fmt: skip
    assert (program.kind, program.modules, program.device, program.function) == (
        *("benchmark", ("m.vmfb",), "vulkan", "f"),
    )
    assert program.inputs == ("4xf32=0", "2xi32=1 2"), "iree-run-module takes zeros where no value is given"
    assert program.runtime_flags == ("--task_topology_group_count=1",)


def test_what_a_command_line_compiles() -> None:
    words = ("iree-compile", "m.mlir", "--iree-hal-target-device=hip", "-o", "out.mlir", "--compile-to=flow", "-O3")
    program = program_of(words)
    assert (program.source, program.flags, program.device) == (
        *("m.mlir", ("--iree-hal-target-device=hip", "-O3"), "hip"),
    )
    assert program_of(("python3.11", "a.py")).kind == "python"


def test_what_else_a_command_line_hands_to_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = program_of(
        ("iree-run-module", "--module=a.vmfb", "--module=b.vmfb", "--parameters=model=w.irpa", "--parameters=x.gguf",
         "--input=2x3xf32=@raw.bin", "--input=2x3xf32=+raw.bin", "--input=*all.npy", "--input=+all.npy", "--input=3.5",
         "--expected_output=2xf32=1", "--output=@out.npy", "--device=local-task", "--device=vulkan",
         "--device_lead_allocator=1")
    )  # fmt: skip
    assert (program.modules, program.devices, program.runtime_flags) == (("a.vmfb", "b.vmfb"), 2, ())
    assert program.parameters == (f"model={tmp_path}/w.irpa", f"{tmp_path}/x.gguf")
    assert program.inputs == (
        f"2x3xf32=@{tmp_path}/raw.bin", f"2x3xf32=+{tmp_path}/raw.bin", f"*{tmp_path}/all.npy", f"+{tmp_path}/all.npy",
        "3.5",
    )  # fmt: skip
    assert program_of(("iree-check-module", "--module=c.vmfb")).kind == "check"


def test_a_steps_compilation_does_not_write_over_what_the_user_dumps() -> None:
    program = program_of(
        ("iree-compile", "--iree-hal-target-device", "local", "m.mlir", "--iree-hal-dump-executable-files-to=d",
         "--dump-compilation-phases-to", "p", "--mlir-print-ir-after-all", "-o=m.vmfb")
    )  # fmt: skip
    assert (program.source, program.flags) == ("m.mlir", ("--iree-hal-target-device", "local"))


@pytest.mark.invariant("iree_sanity.I1")
@pytest.mark.parametrize(
    ("specs", "words"),
    [
        (("4x9xf32=1", "3", "8xi8=1"), ""),
        (("4x9xf32=1", "3", "@missing.npy"), ""),
        (("4x9xf32=@raw.bin", "3", "+all.npy"), ""),
        (("*all.npy",), ""),
        (("4x9xf32=1", "3"), "main takes 3 inputs (4x?xf32, i32, 8xsi8), and gets 2."),
        (("5x9xf32=1", "3", "8xi8=1"), "Input 0 (counted from 0) is 5x9xf32, and main takes 4x?xf32: dimension 0 is"),
        (("4xf32=1", "3", "8xi8=1"), "it has 1 dimension, not 2."),
        (("4x9xf32=1", "3", "8xi16=1"), "its elements are i16, not si8."),
    ],
)
def test_only_what_both_sides_say_is_compared(specs: tuple[str, ...], words: str) -> None:
    declared = declared_inputs(DECLARATION)
    assert declared is not None
    found = " ".join(misfits(declared, specs, "main"))
    assert words in found and bool(found) is bool(words)


def test_a_file_has_a_shape_and_a_type(tmp_path: Path) -> None:
    declared = declared_inputs(DECLARATION)
    assert declared is not None and declared_inputs("nothing") is None
    np.save(tmp_path / "x.npy", np.zeros((4, 2), np.float64))
    (found,) = misfits(declared[:1], (f"@{tmp_path / 'x.npy'}",), "main")
    assert found.endswith("is 4x2xf64, and main takes 4x?xf32: its elements are f64, not f32.")


def _trace(folder: Path, *calls: tuple[str, float, float]) -> Trace:
    folder.mkdir()
    lines: list[dict[str, object]] = []
    for number, (name, given, gives) in enumerate(calls):
        for io, value in (("inputs", given), ("outputs", gives)):
            file = f"{number}-{io}.npy"
            np.save(folder / file, np.array([1, value], np.float32))
            saved = {"file": file, "shape": [2], "type": "float32"}
            lines.append({"call": name, "io": io, "tensors": [saved]})
    (folder / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_trace(folder, "")


@pytest.mark.invariant("iree_first.V1")
def test_a_dispatch_that_got_nan_did_not_make_it(tmp_path: Path) -> None:
    inherited = first_bad(_trace(tmp_path / "a", ("x", 1, 2), ("y", NAN, NAN)), "nan")
    assert inherited is not None and (inherited.call.name, inherited.made) == ("y", False)
    trace = _trace(tmp_path / "b", ("x", 1, 2), ("y", float("inf"), NAN))
    made = first_bad(trace, "nan")
    assert made is not None and made.made and made.infinite and made.count == 1
    (tmp_path / "b" / "1-inputs.npy").unlink()
    trace.calls[1].inputs = [type(trace.calls[1].inputs[0])(problem="gone")]
    unread = first_bad(trace, "nan")
    assert unread is not None and not unread.made
    assert first_bad(_trace(tmp_path / "c", ("x", 1, 2)), "nan") is None and bad_inputs(trace) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x.mlir:3:1: error: custom op 'a' is unknown\nnote: see\n", "x.mlir:3:1: error: custom op 'a' is unknown"),
        ("Traceback\n  File a\nValueError: no batch\n", "ValueError: no batch"),
        ("\x1b[31mFLAGS ERROR: x\x1b[0m\n", "FLAGS ERROR: x"),
        ("", ""),
    ],
)
def test_an_error_in_words(text: str, words: str) -> None:
    assert error_words(text) == words


def test_a_step_whose_program_died_or_goes_on_is_told(tmp_path: Path) -> None:
    output = (tmp_path / "stdout.log", tmp_path / "stderr.log")
    output[1].write_text("Killed\n")
    assert read(StepRun(number=1, argv=("x",), output=output, code=137)).lines == (
        ("found", "The step's program ended with Killed."),
    )
    book = Notebook(tmp_path)
    book.doing("running main on local-task with traces")
    book.note.trace = str(_trace(tmp_path / "trace", ("x", 1, 2)).folder)
    calls = tmp_path / "trace" / "calls.jsonl"
    calls.write_text(calls.read_text() + '{"call": "e::y", "io": "inputs", "tensors": []}\n')
    book.note.places = {"e::y": "e (linalg.matmul at m.mlir:3)"}
    book.write()
    found = read(StepRun(number=2, argv=("x",), output=output, code=None))
    assert found.hands == {"dispatch": "e::y#0", "fault": "hang"}
    assert ("found", "e (linalg.matmul at m.mlir:3) began and has not returned yet.") in found.lines
