"""Exceptions that several processes printed into each other's lines."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.text.tangled import untangled
from tests.logs.reading import verdict

_HEAD = "Traceback (most recent call last):\n"
_FRAME = '  File "/w/tank.py", line 47, in fill'
_SOURCE = "    pour(" * 3
DRY = "pour() must have water in tank 3"


@pytest.mark.invariant("tangled.N1")
@pytest.mark.parametrize(
    ("headers", "raised", "says"),
    [
        (
            3,
            f"TankErrorTankErrorTankError: : : {DRY}{DRY}{DRY}\n",
            f"TankError: {DRY}. 3 processes printed it at once.",
        ),
        (
            3,
            f"TankErrorTankError: : TankError{DRY}{DRY}\n: {DRY}\n",
            f"TankError: {DRY}. 3 processes printed it at once.",
        ),
        (2, f"pump.TankError: pump.TankError{DRY}: {DRY}\n", f"pump.TankError: {DRY}. 2 processes printed it at once."),
        (2, f"TankError: {DRY}TankError: {DRY}\n", f"TankError: {DRY}. 2 processes printed it at once."),
        (1, f"TankError: {DRY}: TankError: {DRY}\n", f"TankError: {DRY}: TankError: {DRY}."),  # one quotes its own
        (2, "TankError: no water, as TankErrors are rare\n", "TankError: no water, as TankErrors are rare."),
    ],
)
def test_N1_what_several_processes_printed_into_one_line_is_said_once(headers: int, raised: str, says: str) -> None:
    frames = "".join(f"{_FRAME}\n" for _ in range(headers))
    said = verdict(f"step 1\n{_HEAD * headers}{frames}{_SOURCE}\n{raised}")
    assert said.state is VerdictState.CRASHED
    assert said.sentence == f"Crashed in fill (tank.py:47): {says}"


@pytest.mark.invariant("tangled.N2")
def test_N2_of_messages_that_differ_the_name_alone_is_cleaned() -> None:
    told = untangled("TankErrorTankError", ": no water in 1no water in 2", False)
    assert told == ("TankError", "no water in 1no water in 2", 2)
    assert untangled("TankError", "no water in 1TankError: no valve in 2", True) is None
    assert untangled("TankError", "no water", True) is None


def test_frames_that_two_processes_wrote_into_one_line_are_one() -> None:
    said = verdict(f"step 1\n{_HEAD}{_HEAD}{_FRAME}{_FRAME}\n\n{_SOURCE}\nTankErrorTankError: : {DRY}{DRY}\n\n")
    assert said.sentence == f"Crashed in fill (tank.py:47): TankError: {DRY}. 2 processes printed it at once."
