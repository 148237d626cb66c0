"""An error that only says that another process failed: its cause is not in the log, unless it is."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

FOLLOWS = (
    'Traceback (most recent call last):\n  File "/w/pumps.py", line 46, in await_pumps\n    raise failed\n'
    "PumpError: start of the pumps failed due to an error in a {process}.\n"
)
ROOT = 'Traceback (most recent call last):\n  File "/w/tank.py", line 7, in fill\n    open(x)\nOSError: no water\n'
UNSEEN = "Its cause is in another process, and not in these logs."


@pytest.mark.invariant("causes.C14")
@pytest.mark.parametrize("process", ["background process", "worker process", "child process", "subprocess"])
def test_the_cause_is_in_another_process(process: str) -> None:
    judged = verdict(FOLLOWS.format(process=process))
    assert judged.state is VerdictState.CRASHED
    assert judged.sentence.startswith("Crashed in await_pumps (pumps.py:46): PumpError: start of the pumps failed")
    assert judged.sentence.endswith(UNSEEN)


@pytest.mark.invariant("causes.C14")
def test_a_cause_that_is_in_the_log_is_not_missed() -> None:
    follows = FOLLOWS.format(process="background process")
    assert UNSEEN not in verdict(ROOT + follows).sentence
    assert UNSEEN not in verdict(ROOT, follows).sentence
    logged = "2026-01-01 10:00:01,000 - tank - ERROR - no water\n"
    assert UNSEEN not in verdict(logged + follows).sentence
    assert UNSEEN not in verdict(f"{logged}{logged.replace('ERROR - no', 'INFO - some')}{follows}").sentence
    assert UNSEEN not in verdict(FOLLOWS.format(process="pipe")).sentence
