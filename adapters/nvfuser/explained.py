"""Which logged exceptions the rules for nvFuser report the cause of."""

from __future__ import annotations

import re
from typing import Final

from livedbg.model import Evidence, ExceptionHit
from livedbg.model.snapshot import Snapshot

_OURS: Final = re.compile(
    r"INTERNAL ASSERT FAILED at \"?\S*(?:[Ff]user/|/csrc/|codegen/cuda/)|Error from segmentation group"
    r"|Detected exception while compiling fusion segments"
)
_THROWN: Final = ("log: traceback", "log: terminate")


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """True for an error of nvFuser, where a diagnostic from the same log says what failed.

    Args:
        hit: an exception that a log shows.
        snapshot: the state.
    """
    if hit.survived or hit.catchpoint not in _THROWN or _OURS.search(hit.message) is None:
        return False
    return any(
        said.system == "nvfuser" and said.code in ("group-failed", "failed") and _of_log(said.evidence, hit.source)
        for said in snapshot.diagnostics.values()
    )


def _of_log(evidence: tuple[Evidence, ...], source: str | None) -> bool:
    return not source or any(not proof.log or proof.log == source for proof in evidence)
