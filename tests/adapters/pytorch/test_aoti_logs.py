"""The first NaN among the values that AOTInductor prints, from a log alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import found, verdict

NAN = Path(__file__).parents[2] / "fixtures" / "pytorch" / "aoti" / "nan"


def block(when: str, kernel: str, argument: str, mean: str) -> str:
    """One printed value."""
    return f"[  {when}_launch - {kernel} - {argument}  ]:\nDtype: float32\nMean value: {mean}\nSize: [4]\n\n"


def test_the_kernel_after_which_there_is_a_nan() -> None:
    said = verdict((NAN / "values.txt").read_text())
    assert said.state is VerdictState.DIVERGED
    assert said.sentence.startswith("NaN is first seen after kernel cpp_fused_log_mul_relu_sub_0, in buf")
    (one,) = found("aoti-values", (NAN / "values.txt").read_text())
    assert one.topic == "precision" and "--set kernel=cpp_fused_log_mul_relu_sub_0" in one.next[0]


@pytest.mark.invariant("aoti_logs.G1")
def test_G1_uninitialised_memory_before_a_launch_is_no_nan() -> None:
    text = block("before", "k0", "buf0", "-nan") + block("before", "k0", "arg4_1", "1")
    assert found("aoti-values", text + block("after", "k0", "buf0", "1")) == []
    written = text + block("after", "k0", "buf0", "1") + block("before", "k1", "buf0", "nan")
    (one,) = found("aoti-values", written)
    assert one.sentence == "Kernel k1 gets NaN in buf0."


def test_a_kernel_that_reads_a_value_that_may_have_been_nan_is_not_said_to_have_made_it() -> None:
    (one,) = found("aoti-values", block("before", "k0", "buf9", "nan") + block("after", "k0", "buf0", "nan"))
    assert one.sentence == "NaN is first seen after kernel k0, in buf0; buf9 may have had it."


def test_a_nan_that_the_model_gets() -> None:
    assert verdict("[  aoti_model_inputs - arg4_1  ]:\nMean value: nan\n").sentence == (
        "The model gets NaN: its input arg4_1."
    )


@pytest.mark.invariant("aoti_logs.G2")
def test_G2_infinity_alone_is_a_note() -> None:
    mask = "[  aoti_model_inputs - arg4_1  ]:\nMax value: 0\nMin value: -inf\n"
    (one,) = found("aoti-values", mask)
    assert one.state is None and not one.topic
    assert verdict(mask + block("after", "k0", "buf0", "nan")).state is VerdictState.DIVERGED


def test_values_that_are_all_finite_say_nothing() -> None:
    assert found("aoti-values", block("before", "k0", "arg0", "1") + block("after", "k0", "buf0", "2")) == []


def test_ranks_that_print_into_one_log_are_kept_apart() -> None:
    lines = block("before", "k0", "arg0", "1").splitlines(), block("after", "k1", "buf0", "nan").splitlines()
    mixed = "".join(f"[rank0]: {one}\n[rank1]: {other}\n" for one, other in zip(*lines, strict=True))
    (one,) = found("aoti-values", mixed)
    assert one.sentence == "Rank 1: NaN is first seen after kernel k1, in buf0."
