"""How soon what was folded has to be published: news at once, numbers that count on once a second.

An update costs a snapshot, a diagnosis and a paint. A process that works changes the CPU times and states of its threads
at every sample, which says nothing new for as long as the verdict stays.

Invariants:
    urgency.Q1. Whatever is no number of a known thread or process is published at once.
    urgency.Q2. So is everything until a verdict has lasted for LASTING_S.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from livedbg.analysis.diagnosis import Verdict, VerdictState
from livedbg.model.events import Event, ProcessSeen, ThreadsSeen, Tick
from livedbg.model.snapshot import Snapshot

__all__ = ["LASTING_S", "NUMBERS_S", "Urgency"]

LASTING_S: Final = 5.0
NUMBERS_S: Final = 1.0
"""Time between two updates that bring numbers only."""


class Urgency:
    """Of what was folded since the last update."""

    def __init__(self) -> None:
        self._news = False
        self._verdict: tuple[VerdictState, tuple[str, ...]] | None = None
        self._changed_s = time.monotonic()

    def folded(self, events: Sequence[Event], published: Snapshot) -> None:
        """Events that the next update will bring, and the state that the last one had."""
        self._news = self._news or not all(_counts_on(event, published) for event in events)

    def published(self, verdict: Verdict) -> None:
        """An update with this verdict was published."""
        self._news = False
        shown = (verdict.state, verdict.roots)
        if shown != self._verdict:
            self._verdict, self._changed_s = shown, time.monotonic()

    def pause_s(self) -> float:
        """The least time between the last update and the next one, beside what every update has to wait."""
        lasts = time.monotonic() - self._changed_s >= LASTING_S
        return NUMBERS_S if lasts and not self._news else 0.0


def _counts_on(event: Event, published: Snapshot) -> bool:
    """Whether it brings only new numbers and states of what is known."""
    match event:
        case Tick():
            return True
        case ThreadsSeen(threads=threads):
            return all(thread.id in published.threads for thread in threads)
        case ProcessSeen(process=process):
            return process.id in published.processes
        case _:
            return False
