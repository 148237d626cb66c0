"""The rules of the IREE system: dispatches that run, semaphores that nobody signals."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.iree.rules.dispatches import (
    MadeNaN,
    RunningDispatch,
    RunningSubmission,
    TracedDispatch,
    VulkanLogged,
)
from livedbg.adapters.iree.rules.semaphores import MissingSignal, OpenCircle
from livedbg.analysis.rules.base import Rule


def rules() -> Sequence[Rule]:
    """The rules for IREE, most specific first."""
    return (
        *(MissingSignal(), OpenCircle(), RunningDispatch(), RunningSubmission()),
        *(MadeNaN(), TracedDispatch(), VulkanLogged()),
    )
