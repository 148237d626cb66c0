"""What is worth telling where nothing else is known of how a run ended."""

from __future__ import annotations

import pytest

from tests.logs.reading import verdict

REFUSED = """***Runtime***: Try to schedule fusion un-segmented:

Scheduler _pointwise_ ***rejected*** because : two pumps
***Runtime***: Try to schedule fusion segmented:
"""
LIMIT = """\
W1101 10:00:01.222000 3111 torch/_dynamo/convert_frame.py:1016] [0/8] torch._dynamo hit config.recompile_limit (8)
W1101 10:00:01.222000 3111 torch/_dynamo/convert_frame.py:1016] [0/8]    function: 'attend' (/w/net.py:14)
W1101 10:00:01.222000 3111 torch/_dynamo/convert_frame.py:1016] [0/8]    last reason: 0/7: len(past) == 7
"""
UNKNOWN = "No errors in 1 log, but no completion message either: the outcome is unknown."


@pytest.mark.invariant("verdict.V3")
def test_V3_it_is_told_behind_that_nothing_is_known() -> None:
    told = verdict(f"{REFUSED}pumps: 3\n")
    assert (told.state, told.chief) == ("unknown", "F1")
    assert told.sentence.startswith(f"{UNKNOWN} Noted: nvFuser cuts the fusion into segments, as no scheduler takes")
    told = verdict(f"{LIMIT}pumps: 3\n")
    assert told.state == "unknown"
    assert told.sentence.startswith(f"{UNKNOWN} Noted: Frame 0 of attend (net.py:14) has reached recompile_limit (8)")


@pytest.mark.invariant("verdict.V3")
@pytest.mark.parametrize("end", ["Segmentation fault (core dumped)\n", "Training finished\n"])
def test_V3_it_changes_no_other_verdict(end: str) -> None:
    assert verdict(f"{REFUSED}{end}").state == verdict(end).state
    assert "Noted" not in verdict(f"{REFUSED}{end}").sentence


def test_a_line_that_is_known_to_be_harmless_speaks_of_no_failure() -> None:
    twice = (
        "Unable to register cuTap factory: Attempting to register factory for plugin cuTap when one has already been"
    )
    told = verdict(f"E0000 00:00:1773888485.503255   46822 cuda_pump.cc:83] {twice} registered\npumps: 3\n")
    assert (told.state, told.sentence) == ("unknown", UNKNOWN)
    assert "speaks of a failure" in verdict("I am unable to register it\npumps: 3\n").sentence
