"""How closely launches are looked at: as closely as the budget allows.

A trap costs the launching thread some time, with what is read there; a trap that only counts costs less
(livedbg.adapters.launches.cost). While the rate is so high that even counting is too much, nothing is listened to, and
the rate is tried again later.

Invariants:
    R1. By the rates that were seen, listening takes no more than its share of the launching threads' time, but for the
        moment in which a rate is found out.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from livedbg.adapters.launches.cost import Costs

__all__ = ["SHARE", "Closeness", "Pace"]

SHARE: Final = 0.02
"""Of the launching threads' time."""

_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 60.0


class Closeness(StrEnum):
    """How closely."""

    EACH = "each"
    COUNT = "count"
    OFF = "off"


class Pace:
    """Chooses.

    Args:
        share: of the launching threads' time that listening may take.
        costs: what a launch costs.

    Attributes:
        now: how closely launches are looked at.
        rate_per_s: the last rate that was seen.
    """

    def __init__(self, share: float, costs: Costs) -> None:
        self._share = share
        self._costs = costs
        self._pause_s = _FIRST_PAUSE_S
        self._off_until_s = 0.0
        self.now = Closeness.EACH
        self.rate_per_s = 0.0

    def most_per_s(self, closeness: Closeness) -> float:
        """The highest rate that may be looked at so."""
        return self._share * 1e9 / self._cost_ns(closeness)

    def cost(self, closeness: Closeness) -> float:
        """Share of the launching threads' time at the last rate."""
        return self.rate_per_s * self._cost_ns(closeness) / 1e9

    def saw(self, rate_per_s: float, now_s: float) -> Closeness:
        """Take a rate, and choose.

        Args:
            rate_per_s: launches a second, of all threads.
            now_s: of a clock that goes on evenly.
        """
        self.rate_per_s = rate_per_s
        if rate_per_s > self.most_per_s(Closeness.COUNT):
            self.now = Closeness.OFF
            self._off_until_s = now_s + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        elif rate_per_s > self.most_per_s(Closeness.EACH):
            self.now = Closeness.COUNT
            self._pause_s = _FIRST_PAUSE_S
        elif self.now is not Closeness.COUNT or rate_per_s < self.most_per_s(Closeness.EACH) / 2:
            self.now = Closeness.EACH
            self._pause_s = _FIRST_PAUSE_S
        return self.now

    def try_again(self, now_s: float) -> bool:
        """Whether it is time to find out the rate anew; then it is counted."""
        if self.now is Closeness.OFF and now_s >= self._off_until_s:
            self.now = Closeness.COUNT
            return True
        return False

    def _cost_ns(self, closeness: Closeness) -> float:
        return self._costs.each if closeness is Closeness.EACH else self._costs.counted
