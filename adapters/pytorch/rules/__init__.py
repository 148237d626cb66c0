"""The rules of the PyTorch system."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.pytorch.rules import collectives, compiling, dumps, ended, progress
from livedbg.analysis.rules.base import Rule

__all__ = ["rules"]


def rules() -> Sequence[Rule]:
    """All of them."""
    return (*collectives.rules(), *ended.rules(), *progress.rules(), *dumps.rules(), *compiling.rules())
