"""How closely launches are traced: as closely as the budget allows.

A trap costs the launching thread some time, with what is read there; a trap that only counts costs less
(livedbg.probes.perf_count). While the rate is so high that even counting is too much, nothing is traced, and
the rate is tried again later.

Invariants:
    budget.R1. By the rates that were seen, tracing takes no more than its share of the launching threads' time, but
        for the moment in which a rate is found out.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from livedbg.probes.perf_count import TrapCosts

SHARE: Final = 0.02
"""Of the launching threads' time."""

_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 60.0


class Detail(StrEnum):
    """How closely."""

    EACH = "each"
    COUNT = "count"
    OFF = "off"


class Budget:
    """Chooses.

    Args:
        share: of the launching threads' time that tracing may take.
        costs: what a launch costs.

    Attributes:
        detail: how closely launches are traced.
        rate_per_s: the last rate that was seen.
    """

    def __init__(self, share: float, costs: TrapCosts) -> None:
        self._share = share
        self._costs = costs
        self._pause_s = _FIRST_PAUSE_S
        self._off_until_s = 0.0
        self.detail = Detail.EACH
        self.rate_per_s = 0.0

    def most_per_s(self, detail: Detail) -> float:
        """The highest rate that may be traced so."""
        return self._share * 1e9 / self._cost_ns(detail)

    def cost(self, detail: Detail) -> float:
        """Share of the launching threads' time at the last rate."""
        return self.rate_per_s * self._cost_ns(detail) / 1e9

    def saw(self, rate_per_s: float, now_s: float) -> Detail:
        """Take a rate, and choose.

        Args:
            rate_per_s: launches a second, of all threads.
            now_s: of a clock that goes on evenly.
        """
        self.rate_per_s = rate_per_s
        if rate_per_s > self.most_per_s(Detail.COUNT):
            self.detail = Detail.OFF
            self._off_until_s = now_s + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        elif rate_per_s > self.most_per_s(Detail.EACH):
            self.detail = Detail.COUNT
            self._pause_s = _FIRST_PAUSE_S
        elif self.detail is not Detail.COUNT or rate_per_s < self.most_per_s(Detail.EACH) / 2:
            self.detail = Detail.EACH
            self._pause_s = _FIRST_PAUSE_S
        return self.detail

    def try_again(self, now_s: float) -> bool:
        """Whether it is time to find out the rate anew; then it is counted."""
        if self.detail is Detail.OFF and now_s >= self._off_until_s:
            self.detail = Detail.COUNT
            return True
        return False

    def _cost_ns(self, detail: Detail) -> float:
        return self._costs.each if detail is Detail.EACH else self._costs.counted
