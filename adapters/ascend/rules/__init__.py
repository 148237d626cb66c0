"""The rules of the Ascend system."""

from __future__ import annotations

from livedbg.adapters.ascend.rules.tasks import rules

__all__ = ["rules"]
