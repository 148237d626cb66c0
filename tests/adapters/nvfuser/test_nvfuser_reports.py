"""What `livedbg report --logs` says of nvFuser's output, through the real command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from livedbg.cli.report import render
from livedbg.commands.output import code_of
from livedbg.commands.signals import running
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request
from livedbg.session.view import Update
from tests.cli.conftest import livedbg
from tests.waiting import WALL_S

_HERE = Path(__file__).parents[2] / "fixtures/nvfuser"


def command(path: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and document of `livedbg report --logs PATH --json`, in a process of its own."""
    said = livedbg("report", "--logs", path, "--json", "--timeout", 90)
    return said.code, json.loads(said.out)


def look(path: Path) -> Update:
    """One look, in this process."""
    with running(Request(host="box", logs=(str(path),), once=True)) as view:
        assert view.wait_settled(WALL_S)
        return view.latest()


def report(path: Path) -> tuple[int, dict[str, Any]]:
    """The same as the command says, in this process: a second sooner."""
    update = look(path)
    return code_of(update), json.loads(render(update, "json"))


def seen(path: Path) -> Snapshot:
    """The state after one look."""
    return look(path).snapshot


def finding(document: dict[str, Any], rule: str) -> dict[str, Any]:
    return next(one for one in document["findings"] if one["rule"] == rule)


def edges(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(edge["from"], edge["to"]) for edge in document["edges"] if edge["kind"] == "depends_on"}


def test_a_group_that_was_not_compiled() -> None:
    code, document = command(_HERE / "compile_error.log")
    assert code == 11 and document["verdict"]["state"] == "crashed"
    found = finding(document, "nvfuser-failed")
    assert found["entities"] == ["task:nvfuser/f0/g1"] and not found.get("inferred")
    assert "Segmentation group 1 (reduction, 2 expressions) of fusion 0 was not compiled" in found["sentence"]
    assert 'no instance of overloaded function "nvf::relu"' in found["sentence"]
    assert "csrc/runtime/compiled_kernel.cpp:187" in found["sentence"]
    assert any(step.startswith("livedbg repro ") and "--segment 1" in step for step in found["next"])
    assert any(proof["source"] == "compile_error.log:778" for proof in found["evidence"])
    tasks = document["entities"]
    assert tasks["task:nvfuser/f0/g1"]["state"] == "failed"
    assert tasks["task:nvfuser/f0/g0"]["state"] == "submitted"
    assert tasks["task:nvfuser/f0/g2"]["state"] == "ready"  # it was compiled beside it
    assert tasks["task:nvfuser/f0/g1"]["kernel"] == "reduction nvfuser_reduction_f0_c1_r0_g1"
    assert edges(document) == {
        ("task:nvfuser/f0/g0", "task:nvfuser/f0/g2"),
        ("task:nvfuser/f0/g1", "task:nvfuser/f0/g0"),
    }
    about = tasks["task:nvfuser/f0/g2"]["attributes"]
    assert about["refused by pointwise"] == "no support for reduction ops" and about["inputs"] == "T0, T1"
    assert "Matmul ops are not supported" in about["fusion was cut because"]


def test_groups_that_failed_together_are_findings_of_their_own() -> None:
    code, document = report(_HERE / "two_errors.log")
    failed = [one["entities"] for one in document["findings"] if one["rule"] == "nvfuser-failed"]
    assert code == 11 and sorted(failed) == [["task:nvfuser/f0/g1"], ["task:nvfuser/f0/g2"]]


def test_groups_that_are_compiled_one_by_one() -> None:
    code, document = report(_HERE / "one_by_one.log")  # NVFUSER_DISABLE=parallel_compile: the error names no group
    found = finding(document, "nvfuser-failed")
    assert code == 11 and found["entities"] == ["task:nvfuser/f0/g1"] and not found.get("inferred")


