"""Recipes for PyTorch, on texts that torch 2.13 (CPU) wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.recipes import Ended, plan, recipes, without_effect
from livedbg.repeats.marking import known_pairs, last_open


def told(name: str, option: str, text: str, folder: Path) -> str:
    """What is said of a recipe after a command that wrote a text."""
    output = folder / "stderr.log"
    output.write_text(text)
    made = plan([(recipes()[0][name], option)], folder, {}, find=lambda program: f"/usr/bin/{program}")
    return " ".join(without_effect(made.parts, Ended([output])))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "aoti-inputs",
            "Error: input_handles[0]: unmatched dim value at 1, expected: 8, but got: 9\n",
            "Input 0 (counted from 0): dimension 1 is 9, and the model was compiled for 8.",
        ),
        (
            "aoti-inputs",
            "RuntimeError: input_handles[0]: unmatched dtype, expected: 6(at::kFloat), but got: 7\n",
            "Input 0 (counted from 0) has type 7, and the model was compiled for 6(at::kFloat).",
        ),
        (
            "aoti-inputs",
            "RuntimeError: expected inputs vector size to be 2, but got 1\n",
            "The model was compiled for 2 input tensors, and gets 1.",
        ),
        ("aoti-nan", "RuntimeError: At least one NaN in arg2_1\n", "There is NaN in arg2_1"),
        (
            "torch-distributed",
            "Detected mismatch between collectives on ranks. Rank 2 is running collective: "
            "CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[2048], \n",
            "Rank 2 calls ALLREDUCE as operation 5 (counted from 0)",
        ),
    ],
)
def test_what_torch_says_is_put_into_words(name: str, text: str, said: str, tmp_path: Path) -> None:
    words = told(name, "", text, tmp_path)
    assert said in words and "no visible effect" not in words


@pytest.mark.parametrize(
    ("name", "option", "acted"),
    [
        ("aoti-nan", "", 'AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_check_inf_and_nan("arg2_1", arg2_1));'),
        ("aoti-last-kernel", "", '        printf("[ before_launch: cpp_fused_0 ]\\n");'),
        ("aoti-last-kernel", "", "[ before_launch: cpp_fused_0 ]"),
        (
            "aoti-save",
            "",
            "aoti_torch_save_tensor_handle: Saved tensor to /opt/job/tmp/aoti_torchbefore_launch_k_buf0.pt",
        ),
        ("aoti-values", "cpp_fused_0", "[  after_launch - aoti_torch_cpu_addmm_out - buf4  ]:"),
        (
            "torch-logs",
            "output_code",
            "I1123 21:13:42.414000 3599 torch/_inductor/codecache.py:2614] [__output_code] Wrapper code written to: x",
        ),
    ],
)
def test_a_setting_without_effect_is_said(name: str, option: str, acted: str, tmp_path: Path) -> None:
    assert told(name, option, f"first\n{acted}\n", tmp_path) == ""
    assert "had no visible effect" in told(name, option, "tensor([0.3308, 0.3308])\n", tmp_path)


def test_traces_are_files_of_the_run(tmp_path: Path) -> None:
    assert "had no visible effect" in told("torch-trace", "", "", tmp_path)
    (tmp_path / "torch_trace").mkdir()
    (tmp_path / "torch_trace" / "dedicated_log_torch_trace_x.log").write_text("V1123 \n")
    assert told("torch-trace", "", "", tmp_path) == ""


def test_settings_of_logs_are_joined(tmp_path: Path) -> None:
    known, _ = recipes()
    chosen = [(known["torch-logs"], "graph_breaks"), (known["aoti-nan"], "")]
    made = plan(chosen, tmp_path, {"TORCH_LOGS": "recompiles"})
    assert made.environment["TORCH_LOGS"] == "recompiles,graph_breaks,output_code"


@pytest.mark.parametrize(("ends", "still"), [(False, "[ before_launch: aoti_torch_cpu_addmm_out ]"), (True, None)])
def test_the_kernel_that_did_not_return_is_the_last_open_marker(ends: bool, still: str | None) -> None:
    lines = [
        "[ before_launch: cpp_fused_0 ]",
        "[ after_launch: cpp_fused_0 ]",
        "[ before_launch: aoti_torch_cpu_addmm_out ]",
        *(["[ after_launch: aoti_torch_cpu_addmm_out ]"] if ends else []),
    ]
    pair = next(pair for pair in known_pairs() if pair.name == "AOTInductor's kernels")
    found = last_open(lines, [pair])
    assert (found.text if found is not None else None) == still
