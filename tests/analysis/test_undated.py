"""Times of a log that nobody wrote down."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from livedbg.model.events import LogSourceSeen
from livedbg.session.rulebook import diagnose
from tests.logs.reading import read

TRACEBACK = 'Traceback (most recent call last):\n  File "fill.py", line 3, in fill\nValveError: shut\n'
LOG = "2025-03-03 10:00:01,250 INFO the pump is open\n2025-03-03 10:00:02,250 ERROR it fails\n" + TRACEBACK


@pytest.mark.invariant("undated.U1")
@pytest.mark.parametrize("undated", [False, True])
def test_U1_a_guess_is_not_said(*, undated: bool) -> None:
    world = read(LOG)
    source = next(iter(world.snapshot().log_sources.values()))
    world.store.apply(LogSourceSeen(source=replace(source, undated=undated), **world.stamp()))
    diagnosis = diagnose(world.snapshot())
    assert diagnosis.verdict.state == "crashed"
    assert (diagnosis.verdict.since_wall_ns is None) is undated
    assert all((proof.at_wall_ns is None) is undated for proof in diagnosis.findings["F1"].evidence[:1])
