"""Several outputs that differ in one comparison."""

from __future__ import annotations

import pytest

from tests.logs.reading import found, verdict

WRONG = "[ERROR] Mismatch: golden_{0}.bin vs {0}.bin, max diff={1} at idx=3 (golden={2}, out={3}, dtype=float16)\n"
FAILED = "[ERROR] compare failed\n[2026-08-12 02:50:14] ERROR: testcase failed (exit 2): {}\n"
THREE = (
    WRONG.format("a", "nan", "nan", "0.0") + WRONG.format("b", "0.5", "0.5", "0.0") + WRONG.format("c", "2.0", "2", "0")
)


@pytest.mark.invariant("differing.D2")
def test_D2_they_are_one_message_with_the_largest_number() -> None:
    said = verdict(THREE + FAILED.format("gather"))
    assert said.state == "diverged"
    assert said.sentence == (
        "Results differ from the golden ones in 3 outputs (a.bin, b.bin, c.bin): by up to 2.0 in c.bin; NaN is "
        "expected in a.bin, in test gather."
    )


@pytest.mark.invariant("differing.D2")
def test_D2_no_number_at_all() -> None:
    text = WRONG.format("a", "nan", "1.0", "nan") + WRONG.format("b", "nan", "1.0", "nan")
    assert verdict(text).sentence == (
        "Results differ from the golden ones in 2 outputs (a.bin, b.bin); a.bin and b.bin has NaN."
    ).replace("has", "have")


@pytest.mark.invariant("differing.D1")
def test_D1_those_of_two_tests_are_two() -> None:
    one = WRONG.format("a", "1.0", "1.0", "0.0") + FAILED.format("gather")
    other = WRONG.format("b", "2.0", "2.0", "0.0") + FAILED.format("rope")
    said = [one.sentence for one in found("signature", one + other)]
    assert len(said) == 2
    assert not any("outputs" in one for one in said)


def _checked(rank: int, index: str, got: float, end: str = "failed") -> str:
    head = f"[Plant] [{rank}/4] "
    return f"{head}Mismatch at index {index}: D={got}, expected=2.25\n{head}Final D validation {end}.\n"


@pytest.mark.invariant("differing.D3")
def test_D3_each_rank_says_its_first() -> None:
    text = _checked(0, "(1, 2)", 1.5) + _checked(0, "(1, 3)", 1.75) + _checked(3, "(4, 5)", 0.5)
    said = verdict(f"{text}[Plant] [0/4] Benchmarking...\n")
    assert said.state == "diverged"
    assert said.sentence == (
        "Rank 0: Results differ from the expected ones: D, at index (1, 2) 1.5 instead of 2.25; "
        "rank 3, at index (4, 5) 0.5 instead of 2.25."
    )


def test_a_check_that_passes_later_is_no_divergence() -> None:
    passed = "[Plant] [1/4] Final D validation passed\n"
    assert verdict(_checked(1, "(1, 2)", 1.5) + passed).state == "unknown"
    assert verdict(_checked(1, "(1, 2)", 1.5) + passed.replace("1/4", "2/4")).state == "diverged"


def test_a_test_that_expects_a_failed_check_passes() -> None:
    assert verdict(_checked(1, "(1, 2)", 1.5) + "All 12 tests passed\n").state == "exited"
