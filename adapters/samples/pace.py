"""How often threads are sampled: at most so often each, and so often together, and so that it stays cheap for us.

Invariant:
    samples_pace.P1. In the long run the samples take no more than the share of a core that was given, or `LEAST_HZ`
        of them are taken.
"""

from __future__ import annotations

import math
from typing import Final

LEAST_HZ: Final = 10.0
"""Samples a second of all threads together, however much each costs."""

_FEW: Final = 20  # samples from which on their cost is known


class Pace:
    """The rate of samples.

    Args:
        each_hz: samples for each second of CPU time that a thread uses, at most.
        total_hz: samples a second of all threads together, at most.
        share: share of a core that taking and unwinding them may use.
    """

    def __init__(self, each_hz: float, total_hz: float, share: float = math.inf) -> None:
        self._each_hz = each_hz
        self._most_hz = self._total_hz = total_hz
        self._share = share
        self._cpu_s = 0.0
        self._samples = 0

    def cost(self, cpu_s: float, samples: int) -> None:
        """What all samples up to now have cost.

        Args:
            cpu_s: our CPU time.
            samples: how many they are.
        """
        taken = samples - self._samples
        if taken < _FEW:
            return
        each_s = max(1e-9, cpu_s - self._cpu_s) / taken
        self._cpu_s, self._samples = cpu_s, samples
        wanted_hz = max(LEAST_HZ, min(self._most_hz, self._share / each_s))
        self._total_hz = min(self._most_hz, (self._total_hz + wanted_hz) / 2)  # one slow batch is not the rule

    def period_ns(self, cores: float) -> int:
        """CPU time of a thread between two samples.

        Args:
            cores: how many cores all threads together use.
        """
        return int(max(1e9 / self._each_hz, cores * 1e9 / self._total_hz))
