"""How long a run is open, and since when it has not moved, as far as it was sampled."""

from __future__ import annotations

import time

from livedbg.adapters.ascend.live.state import Sample

__all__ = ["Progress"]


class Progress:
    """The clock of one run.

    Attributes:
        began_wall_ns: when the run began; None where memory doesn't tell.
        still_since_wall_ns: since when it has not moved: its last change, or the first sample.
        moved: it has changed since the first sample.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Another run, or none."""
        self.began_wall_ns: int | None = None
        self.still_since_wall_ns: int | None = None
        self.moved = False
        self._last: tuple[object, ...] | None = None

    def take(self, sample: Sample, wall_ns: int) -> bool:
        """The newest sample; True if the run has moved since the one before."""
        if sample.began_mono_ns is not None:
            self.began_wall_ns = wall_ns - max(0, time.monotonic_ns() - sample.began_mono_ns)
        moved = self._last is not None and sample.progress != self._last
        self._last = sample.progress
        self.moved |= moved
        if moved or self.still_since_wall_ns is None:
            self.still_since_wall_ns = wall_ns
        return moved
