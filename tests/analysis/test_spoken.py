"""Lines that speak of a failure where no line calls itself an error; and logs in which none is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.analysis.test_causes import look
from tests.logs.reading import verdict

STEPS = "".join(f"step {number} loss 0.1\n" for number in range(3))


@pytest.mark.invariant("last_lines.E7")
@pytest.mark.parametrize(
    "line",
    [
        "[compute] Vulkan failure stage=queue-submit result=-4",
        "caught signal 11, aborting",
        "collect: rc=-5",
        "      Exit Code:    137",
    ],
)
def test_P1_it_is_shown_and_its_end_is_not_known(line: str, tmp_path: Path) -> None:
    found = look(tmp_path, {"run.log": f"{STEPS}{line}\n"})
    assert found.verdict.state is VerdictState.UNKNOWN
    assert found.verdict.sentence == (
        f"No known error in 1 log, but 1 line speaks of a failure, at run.log:4: {line.strip()}. "
        "The outcome is unknown."
    )
    (finding,) = found.findings.values()
    assert finding.evidence[0].text == line.strip()
    assert "step 2 loss 0.1" in "\n".join(proof.text for proof in finding.evidence[1:])


def test_how_many_there_are_and_the_first_three(tmp_path: Path) -> None:
    found = look(tmp_path, {"run.log": STEPS + "".join(f"part {n} has failed\n" for n in range(9)) + STEPS})
    (finding,) = found.findings.values()
    assert "9 lines speak of a failure, the first at run.log:4: " in finding.sentence
    assert [proof.place for proof in finding.evidence[:3]] == ["run.log:4", "run.log:5", "run.log:6"]
    assert finding.evidence[-1].text == "step 2 loss 0.1"


def test_of_those_that_stand_together_at_the_end_the_first_is_said(tmp_path: Path) -> None:
    old = "failed to open libpump.so, built without it\n"
    found = look(tmp_path, {"run.log": old + STEPS * 9 + "the pump has failed\nso the valve failed\n"})
    assert found.verdict.sentence == (
        "No known error in 1 log, but 3 lines speak of a failure, the first of the last ones at run.log:29: the pump "
        "has failed. The outcome is unknown."
    )


@pytest.mark.invariant("last_lines.E7")
@pytest.mark.parametrize(
    "log",
    [
        "part 3 has failed\nTraining finished\n",
        "part 3 has failed\n[ERROR] the frobnicator has lost its flux\n",
        "the run never failed\n",
        "caught: the last check has failed\n",
        '21^done,value="the last check failed"\n',
        '~"Could not find the frame\\n"\n',
    ],
)
def test_P2_where_something_else_is_known_or_nothing_failed(log: str, tmp_path: Path) -> None:
    found = look(tmp_path, {"run.log": STEPS + log})
    assert "speaks of a failure" not in found.verdict.sentence
    assert [one for one in found.findings.values() if one.rule == "failure-lines"] == []


@pytest.mark.invariant("last_lines.E7")
@pytest.mark.parametrize(("lines", "told"), [(0, True), (9, True), (40, False)])
def test_P2_a_warning_after_which_the_log_went_on_is_no_line_of_a_failure(
    lines: int, told: bool, tmp_path: Path
) -> None:
    log = "WARNING 03-04 10:00:01 [plan.py:4] the plan of the valves has failed, each opens alone\n"
    log += "".join(f"INFO 03-04 10:00:02 [fill.py:{n + 7}] tank {n} is full\n" for n in range(lines))
    said = look(tmp_path, {"run.log": log}).verdict
    assert said.state is VerdictState.UNKNOWN and ("speaks of a failure" in said.sentence) is told


_GATHERS = (
    "[rank3]: Traceback (most recent call last):\n{}"
    '[rank3]:   File "/w/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 81, in all_reduce\n'
    "[rank3]:     work = group.allreduce([tensor], opts)\n"
    "[rank3]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:7, "
    "invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.26.5\n"
    "[rank3]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n[rank3]: Last error:\n"
    "[rank3]: Duplicate GPU detected : rank 0 and rank 2 both on CUDA device 3000\n"
)
_OWN = '[rank3]:   File "/w/train.py", line 31, in step\n[rank3]:     dist.all_reduce(grads)\n'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (_GATHERS.format(""), ", at all_reduce (distributed_c10d.py:81)."),
        (_GATHERS.format(_OWN), ", at step (train.py:31)."),
    ],
)
def test_a_frame_of_a_framework_is_the_place_where_no_other_is_known(text: str, place: str) -> None:
    assert verdict(text).sentence.endswith(place)


@pytest.mark.parametrize(
    ("symbol", "said"),
    [
        ("_ZN5plant4openESs", "undefined symbol plant::open, with the old ABI's std::string."),
        ("_ZN5plant4openEi", "undefined symbol plant::open."),
        ("plant_open", "undefined symbol plant_open."),
    ],
)
def test_a_missing_symbol_is_told_in_words(symbol: str, said: str) -> None:
    lacks = f"Error in dlopen: /w/pump.so: undefined symbol: {symbol}"
    thrown = f"terminate called after throwing an instance of 'plant::Error'\n  what():  {lacks}\n"
    assert verdict(thrown).sentence.endswith(f": pump.so does not fit the libraries it is loaded with: {said}")
