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
