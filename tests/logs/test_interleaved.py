"""Ends of C++ programs that several processes wrote into each other's lines."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

HEAD = "terminate called after throwing an instance of '"
TIMED_OUT = (
    "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminated with exception: "
    "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
)
SAYS_TIME_OUT = "Rank 2 timed out in all_reduce #7 of group default_pg."


@pytest.mark.parametrize(
    ("announced", "says"),
    [
        (f"{HEAD}{HEAD}pump::TankErrorpump::TankError'\n'\n", "Crashed: pump::TankError: no water."),
        (f"{HEAD}{HEAD}pump::TankErrorpump::ValveError'\n'\n", "Crashed: std::exception: no water."),
        (f"{HEAD}pump::Tank{HEAD}pump::ErrorValveError'\n'\n", "Crashed: std::exception: no water."),
        (f"{HEAD}pump::TankError\n{HEAD}pump::ValveError'\n'\n", "Crashed: std::exception: no water."),
        (f"{HEAD}pump::TankErrorpump::TankError'\n'\n", "Crashed: pump::TankError: no water."),
        (f"{HEAD}pump::TankError'\n{HEAD}pump::TankError'\n", "Crashed: pump::TankError: no water."),
        (f"{HEAD}pump::TankError'\n", "Crashed: pump::TankError: no water."),
    ],
)
def test_a_name_is_said_only_where_it_is_surely_one(announced: str, says: str) -> None:
    said = verdict(f"step 3 loss 0.2\n{announced}  what():  no water\n")
    assert (said.state, said.sentence) == (VerdictState.CRASHED, says)
    timed_out = verdict(f"step 3 loss 0.2\n{announced}{TIMED_OUT}")
    assert timed_out.sentence == SAYS_TIME_OUT


def test_texts_that_two_wrote_into_one_line_are_told_without_their_labels() -> None:
    text = f"{HEAD}{HEAD}pump::TankErrorpump::TankError'\n'\n  what():    what():  no water\nno valve\n"
    assert verdict(text).sentence == "Crashed: pump::TankError: no water."


def test_what_has_no_text_of_its_own_does_not_get_that_of_the_next() -> None:
    said = verdict(f"step 3 loss 0.2\n{HEAD}int'\n{HEAD}c10::DistBackendError'\n{TIMED_OUT}")
    assert said.sentence.startswith("Crashed: int. It stands first in the log. Rank 2 followed")


def test_a_mixed_announcement_alone_is_a_crash_without_a_name() -> None:
    said = verdict(f"step 3 loss 0.2\n{HEAD}pump::TankError{HEAD}''\n")
    assert (said.state, said.sentence) == (
        VerdictState.CRASHED,
        "Crashed: std::terminate: terminate called by an exception.",
    )
