"""The rules of the IREE system: dispatches that run, semaphores that nobody signals."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.iree.rules import circles, dispatches, logged, semaphores, submissions, traces
from livedbg.analysis.rules.base import Rule


def rules() -> Sequence[Rule]:
    """The rules for IREE, most specific first."""
    return (
        *semaphores.rules(),
        *circles.rules(),
        *dispatches.rules(),
        *submissions.rules(),
        *traces.rules(),
        *logged.rules(),
    )
