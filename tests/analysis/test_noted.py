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
UNKNOWN = "No known error in 1 log, and no completion message: the outcome is unknown."


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


@pytest.mark.invariant("verdict.V4")
def test_V4_what_is_understood_of_lines_that_speak_of_a_failure_comes_before_the_raw_ones() -> None:
    lost = "[W112 09:14:03.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=62, addr=[n1]:40012, {}"
    lost = lost.format("remote=[n0]:29500): failed to recv, got 0 bytes\n")
    told = verdict(f"pumps: 3\n{lost}the valve has failed\n")
    assert told.state == "unknown"
    assert told.sentence.startswith("The job's store at n0:29500 went away (failed to recv, got 0 bytes)")
    assert told.sentence.endswith(" How the run ended is not known.")
    assert verdict(f"{lost}Training finished\n").state == verdict("Training finished\n").state


@pytest.mark.invariant("verdict.V4")
def test_V4_a_warning_that_speaks_of_no_failure_stays_behind_them() -> None:
    assert "1 line speaks of a failure" in verdict(f"{LIMIT}the valve has failed\n").sentence
