"""Which logged exceptions the rules for PyTorch report the cause of."""

from __future__ import annotations

from livedbg.adapters.pytorch.job_logs import decoder as job_logs
from livedbg.adapters.pytorch.traces import left_out
from livedbg.model import ExceptionHit
from livedbg.model.snapshot import Snapshot

__all__ = ["explains"]


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """True for one that torch.compile logged as it went on, and for one whose message the rules for jobs judge."""
    return left_out.explains(hit, snapshot) or job_logs.explains(hit, snapshot)
