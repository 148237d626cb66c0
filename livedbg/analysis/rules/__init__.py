"""The generic rules of the diagnosis. Those of single systems are declared by the systems (livedbg.session.systems)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from livedbg.analysis.rules import cycles, device, holders, processes, progress, reported, sight
from livedbg.analysis.rules.base import Judged, Rule, RuleInput, Settings

__all__ = ["CHAPTERS", "Judged", "Rule", "RuleInput", "Settings"]

CHAPTERS: Final[tuple[tuple[str, Callable[[], Sequence[Rule]]], ...]] = (
    ("Deadlocks", cycles.rules),
    ("Locks that are not released", holders.rules),
    ("Devices", device.rules),
    ("Processes", processes.rules),
    ("Work without progress", progress.rules),
    ("What a runtime reports", reported.rules),
    ("What could not be seen", sight.rules),
)
"""The generic rules by chapter of docs/rules.md."""
