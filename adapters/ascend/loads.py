"""How busy the machine was while a run was watched: to distinguish a false time-out from a stall."""

from __future__ import annotations

from collections import deque
from typing import Final

from livedbg.linux.load import Load

__all__ = ["LoadHistory"]

_KEPT: Final = 1_000  # samples
_NEAR_NS: Final = 15_000_000_000  # a sample further away says nothing of a moment


class LoadHistory:
    """Samples of the load, of which the newest are kept."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, Load]] = deque(maxlen=_KEPT)

    def add(self, wall_ns: int, load: Load) -> None:
        """Take one sample."""
        self._samples.append((wall_ns, load))

    def around(self, wall_ns: int | None) -> Load | None:
        """The busiest sample around a time; None where there is none."""
        if wall_ns is None:
            return None
        near = [load for at_ns, load in self._samples if abs(at_ns - wall_ns) <= _NEAR_NS]
        return max(near, key=lambda load: load.minute, default=None)
