"""Names of what is counted of a rank: the adapter counts, the rules read."""

from __future__ import annotations

from typing import Final

ENQUEUED: Final = "collectives enqueued"
"""Of a process: how many operations its Flight Recorders have had since it began."""

MESSAGES: Final = "bytes of messages"
"""Of a process: how many bytes gloo has written for it since it was first looked at."""
