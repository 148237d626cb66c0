"""How far a run was when its log ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.logs.last_words import progress_of
from tests.analysis.test_causes import look

_STEPS = "".join(f"iter {step}: loss {9 - step}.25, t: 41\n" for step in range(4))
_BUILD = "[7/90] Building CXX object tank.o\ntank.h:9:1: note: in pump\n[12/90] Building CXX object pump.o\n"


@pytest.mark.invariant("reached.R1")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_STEPS, "It had reached iter 3, at run.log:4"),
        (_STEPS + "saving the tank\n", "It had reached iter 3, at run.log:4"),
        (_BUILD, "It had reached 12 of 90, at run.log:3"),
        ("step:50/700 loss:2.1\nstep:100/700 loss:2.0\n", "It had reached step 100 of 700, at run.log:2"),
    ],
)
def test_R1_what_rose_is_said(tmp_path: Path, text: str, said: str) -> None:
    verdict = look(tmp_path, {"run.log": text}).verdict
    assert (verdict.state, said in verdict.sentence) == ("unknown", True), verdict.sentence


@pytest.mark.invariant("reached.R1")
@pytest.mark.parametrize("text", ["step 3\nstep 3\n", "iter 9 of the pump\n", "[3/9] Building a\n[2/9] Building b\n"])
def test_R1_what_stands_still_is_no_progress(tmp_path: Path, text: str) -> None:
    assert "It had reached" not in look(tmp_path, {"run.log": text}).verdict.sentence


def test_a_count_at_the_beginning_of_a_line_is_a_builds() -> None:
    assert progress_of("[3/9] 2026 was a good year") is None
    assert progress_of("[3/9] src/tank.c") == ("/9", 3.0, "3 of 9")
    assert progress_of("the step 4 failed") is None


def test_of_several_logs_the_first_ones_are_named(tmp_path: Path) -> None:
    said = look(tmp_path, {f"{name}.log": _STEPS for name in "abc"}).verdict.sentence
    assert "It had reached iter 3, at a.log:4; iter 3, at b.log:4 and 1 more" in said


def test_a_key_without_a_value_is_no_reason_against_a_step() -> None:
    assert progress_of("told(lid=3, checkpoint=None, metrics={'step': 9})") == ("step", 9.0, "step 9")
    assert progress_of("checkpoint=lid, step=9") is None


@pytest.mark.invariant("reached.R2")
@pytest.mark.parametrize(
    "line", ["Starting plant server on http://n4:80", "Listening at: http://n4:80", "Pumps: running on http://n4:80."]
)
def test_R2_a_server_that_started_is_said(tmp_path: Path, line: str) -> None:
    verdict = look(tmp_path, {"run.log": f"warm-up done in 3 s\n{line}\nRoute: /docs, Methods: GET\n"}).verdict
    assert verdict.state == "unknown"
    assert "A server had started on http://n4:80, at run.log:2" in verdict.sentence


@pytest.mark.invariant("reached.R2")
@pytest.mark.parametrize(
    "text",
    [
        "Starting plant server on http://n4:80\nShutting down\n",
        "The server is not running on http://n4:80\n",
        "see the lid at http://n4:80\n",
    ],
)
def test_R2_one_that_stops_is_not(tmp_path: Path, text: str) -> None:
    assert "A server had started" not in look(tmp_path, {"run.log": text}).verdict.sentence


_RESULTS = "====\nBest epoch 2: acc: 0.89, nmi: 0.7\n"


@pytest.mark.invariant("reached.R3")
@pytest.mark.parametrize(
    "results",
    [
        _RESULTS,
        "Pumps: 4\nAverage pump time: 31.2 ms\nTokens/s: 2635.7\n",
        "Final score = 0.7\nsaved to out/tank.pt\n",
        "Total elapsed time: 81.2 s\n",
    ],
)
def test_R3_results_that_come_once_at_the_end_speak_for_a_whole_run(tmp_path: Path, results: str) -> None:
    verdict = look(tmp_path, {"run.log": _STEPS + results}).verdict
    assert verdict.state == "unknown"
    assert ", and its results, at run.log:" in verdict.sentence
    assert verdict.sentence.endswith("It seems to have completed.")


@pytest.mark.invariant("reached.R3")
@pytest.mark.parametrize(
    "text",
    [
        _STEPS + _RESULTS + _STEPS.replace("iter ", "iter 1") + _RESULTS,  # after each epoch
        "step 1\nstep 2\n" + _RESULTS,  # the first epoch's, perhaps
        _STEPS + "total steps: 400\nbest of 3\n",  # nothing measured
        _STEPS + _RESULTS + "waiting for the tank\n",
        _STEPS + _RESULTS + "loading the tank\n" * 60,
        _STEPS + "Best so far: loss 3.2, epoch 2/40, total time: 3 s\n",  # it goes on
        _STEPS + "mean time: unknown\n",
    ],
)
def test_R3_what_an_epoch_prints_too_does_not(tmp_path: Path, text: str) -> None:
    assert "It seems to have completed" not in look(tmp_path, {"run.log": text}).verdict.sentence
