# ruff: noqa: E501 (whole sentences)
"""What stands beside a failure in its log is said of it, and of no other."""

from __future__ import annotations

import pytest

from tests.logs.reading import verdict

FAILED = "plant.mlir:4:2: error: failed to legalize operation 'pump.fill'\n"
SAID = "MLIR failed: failed to legalize operation 'pump.fill' (plant.mlir:4:2)"
CALLER = "/home/ann/plant/fill.py:{}:0: note: called from\n"
LINES = "a line of something else\n"


@pytest.mark.invariant("beside.B1")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FAILED}{CALLER.format(9)}", f"{SAID}, called from fill.py:9."),
        (f"{CALLER.format(3)}{LINES}{FAILED}{CALLER.format(9)}", f"{SAID}, called from fill.py:9."),
        (f"{CALLER.format(3)}{LINES * 11}{FAILED}", f"{SAID}, called from fill.py:3."),
        (f"{CALLER.format(3)}{LINES * 12}{FAILED}", f"{SAID}."),
    ],
)
def test_B1_the_nearest_that_is_near(text: str, said: str) -> None:
    assert verdict(text).sentence == said


@pytest.mark.invariant("beside.B1")
def test_B1_not_what_another_rank_wrote() -> None:
    ranks = "[rank0]: {}[rank1]: {}"
    text = ranks.format(FAILED, CALLER.format(9))
    assert "called from" not in verdict(text).sentence
    assert "called from fill.py:9" in verdict(ranks.format(FAILED, LINES) + f"[rank0]: {CALLER.format(9)}").sentence


@pytest.mark.invariant("beside.B2")
def test_B2_what_is_said_already_is_not_said_again() -> None:
    failed = "/home/ann/plant/fill.py:9:0: error: failed to legalize operation 'pump.fill'\n"
    assert verdict(f"{failed}{CALLER.format(9)}").sentence.count("fill.py:9") == 1


@pytest.mark.invariant("beside.B4")
def test_B4_a_crash_in_whose_lines_it_stands_is_one() -> None:
    told = "./go.sh: line 8:  1930 Segmentation fault      (core dumped) out/drain --tanks 3\n"
    found = verdict(told)
    assert (found.state, found.sentence) == ("crashed", "Crashed: SIGSEGV: Segmentation fault: out/drain --tanks 3.")
    assert verdict(f"{FAILED}{told}").sentence == f"{SAID}, in drain."


RAISED = "Exception raised from fill at /w/aten/src/ATen/Pump.cpp:40 (most recent call first):\n"


@pytest.mark.invariant("beside.B6")
def test_B6_a_place_of_torch_only_where_no_frame_has_one() -> None:
    thrown = f"terminate called after throwing an instance of 'c10::Error'\n  what():  no water\n{RAISED}"
    assert verdict(thrown).sentence == "Crashed: c10::Error: no water, raised in fill (Pump.cpp:40)."
    raised = (
        f'Traceback (most recent call last):\n  File "/w/plant.py", line 7, in open\nRuntimeError: no water\n{RAISED}'
    )
    assert verdict(raised).sentence == "Crashed in open (plant.py:7): RuntimeError: no water."


_DIFFER = """Traceback (most recent call last):
  File "/home/ann/plant.py", line 7, in check
    torch.testing.assert_close(level, wanted)
AssertionError: Tensor-likes are not close!

Mismatched elements: 6 / 12 (50.0%)
Greatest absolute difference: 0.75 at index (2, 1) (up to 1e-05 allowed)
"""
_FAILED = """Traceback (most recent call last):
  File "/home/ann/plant.py", line 9, in fill
    raise RuntimeError("the pump is off")
RuntimeError: the pump is off
"""


