"""Judges sessions of rocgdb and dumps of the debug agent; the signatures of the room have their own verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.rocm import debugger_decoder
from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.postmortem.survived import any_line
from livedbg.analysis.rules.base import Rule
from livedbg.analysis.rules.said import SaidRule


def rules() -> Sequence[Rule]:
    """Return the rule of this room."""
    return (
        SaidRule(
            "rocm-debugger",
            "A rocgdb session stopped at a signal in a kernel: a crash. Or it shows which kernels ran when it looked: "
            "`unknown`, for one look does not tell a hang from a long kernel.",
            "rocm",
            {debugger_decoder.STOPPED: VerdictState.CRASHED, debugger_decoder.DISPATCHES: VerdictState.UNKNOWN},
            own_lines=any_line,  # what is typed in a debugger after a stop is no progress of the program
        ),
    )
