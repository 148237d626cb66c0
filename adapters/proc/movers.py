"""Whether a look at a process found more than that the threads that ran lately have run again.

A program that works does that at every look, and one thread with a timer does it in a program that hangs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from livedbg.model.events import Event, ProcessSeen, ThreadsSeen

__all__ = ["Movers"]

_LOOKS: Final = 8
"""A thread that moved in one of so many looks moved lately."""


class Movers:
    """The threads of one process that moved at the last looks."""

    def __init__(self) -> None:
        self._lately: deque[frozenset[str]] = deque(maxlen=_LOOKS)

    def news(self, events: Sequence[Event]) -> bool:
        """Whether the events of one look say more than that; to be called once a look."""
        moved = frozenset(thread.id for event in events if isinstance(event, ThreadsSeen) for thread in event.threads)
        known = frozenset[str]().union(*self._lately)
        self._lately.append(moved)
        return not moved <= known or not all(isinstance(event, ThreadsSeen | ProcessSeen) for event in events)
