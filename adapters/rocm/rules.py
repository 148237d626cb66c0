"""Failures of AMD's runtime and driver, as logs tell them."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.rocm import log_lines
from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.rules.base import Rule
from livedbg.analysis.rules.said import SaidRule

__all__ = ["rules"]


def rules() -> Sequence[Rule]:
    """The rules of this room."""
    return (
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