@pytest.mark.invariant("beside.D1")
@pytest.mark.parametrize(
    ("text", "state"),
    [
        (_DIFFER, "diverged"),
        (f"{_DIFFER}[tuner] next candidate\nINFO step 12\nINFO done\nINFO step 13\n", "unknown"),  # it was caught
        (f"Max absolute difference: 0.75\n{LINES * 3}{_FAILED}", "crashed"),
        (f"{_DIFFER}\nDuring handling of the above exception, another exception occurred:\n\n{_FAILED}", "crashed"),
    ],
)
def test_D1_a_comparison_that_ends_a_run_is_diverged(text: str, state: str) -> None:
    said = verdict(text)
    assert said.state == state and ("by up to 0.75" in said.sentence) == (state == "diverged")


MISMATCH = "[ERROR] Mismatch: golden_v{0}.bin vs v{0}.bin, max diff=2.0 at idx=0 (golden=1, out=-1, dtype=int32)\n"
CASE = "[ERROR] compare failed\n[2026-08-12 02:50:14] ERROR: testcase failed (exit 2): {}\n"
BOTH = "Results differ from the golden ones in 2 outputs (v5.bin, v6.bin): by up to 2.0 in v5.bin"
DIFFERS = "Results differ from the golden ones: v5.bin by up to 2.0, at index 0 -1 instead of 1 (int32)"
DIED = "./run.sh: line 8:  1930 Segmentation fault      (core dumped) N=4 ./build/${case}\n"

ABORTED = "./run.sh: line 8:  193{} Aborted                 N=4 ./build/${{case}}_sim\n"


@pytest.mark.invariant("beside.B3")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{MISMATCH.format(5)}{MISMATCH.format(6)}{CASE.format('fill')}", f"{BOTH}, in test fill."),
        (
            f"{CASE.format('drain')}{MISMATCH.format(5)}{MISMATCH.format(6)}{CASE.format('fill')}",
            f"{BOTH}, in test fill, and 1 more test failed: drain.",
        ),
        (f"{CASE.format('drain')}{MISMATCH.format(5)}", f"{DIFFERS}."),
        (f"{DIED}[FAIL] fill (exit 139)\n", "Crashed: SIGSEGV: Segmentation fault, in test fill."),
        (
            f"{DIED}FAIL: fill (exit code: 139)\nFAIL: drain (exit code: 1)\n",
            "Crashed: SIGSEGV: Segmentation fault, in test fill, and 1 more test failed: drain.",
        ),
        (f"{DIED}[PASS] fill\n[FAIL] drain (exit 1)\n", "Crashed: SIGSEGV: Segmentation fault."),
        # a name that other words have in them
        (f"{DIED}[FAIL] me (exit 139)\n", "Crashed: SIGSEGV: Segmentation fault, in test me."),
    ],
)
def test_B3_the_case_that_ends_below(text: str, said: str) -> None:
    assert verdict(text).sentence == said


def died(name: str, status: int = 139) -> str:
    return f"{DIED}[FAIL] {name} (exit {status})\n"


TWICE = "Crashed: SIGSEGV: Segmentation fault (2 times)"


@pytest.mark.invariant("beside.B5")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (died("fill") + died("drain"), f"{TWICE}, in 2 tests: fill and drain."),
        (
            f"[FAIL] pump (exit 1)\n{died('fill')}{died('drain')}",
            f"{TWICE}, in 2 tests: fill and drain, and 1 more test failed: pump.",
        ),
        # which of them the second end was in is not known
        (
            died("fill") + DIED + "[FAIL] drain (exit 1)\n",
            f"{TWICE}, in test drain, and 1 more test failed: fill.",
        ),
        # what ends the test before says nothing of this one's end
        (
            "".join(
                f"{ABORTED.format(7 + n)}{MISMATCH.format(5 + n)}{CASE.format(name)}"
                for n, name in enumerate(("fill", "drain", "me"))
            ),
            "Crashed: SIGABRT: Aborted (3 times), in test me, and 2 more tests failed: fill and drain.",
        ),
        # it was tried again, and passed
        (f"[FAIL] pump (exit 1)\n[PASS] pump\n{died('fill')}", "Crashed: SIGSEGV: Segmentation fault, in test fill."),
        (
            "".join(f"[FAIL] pump-{n} (exit 1)\n" for n in range(7)) + died("fill"),
            "Crashed: SIGSEGV: Segmentation fault, in test fill, and 7 more tests failed: pump-0, pump-1, pump-2, pump-3, …",
        ),
    ],
)
def test_B5_further_cases_that_failed(text: str, said: str) -> None:
    assert verdict(text).sentence == said