def test_a_group_that_failed_as_it_ran() -> None:
    code, document = report(_HERE / "run_error.log")
    assert code == 11
    found = finding(document, "nvfuser-failed")
    assert found["entities"] == ["task:nvfuser/f0/g0"] and "failed as it ran" in found["sentence"]
    tasks = seen(_HERE / "run_error.log").tasks
    assert {name: str(task.state) for name, task in tasks.items()} == {
        "task:nvfuser/f0/g2": "completed",
        "task:nvfuser/f0/g0": "failed",
        "task:nvfuser/f0/g1": "ready",
    }
    hits = {hit["type"] for hit in document["exceptions"]}
    assert "c10::Error" in hits
    about = tasks["task:nvfuser/f0/g2"].attributes
    assert (about["block"], about["grid"], about["shared memory"]) == ("32 x 1 x 1", "64 x 1 x 1", "128 bytes")


def test_what_was_launched_last() -> None:
    code, document = report(_HERE / "healthy.log")
    assert code == 5
    assert "group 0 (reduction) is executing" in finding(document, "nvfuser-under-way")["sentence"]
    assert document["entities"]["task:nvfuser/f0/g0"]["state"] == "running"


def test_an_unknown_option() -> None:
    code, document = report(_HERE / "bad_option.log")
    assert code == 11
    found = finding(document, "nvfuser-bad-option")
    assert "'python_definition_segments'" in found["sentence"] and "did you mean python_definition?" in found["next"]
    assert not any(one["rule"] == "nvfuser-failed" for one in document["findings"])


def test_both_generations_of_the_bindings() -> None:
    for log, words in (("legacy_CONSTRUCTED.log", "up to 2025"), ("compile_error.log", "nvfuser_direct")):
        _, document = report(_HERE / log)
        assert finding(document, "nvfuser-failed")["entities"][0].endswith("/g1")
        assert words in finding(document, "nvfuser-versions")["sentence"]


def test_output_and_errors_in_two_files_are_one_job(tmp_path: Path) -> None:
    log = (_HERE / "compile_error.log").read_text()
    cut = log.index("Traceback (most recent call last)")
    (tmp_path / "a.stderr").write_text(log[cut:])  # read first: its error comes before the dump
    (tmp_path / "a.stdout").write_text(log[:cut])
    code, document = report(tmp_path)
    tasks = {name: one["state"] for name, one in document["entities"].items() if name.startswith("task:")}
    assert code == 11 and len(tasks) == 3 and "failed" in tasks.values()
    step = finding(document, "nvfuser-failed")["next"][0]
    assert step == f"livedbg repro {tmp_path} --segment 1 -o repro.py --run"


def test_records_lead_to_the_groups_that_they_speak_of() -> None:
    records = seen(_HERE / "run_error.log").recent_logs
    linked = {link for record in records for link in record.links if link.startswith("task:nvfuser/")}
    assert linked == {"task:nvfuser/f0/g0", "task:nvfuser/f0/g1", "task:nvfuser/f0/g2"}


def test_ranks_in_one_log_are_jobs_of_their_own(tmp_path: Path) -> None:
    one = (_HERE / "run_error.log").read_text().splitlines()
    log = tmp_path / "torchrun.log"
    log.write_text("".join(f"[rank{rank}]:{line}\n" for line in one for rank in (0, 1)))
    tasks = set(seen(log).tasks)
    assert {"task:nvfuser/rank0/f0/g0", "task:nvfuser/rank1/f0/g0"} <= tasks and len(tasks) == 6


def of_no_process(name: str) -> bytes:
    """A file of ours, with a number for the pid of its trace that no process can have."""
    return (_HERE / name).read_bytes().replace(b'"pid": 4711', b'"pid": 4194305')


