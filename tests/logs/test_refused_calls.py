"""Calls that a bound function refused: the message has several paragraphs."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

HEAD = 'Traceback (most recent call last):\n  File "/w/run.py", line 9, in main\n    pump.fill(tank, level)\n'
SAID = "TypeError: fill(): incompatible function arguments. The following argument types are supported:\n"
ONE = "    1. (tank: pump.Tank, level: float) -> None\n"
TWO = "    2. (level: float) -> None\n"
GIVEN = "\nInvoked with: <Tank 7>, '3'\n"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (SAID + ONE + GIVEN, ": it was given <Tank 7>, '3'; it takes (tank: pump.Tank, level: float) -> None."),
        (SAID + ONE + TWO + GIVEN, ": it was given <Tank 7>, '3'."),
        (SAID + ONE + "\nInvoked with types: Tank, str\nat noon\n", ": it was given Tank, str; it takes (tank: "),
    ],
)
def test_what_was_given_stands_in_the_next_paragraph(message: str, said: str) -> None:
    judged = verdict(HEAD + message)
    assert judged.state is VerdictState.CRASHED
    begun = f"Crashed in main (run.py:9): TypeError: fill(): incompatible function arguments{said}"
    assert judged.sentence.startswith(begun)


def test_a_paragraph_of_something_else_is_none_of_the_message() -> None:
    steps = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
    assert verdict(f"{HEAD}{SAID}{ONE}\n{steps}").state is not VerdictState.CRASHED
    judged = verdict(HEAD + SAID + ONE)
    assert "supported: 1. (tank: pump.Tank, level: float) -> None" in judged.sentence
