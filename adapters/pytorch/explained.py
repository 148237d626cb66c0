"""Which logged exceptions the rules for PyTorch report the cause of."""

from __future__ import annotations

from livedbg.adapters.pytorch.traces import left_out
from livedbg.model import ExceptionHit
from livedbg.model.snapshot import Snapshot

__all__ = ["explains"]


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """True for one that torch.compile logged as it went on, and for torchrun's account of its workers."""
    if left_out.explains(hit, snapshot):
        return True
    return hit.type.rpartition(".")[2] == "ChildFailedError" and any(
        said.code in ("elastic-root", "elastic-failed") and any(proof.log == hit.source for proof in said.evidence)
        for said in snapshot.diagnostics.values()
    )