def test_where_a_trace_stopped(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(of_no_process("trace_hang.json"))
    code, document = command(tmp_path)
    found = finding(document, "nvfuser-trace-stopped")
    assert code == 10 and found["inferred"]
    assert "stopped in nvFuser's pass executor_utils::Nvrtc::LoadPTX" in found["sentence"]
    assert "in FusionKernelRuntime::compileKernel" in found["sentence"]
    task = document["entities"][found["entities"][0]]
    assert task["state"] == "running" and task["kernel"] == "executor_utils::Nvrtc::LoadPTX"


def test_a_trace_that_ended_stopped_nowhere(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes((_HERE / "trace_ended.json").read_bytes())
    code, document = report(tmp_path)
    assert code == 5 and not document["findings"]
    assert [str(task.state) for task in seen(tmp_path).tasks.values()] == ["completed"]


@pytest.mark.parametrize("name", ["compile_error.log", "trace_hang.json"])
def test_damaged_files_give_what_they_hold(name: str, tmp_path: Path) -> None:
    data = of_no_process(name)
    for number, piece in enumerate((data[: len(data) // 2], data[len(data) // 2 :], b"\x00\xff" * 500 + data)):
        (tmp_path / f"{number}{Path(name).suffix}").write_bytes(piece)
    code, document = report(tmp_path)
    assert code in {0, 10, 11}
    assert document["entities"]


def test_a_big_log_is_not_held_in_memory(tmp_path: Path) -> None:
    log = tmp_path / "big.log"
    data = (_HERE / "two_errors.log").read_bytes()
    with log.open("wb") as file:
        for _ in range(12):
            file.write(b"step 12 loss 0.123 some other output of the training loop\n" * 20_000)
        file.write(data)
    code, document = report(log)
    assert code == 11
    found = finding(document, "nvfuser-failed")
    assert found["evidence"][0]["source"] == f"big.log:{12 * 20_000 + 249}"


def test_messages_that_a_debugger_read_are_no_failures() -> None:
    for name in ("catch-throw.txt", "nvfuser-wheel.txt"):  # sessions of a gdb, with messages that it looked at
        _, document = report(_HERE.parent / "gdb-mi" / name)
        assert not document["entities"] and not document["findings"]


PYTORCH = """\
[rank0]:[E ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)
Exception raised from checkTimeout at /pytorch/torch/csrc/distributed/c10d/NCCL.cpp:632 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f0000000096 in /opt/torch/lib/libc10.so)

RuntimeError: INTERNAL ASSERT FAILED at "../aten/src/ATen/core/ivalue_inl.h":1910, please report a bug to PyTorch.
"""


def test_errors_of_pytorch_are_not_those_of_nvfuser(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(PYTORCH)
    _, document = report(tmp_path / "train.log")
    assert not [one for one in document["findings"] if one["rule"] == "nvfuser-failed"]


THROWN = """\
Traceback (most recent call last):
{frames}  File "/usr/lib/python3.12/site-packages/thunder/executors/nvfuserex_impl.py", line 602, in __call__
    return fd.execute(args)
RuntimeError: INTERNAL ASSERT FAILED at "/opt/nvfuser/csrc/evaluator.cpp":402, please report a bug with repro script to
NVFuser at https://x.org. Conflicting sizes found for iS12: 128 and 96
Exception raised from bind at /opt/nvfuser/csrc/evaluator.cpp:402 (most recent call first):
frame #0: nvfuser::nvfCheckFail(char const*) + 0xc3 (0x7f)
"""
USER = '  File "/w/block.py", line 18, in <module>\n    y = jfn(x)\n'


@pytest.mark.parametrize(
    ("frames", "ends"), [(USER, "evaluator.cpp:402), at block.py:18."), ("", "evaluator.cpp:402).")]
)
def test_what_was_thrown_names_the_line_of_the_user_and_none_of_nvfuser_s_own(
    tmp_path: Path, frames: str, ends: str
) -> None:
    (tmp_path / "run.log").write_text(THROWN.format(frames=frames).replace("script to\n", "script to "))
    sentence = report(tmp_path)[1]["verdict"]["sentence"]
    assert sentence.startswith("nvFuser threw: Conflicting sizes found for iS12: 128 and 96") and sentence.endswith(
        ends
    )


RUN = "[ RUN      ] Pool.Drains\n"
DONE = "[       OK ] Pool.Drains (3 ms)\n"
NEXT = "[ RUN      ] Pool.Fills\n"
ASSERT = (
    'C++ exception with description "n > 0 INTERNAL ASSERT FAILED at "/opt/Fuser/csrc/ir/cloner.cpp":40, please report '
    "a bug with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues. No clone of T3 was made\n"
    "Exception raised from clone at /opt/Fuser/csrc/ir/cloner.cpp:40 (most recent call first):\n"
    '" thrown in the test body.\n'
)


@pytest.mark.parametrize(
    ("text", "test"),
    [
        (f"{RUN}unknown file: Failure\n{ASSERT}[  FAILED  ] Pool.Drains (9 ms)\n", ", in test Pool.Drains."),
        (f"{RUN}{DONE}{NEXT}unknown file: Failure\n{ASSERT}", ", in test Pool.Fills."),
        (f"{RUN}{DONE}{ASSERT}", ""),  # between tests, as an environment is torn down
        (f"{RUN}[  FAILED  ] Pool.Drains (2 ms)\n{ASSERT}", ""),
        (ASSERT, ""),
    ],
)
def test_an_error_of_a_test_names_it(text: str, test: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(text)
    sentence = report(tmp_path)[1]["verdict"]["sentence"]
    assert "No clone of T3 was made" in sentence
    assert sentence.endswith(test) and (", in test" in sentence) is bool(test)


TRACE = 'Traceback (most recent call last):\n  File "/w/bench.py", line 41, in <module>\n    fd.execute(inputs)\n'
FAILED = TRACE + (
    'RuntimeError: INTERNAL ASSERT FAILED at "/b/Fuser/csrc/runtime/fusion_kernel_runtime.cpp":358, please report a '
    "bug "
    "with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues. Detected exception while compiling fusion "
    "segments in parallel. Error messages from all threads are printed below.\n\nError from segmentation group 8:  "
    'INTERNAL ASSERT FAILED at "/b/Fuser/csrc/transform_iter.cpp":546, please report a bug with repro script to '
    "NVFuser "
    "at https://github.com/NVIDIA/Fuser/issues. Error during replay.\n"
)
ALONE = TRACE + (
    'RuntimeError: same INTERNAL ASSERT FAILED at "/b/Fuser/csrc/fusion_cache.cpp":120, please report a bug with repro '
    "script to NVFuser at https://github.com/NVIDIA/Fuser/issues. Inputs mismatch: 2 and 3\n"
)
OTHER = (
    TRACE + 'RuntimeError: INTERNAL ASSERT FAILED at "../aten/src/ATen/core/ivalue_inl.h":1910, please report a bug.\n'
)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (
            FAILED,
            "Segmentation group 8 of a fusion was not compiled: Error during replay (at csrc/transform_iter.cpp:546)",
        ),
        (ALONE, "nvFuser threw: Inputs mismatch: 2 and 3 (at csrc/fusion_cache.cpp:120)"),
        (OTHER, "Crashed"),
    ],
)
def test_the_error_of_nvfuser_leads_not_the_exception_that_carries_it(tmp_path: Path, text: str, begins: str) -> None:
    (tmp_path / "run.log").write_text(text)
    verdict = report(tmp_path)[1]["verdict"]
    assert verdict["state"] == "crashed" and verdict["sentence"].startswith(begins)


def test_a_sentence_has_no_extents_of_iteration_domains(tmp_path: Path) -> None:
    text = ALONE.replace(
        "Inputs mismatch: 2 and 3", "No mapping for T7_l[ iS1{( ceilDiv(( 1 * 597 ), 1) )}, iV4{4} ] dim: 2"
    )
    (tmp_path / "run.log").write_text(text)
    assert "No mapping for T7_l[ iS1, iV4{4} ] dim: 2" in report(tmp_path)[1]["verdict"]["sentence"]
