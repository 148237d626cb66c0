"""Which logged exceptions the rules for Ascend report the cause of."""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.ascend.cann_reports.report import CODE, is_npu
from livedbg.model import ExceptionHit
from livedbg.model.snapshot import Snapshot

__all__ = ["explains"]

_RUN_FAILED: Final = re.compile(r"\b\w+ failed with code -?\d+|\(run_id=\d+ slot=\d+ .*run_epoch=\d+\)")
"""What the runtime raises in Python for a run that failed (simpler src/common/worker/chip_worker.cpp)."""

_RUN_ENDS: Final = frozenset(
    {"cann-code", "fatal", "ring-full", "runtime-failed", "tensor-wait-timeout", "timeout-exit", "watchdog-starved"}
)
"""Codes of the diagnostics of which each is a finding of its own."""


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """True if an exception passes on what failed on an NPU, or that a run failed, and a diagnostic says what and why.

    Args:
        hit: an exception that a log shows.
        snapshot: the state.
    """
    if is_npu(hit):
        return any(
            said.code == CODE and said.attributes.get("source") == hit.source
            for said in snapshot.diagnostics.values()
            if said.system == "ascend"
        )
    return _RUN_FAILED.search(hit.message) is not None and any(
        diagnostic.system == "ascend"
        and diagnostic.code in _RUN_ENDS
        and diagnostic.attributes.get("resolved") != "yes"
        for diagnostic in snapshot.diagnostics.values()
    )