WRONG = "EXEC @{}\n[FAILED] result[0]: metadata is 4xi16; expected that the view matches 4xsi16; expected that\n"
ONE = "Result 0 (counted from 0) of fill is not the expected one: metadata is 4xi16, expected was 4xsi16"


@pytest.mark.invariant("beside.B5")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WRONG.format("fill"), f"{ONE}."),
        (WRONG.format("fill") + WRONG.format("drain"), f"{ONE}, and 1 more function failed: drain."),
        (WRONG.format("fill") + WRONG.format("fill").partition("\n")[2].replace("[0]", "[1]"), f"{ONE}."),
    ],
)
def test_B5_functions_whose_results_are_wrong(text: str, said: str) -> None:
    assert verdict(text).sentence == said


def test_alone_it_is_no_failure() -> None:
    assert verdict(f"{LINES}{CALLER.format(9)}{LINES}").sentence.startswith("No known error in 1 log")


_DIFFERS = (
    "Mismatched elements: 6 / 12 (50.0%)\nGreatest absolute difference: 0.75 at index (2, 1) (up to 1e-05 allowed)\n"
)
_STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))


@pytest.mark.invariant("beside.D1")
@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        (_STEPS, "", "diverged"),
        ("", _STEPS, "unknown"),
        ("", "==== 4 passed in 0.31s ====\n", "exited"),
        ("", "==== 3 passed, 1 xfailed in 0.31s ====\n", "exited"),
    ],
)
def test_D1_a_comparison_without_its_exception_diverges_unless_its_run_goes_on(
    before: str, after: str, state: str
) -> None:
    assert verdict(before + _DIFFERS + after).state.value == state


RAN = 'Traceback (most recent call last):\n  File "/home/ann/plant/{0}.py", line {1}, in {0}\n    go()\n{2}\n'
CHILD = RAN.format("sweep", 9, "subprocess.CalledProcessError: Command '['fill']' returned non-zero exit status 1.")
AGENT = "2026-05-04 10:00:{:02} - wandb.wandb_agent - {}\n"
NEXT = "".join(f"step {number} loss 0.1\n" for number in range(9))
GAVE_UP = AGENT.format(59, "ERROR - Detected 3 failed runs in a row, shutting down.")
FULL, SHUT = RAN.format("fill", 4, "MemoryError: the tank is full"), RAN.format("lid", 5, "ValueError: it is shut")


@pytest.mark.invariant("beside.B7")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            (FULL + CHILD + NEXT) * 2 + SHUT + CHILD + GAVE_UP,
            "Crashed in lid (lid.py:5): ValueError: it is shut, as 3 runs failed, others by MemoryError (2 times).",
        ),
        (SHUT + CHILD + GAVE_UP, "Crashed in lid (lid.py:5): ValueError: it is shut, as 3 runs failed."),
        (
            (FULL + CHILD) * 2 + SHUT + CHILD + GAVE_UP,
            "Crashed in fill (fill.py:4): MemoryError: the tank is full (printed 2 times), as 3 runs failed, others by ValueError.",
        ),
        (GAVE_UP + SHUT, "Crashed in lid (lid.py:5): ValueError: it is shut."),
        ((FULL + CHILD + NEXT) * 2 + SHUT, "Crashed in lid (lid.py:5): ValueError: it is shut."),
    ],
)
def test_B7_the_runs_of_an_agent_that_gave_up(text: str, said: str) -> None:
    assert verdict(text).sentence == said
