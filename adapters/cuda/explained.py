"""Which logged exceptions the rules for CUDA report the cause of."""

from __future__ import annotations

from typing import Final

from livedbg.adapters.cuda.facts import about
from livedbg.model import ExceptionHit
from livedbg.model.snapshot import Snapshot

_WORDS: Final = (
    *("CUDA error", "CUDA driver error", "CUDA out of memory", "cuDNN error", "unhandled cuda error", "Cuda failure"),
    *("Triton Error [CUDA]", "cudaError", "CUDA_ERROR_"),
)
"""Messages of exceptions that a CUDA error causes contain these."""


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """True if CUDA caused an exception, and a diagnostic of the same process says which error came first.

    Args:
        hit: an exception that a log shows.
        snapshot: the state.
    """
    return any(word in hit.message for word in _WORDS) and any(
        diagnostic.system == "cuda"
        and not diagnostic.code.startswith(("nccl-", "nvrm-"))
        and about(diagnostic).process == (hit.process or "")
        for diagnostic in snapshot.diagnostics.values()
    )
