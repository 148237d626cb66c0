"""What of a state `livedbg catch` prints."""

from __future__ import annotations

import pytest

from livedbg.cli.hits import HitPrinter
from livedbg.model import ExceptionHit
from livedbg.model.catchpoints import Catchpoint
from livedbg.model.snapshot import Snapshot


@pytest.mark.parametrize("caught_only", [False, True])
def test_what_logs_tell_of_was_not_caught(capsys: pytest.CaptureFixture[str], caught_only: bool) -> None:
    hits = (
        ExceptionHit(id="1", type="Caught", message="", catchpoint="S1"),
        ExceptionHit(id="2", type="Logged", message="", catchpoint="log: traceback"),
        ExceptionHit(id="3", type="Told", message="", catchpoint="cuda: error"),
    )
    point = Catchpoint(id="S1", process="process:box/7", pattern="Caught", engine="gdb")
    snapshot = Snapshot(exceptions={hit.id: hit for hit in hits}, catchpoints={point.id: point})
    HitPrinter(as_json=False, caught_only=caught_only).show(snapshot)
    said = capsys.readouterr().out
    assert [hit.type for hit in hits if hit.type in said] == (
        ["Caught"] if caught_only else ["Caught", "Logged", "Told"]
    )
