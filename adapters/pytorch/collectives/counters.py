"""Names of what is counted of a rank: the adapter counts, the rules read."""

from __future__ import annotations

from typing import Final

__all__ = ["ENQUEUED"]

ENQUEUED: Final = "collectives enqueued"
"""Of a process: how many operations its Flight Recorders have had since it began."""
