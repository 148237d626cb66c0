"""Failures of AMD's runtime and driver, as logs tell them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from livedbg.adapters.rocm import debugger_decoder, log_lines
from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.rules.base import Rule
from livedbg.analysis.rules.said import SaidRule

__all__ = ["rules"]

_ANY_LINE: Final = re.compile("")  # what is typed in a debugger after a stop is no progress of the program


def rules() -> Sequence[Rule]:
    """The rules of this room."""
    return (
        SaidRule(
            "rocm-debugger",
            "A rocgdb session stopped at a signal in a kernel: a crash. Or it shows which kernels ran when it looked: "
            "`unknown`, for one look does not tell a hang from a long kernel.",
            "rocm",
            {debugger_decoder.STOPPED: VerdictState.CRASHED, debugger_decoder.DISPATCHES: VerdictState.UNKNOWN},
            own_lines=_ANY_LINE,
        ),
        SaidRule(
            "rocm-fault",
            "A kernel on an AMD GPU faulted: an access to memory that is not mapped, a hardware exception, an aborted "
            "queue. The runtime ends the process for it. Which kernel it was is not said: launches are asynchronous.",
            "rocm",
            {log_lines.FAULT: VerdictState.CRASHED},
        ),
        SaidRule(
            "rocm-error",
            "A call of HIP returned an error, or the memory of an AMD GPU ran out. A crash, unless the log goes on.",
            "rocm",
            {log_lines.CALL: VerdictState.CRASHED, log_lines.MEMORY: VerdictState.CRASHED},
        ),
        SaidRule(
            "rocm-kernel",
            "The amdgpu driver logged a page fault, or a ring that hung and a reset of the GPU. `unknown`: the "
            "kernel's "
            "log does not say whether that ended the job.",
            "rocm",
            {log_lines.HARDWARE: VerdictState.UNKNOWN},
        ),
    )
