"""The rules of the PyTorch system."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.pytorch.aoti.rules import rules as aoti_rules
from livedbg.adapters.pytorch.rules import (
    apart,
    collectives,
    compile_logs,
    compiling,
    dumps,
    ended,
    job_logs,
    killed,
    late,
    loaders,
    notes,
    progress,
    rendezvous,
    restarts,
    rpc,
    timeouts,
)
from livedbg.analysis.rules.base import Rule


def rules() -> Sequence[Rule]:
    """Return the rules of this room."""
    return (
        *collectives.rules(),
        *apart.rules(),
        *rpc.rules(),
        *rendezvous.rules(),
        *restarts.rules(),
        *ended.rules(),
        *killed.rules(),
        *late.rules(),
        *loaders.rules(),
        *notes.rules(),
        *progress.rules(),
        *dumps.rules(),
        *compiling.rules(),
        *compile_logs.rules(),
        *aoti_rules(),
        *timeouts.rules(),
        *job_logs.rules(),
    )
