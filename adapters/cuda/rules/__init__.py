"""The rules of the CUDA system: errors in logs, GPU counters, launches."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.cuda.rules import errors
from livedbg.adapters.cuda.rules.gpus import GpuTrouble, GpuWaits
from livedbg.adapters.cuda.rules.launches import LaunchesStopped, ThreadLaunchesStopped
from livedbg.analysis.rules.base import Rule


def rules() -> Sequence[Rule]:
    """The rules for CUDA, most specific first."""
    return (*errors.rules(), GpuWaits(), GpuTrouble(), LaunchesStopped(), ThreadLaunchesStopped())
