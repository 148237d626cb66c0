"""When to look again: soon after something changed, but never for more than a share of the time."""

from __future__ import annotations

import time
from typing import Final

__all__ = ["Pace"]

_LEAST_S: Final = 0.4
_REST_S: Final = 30.0


class Pace:
    """The rhythm of one kind of look at one process: a token bucket of CPU time.

    Args:
        share: largest share of one core that these looks may take in the long run.
        burst_s: CPU time that may be spent at once after a quiet time.
    """

    def __init__(self, share: float, burst_s: float) -> None:
        self._share = share
        self._burst_s = burst_s
        self._credit_s = burst_s
        self._seen: object = None
        self._looked_s: float | None = None
        self._pause_s = 0.0

    def due(self, signature: object) -> bool:
        """Whether to look now.

        Args:
            signature: what the look depends on, e.g. when each thread last moved; None when that
                isn't known: then looks become rarer and rarer.
        """
        if self._looked_s is None:
            return True
        age_s = time.monotonic() - self._looked_s
        if signature is not None and signature == self._seen:
            return False
        return age_s >= self._pause_s and self._credit_s + age_s * self._share > 0

    def looked(self, signature: object, cost_s: float) -> None:
        """A look was taken.

        Args:
            signature: as it was when the look began.
            cost_s: what it cost.
        """
        now_s = time.monotonic()
        if self._looked_s is not None:
            self._credit_s += (now_s - self._looked_s) * self._share
        self._credit_s = min(self._burst_s, self._credit_s) - cost_s
        self._looked_s = now_s
        self._seen = signature
        self._pause_s = _LEAST_S if signature is not None else min(_REST_S, max(_LEAST_S, 2 * self._pause_s))
