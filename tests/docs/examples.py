"""Real output for the pages of the commands: what they print of the recordings of the demos.

Other commands print what differs from box to box and from run to run; their pages show none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from livedbg.cli.hits import FindingsPrinter
from livedbg.cli.report import render
from livedbg.session.replay import last_update

__all__ = ["OUTPUTS", "RECORDINGS"]

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"


def _report(recording: str, form: str) -> str:
    update, _damage = last_update(RECORDINGS / f"{recording}.livedbg")
    return render(update, form).rstrip()


def _findings(recording: str, *, as_json: bool) -> str:
    update, _damage = last_update(RECORDINGS / f"{recording}.livedbg")
    return "\n".join(FindingsPrinter(as_json).lines(update))


OUTPUTS: dict[str, dict[str, Callable[[], str]]] = {
    "report": {
        "livedbg report server": lambda: _report("deadlock", "text"),
        "livedbg report --logs ./ascend-log": lambda: _report("ascend", "text"),
    },
    "watch": {"livedbg watch server": lambda: _findings("deadlock", as_json=False)},
}
"""Command -> command line -> its output. `server` is the program of `livedbg demo deadlock`."""
