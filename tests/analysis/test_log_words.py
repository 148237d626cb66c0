"""What is said where only logs were read, and they show no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.analysis.test_causes import look

STEPS = "".join(f"step {number} loss 0.1\n" for number in range(3))


@pytest.mark.parametrize(
    ("logs", "sentence"),
    [
        ({}, "No log was found in {folder}."),
        ({"run.log": ""}, "1 log, and no line in it."),
        ({"run.log": STEPS}, "No error was found in 1 log, and no line that says that the run completed: how it ended"),
        ({"run.log": f"{STEPS}Training finished\n"}, "The run says that it completed; no error was found in 1 log."),
    ],
)
def test_it_is_never_said_that_all_is_well(logs: dict[str, str], sentence: str, tmp_path: Path) -> None:
    found = look(tmp_path, logs)
    assert found.verdict.state is VerdictState.UNKNOWN
    assert found.verdict.sentence.startswith(sentence.format(folder=tmp_path))


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
