"""What NCCL itself logged of a job that failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from livedbg.adapters.cuda.nccl_logs import ras, warnings
from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.rules.base import Rule
from livedbg.analysis.rules.said import SaidRule

__all__ = ["rules"]

_OWN: Final = re.compile(r"NCCL (?:INFO|WARN|DIAG)")


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (
        SaidRule(
            "nccl-warning",
            "NCCL warned of what makes a job fail: an InfiniBand call or transfer, a peer's connection, shared memory, "
            "two ranks on one GPU, ranks of different versions. `unknown` while nothing else says how the job ended, "
            "for NCCL's caller may have caught the error; a note where the log goes on. Tries that NCCL makes again do "
            "not count.",
            "cuda",
            {warnings.WARNED: VerdictState.UNKNOWN, warnings.CLOSED: None},
            own_lines=_OWN,
        ),
        SaidRule(
            "nccl-test-failed",
            "One of NCCL's test programs ended since a call of NCCL or CUDA failed.",
            "cuda",
            {warnings.TEST: VerdictState.CRASHED},
            own_lines=_OWN,
        ),
        SaidRule(
            "nccl-ras",
            "A report of NCCL's RAS subsystem names ranks that launched fewer operations than others, did not answer, "
            "or are considered dead. `unknown`: one report does not tell a busy job from a stuck one.",
            "cuda",
            dict.fromkeys((ras.UNEVEN, ras.MISSING, ras.DEAD), VerdictState.UNKNOWN),
        ),
    )
