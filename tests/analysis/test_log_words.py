"""What is said where only logs were read, and they show no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.analysis.test_causes import look

BAR = "{}|█████     | {}/3 [00:01<00:00,  2.00it/s]\n"
STEPS = "".join(f"step {number} loss 0.1\n" for number in range(3))


@pytest.mark.parametrize(
    ("logs", "sentence"),
    [
        ({}, "No log was found in {folder}."),
        ({"run.log": ""}, "1 log, and no line in it."),
        ({"run.log": STEPS}, "No known error in 1 log, and no completion message: the outcome is unknown."),
    ],
)
def test_it_is_never_said_that_all_is_well(logs: dict[str, str], sentence: str, tmp_path: Path) -> None:
    found = look(tmp_path, logs)
    assert found.verdict.state is VerdictState.UNKNOWN
    assert found.verdict.sentence.startswith(sentence.format(folder=tmp_path))


@pytest.mark.parametrize(
    ("logs", "state", "words"),
    [
        ({"run.log": f"{STEPS}Training finished\n"}, VerdictState.EXITED, "at run.log:4; no error is known"),
        ({"run.log": f"{STEPS}Training finished\nclosed 3 files\n"}, VerdictState.EXITED, "at run.log:4"),
        ({"run.log": f"{STEPS}Training finished\n{BAR.format('100%', 3)}"}, VerdictState.EXITED, "at run.log:4"),
        ({"run.log": f"{STEPS}Training finished\n{BAR.format('66%', 2)}"}, VerdictState.UNKNOWN, "its log goes on"),
        ({"run.log": f"{STEPS}Training finished\n{STEPS}"}, VerdictState.UNKNOWN, "its log goes on, or another"),
        ({"run.log": f"{STEPS}Training finished\nSaving the model to out\n"}, VerdictState.EXITED, "completed"),
        ({"run.log": f"{STEPS}Training finished\nLoading the test set\n"}, VerdictState.UNKNOWN, "its log goes on"),
        ({"rank0.log": "Training finished\n", "rank1.log": STEPS}, VerdictState.UNKNOWN, "rank 1 did not say so"),
        ({"run.out": "Training finished\n", "run.err": "UserWarning: old\n"}, VerdictState.EXITED, "in 2 logs"),
        ({"run.log": "Training finished\n[ERROR] it lost its flux\n"}, VerdictState.UNKNOWN, "1 error line"),
        ({"run.log": "..\n-----\nRan 2 tests in 0.1s\n\nOK\n"}, VerdictState.EXITED, "passed (2 tests)"),
    ],
)
@pytest.mark.invariant("completed.C1")
@pytest.mark.invariant("completed.C2")
def test_a_run_that_says_that_it_completed(
    logs: dict[str, str], state: VerdictState, words: str, tmp_path: Path
) -> None:
    found = look(tmp_path, logs)
    assert found.verdict.state is state
    assert words in found.verdict.sentence


RAISED = 'Traceback (most recent call last):\n  File "/w/a.py", line 3, in f\n    g()\nKeyError: 1\n'


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (f"{STEPS}done, 3 steps\n", VerdictState.EXITED),
        (f"{STEPS}Finished in 2 min 3 s.\n", VerdictState.EXITED),
        (f"{STEPS}Done loading model\n", VerdictState.UNKNOWN),
        (f"{STEPS}finished warmup\n", VerdictState.UNKNOWN),
        (f"{STEPS}done\nstep 3 loss 0.1\n", VerdictState.UNKNOWN),
        ("done 10 files\ndone 20 files\ndone 30 files\n", VerdictState.UNKNOWN),  # progress
        (f"{STEPS}{RAISED}done\n", VerdictState.CRASHED),  # a shell's `echo done`
        (f"{STEPS}{RAISED}step 3 loss 0.1\ndone\n", VerdictState.EXITED),
        (f"{STEPS}[ERROR] it lost its flux\ndone\n", VerdictState.UNKNOWN),
        (f"[ERROR] it lost its flux\n{STEPS}PASS: {{'pumps': 2}}\n", VerdictState.EXITED),
        (f"{STEPS}PASS: {{'pumps': 2}}\nPASS: {{'pumps': 3}}\n", VerdictState.UNKNOWN),
        (f"{STEPS}PASS: {{'pumps': 2}}\n{RAISED}", VerdictState.CRASHED),
    ],
)
@pytest.mark.invariant("completed.C3")
def test_a_bare_word_that_says_that_a_program_is_done(text: str, state: VerdictState, tmp_path: Path) -> None:
    assert look(tmp_path, {"run.log": text}).verdict.state is state


NO_PUMP = "plant: error: no pump is known by this name\n"
NO_FLUX = "[ERROR] it lost its flux\n"


@pytest.mark.parametrize(
    ("logs", "state"),
    [
        ({"run.out": f"{STEPS}Training finished\n", "run.err": f"{NO_FLUX}{STEPS}"}, VerdictState.EXITED),
        ({"run.out": f"{STEPS}Training finished\n", "run.err": f"{STEPS}{NO_PUMP}"}, VerdictState.UNKNOWN),
        ({"run.out": f"{STEPS}done\n", "run.err": f"{STEPS}{NO_PUMP}"}, VerdictState.CRASHED),
        ({"run.out": f"{STEPS}done\n", "run.err": f"{NO_FLUX}{STEPS}"}, VerdictState.UNKNOWN),
        ({"run.out": f"{STEPS}Training finished\n", "run.err": RAISED}, VerdictState.CRASHED),
        ({"a.out": f"{STEPS}Training finished\n", "b.err": f"{NO_FLUX}{STEPS}"}, VerdictState.UNKNOWN),
    ],
)
@pytest.mark.invariant("completed.C5")
@pytest.mark.invariant("last_lines.E19")
def test_C5_error_lines_beside_the_completion_in_the_other_stream(
    logs: dict[str, str], state: VerdictState, tmp_path: Path
) -> None:
    assert look(tmp_path, logs).verdict.state is state


def test_binary_data_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(bytes(range(256)) * 20)
    found = look(tmp_path, {})
    assert found.verdict.sentence == "run.log holds binary data: it is no log, or damaged."
    assert found.verdict.state is VerdictState.UNKNOWN


def test_error_lines_that_nobody_understands_beside_a_run_that_completed(tmp_path: Path) -> None:
    text = f"{STEPS}[ERROR] the frobnicator has lost its flux\n{STEPS}Training finished\nERR! again\n"
    found = look(tmp_path, {"run.log": text})
    assert found.verdict.sentence == (
        "2 error lines that livedbg does not understand, the first at run.log:4: "
        "[ERROR] the frobnicator has lost its flux."
    )


def test_a_decoder_that_makes_nothing_of_an_error_line_does_not_hide_it(tmp_path: Path) -> None:
    found = look(tmp_path, {"run.log": "[ERROR] corrupted header, and a memory limit was exceeded\n"})
    assert found.verdict.sentence.startswith("1 error line that livedbg does not understand, at run.log:1")


CTRL_C = 'Traceback (most recent call last):\n  File "/w/a.py", line 3, in f\n    g()\nKeyboardInterrupt\n'
STAMPED = "2026-03-02 10:0{}:00 INFO the tank is open\n"


@pytest.mark.parametrize(
    ("above", "said"),
    [
        ("waiting for pump 3...\n", ', after it logged "waiting for pump 3": whether'),
        (
            f"{STAMPED.format(1)}waiting for pump 3...\n{STAMPED.format(8)}",
            ', after it logged "waiting for pump 3" and nothing for 7 min: whether',
        ),
        (f"waiting for pump 3...\n{STEPS}", ": whether"),  # it goes on after that
        (f"{STAMPED.format(1)}{STAMPED.format(8)}", ": whether"),
        ("done waiting\n", ": whether"),
    ],
)
def test_what_was_waited_for_above_an_interrupt(above: str, said: str, tmp_path: Path) -> None:
    found = look(tmp_path, {"run.log": STEPS + above + CTRL_C}).verdict
    assert found.state is VerdictState.UNKNOWN
    assert found.sentence == f"Interrupted by Ctrl-C in f (a.py:3){said} it hung is not known."
