"""How many launches there were: counted by their samples while each is sampled, else by tallies.

Invariants:
    counting.C1. Over a change between the two no launch is counted twice, and none is lost: both count for a moment,
        and what each has counted is cut at a time at which nothing was launched, for two totals around it are the
        same. Where there is no such time within the tries of `_MARGINS_NS`, what was launched in the last try, some
        0.2 ms, may be counted wrongly.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from livedbg.probes.launch_calls import LaunchCall
from livedbg.probes.perf_count import Tally
from livedbg.probes.perf_event import Source

__all__ = ["LaunchCount"]

_MARGINS_NS: Final = (*(500_000,) * 20, *(20_000,) * 50)
"""Of each try, between a total and the cut: a call is counted and sampled one after the other, in general within 20
microseconds, in a thousandth of the calls within 100 to 300 (seen on Linux 6.18). Where launches come so fast that a
long margin always has one, a short one has to do."""

_NEVER: Final = sys.maxsize


class LaunchCount:
    """The launches of one process."""

    def __init__(self) -> None:
        self._sure = 0
        self._tallies: list[Tally] = []
        self._from_ns, self._until_ns = 0, _NEVER  # the samples that count

    @property
    def tallies(self) -> bool:
        """Whether they are counted by tallies."""
        return bool(self._tallies)

    def total(self) -> int:
        """How many there were; of those that are sampled, up to the last `sampled`."""
        return self._sure + self._in_tallies()

    def sampled(self, calls: Iterable[LaunchCall], lost: int) -> None:
        """Count calls by their samples.

        Args:
            calls: launches and lookups, those too that a tally has counted.
            lost: calls that the kernel could not hand over; what they were nobody knows.
        """
        self._sure += lost + sum(self._from_ns <= call.mono_ns < self._until_ns for call in calls if not call.is_lookup)

    def tally(self, sources: Sequence[Source], threads: Callable[[], Iterable[int]], *, sampled: bool) -> None:
        """Count the calls of these events by a tally from now on.

        Args:
            sources: events of functions that launch.
            threads: lists those of the process.
            sampled: up to now their samples count.

        Raises:
            NoPerf: not allowed.
            OSError: too many files are open.
        """
        self._tallies.append(Tally.of_all(sources, threads, follow=False))
        if sampled:
            counted, self._until_ns = self._cut()
            self._sure -= counted

    def leave_to_samples(self) -> None:
        """From now on samples count: whoever samples does so already."""
        counted, self._from_ns = self._cut()
        self._until_ns = _NEVER
        self._end(counted)

    def end(self) -> None:
        """Close the tallies; the total stays."""
        self._end(self._in_tallies())

    def _end(self, counted: int) -> None:
        self._sure += counted
        for tally in self._tallies:
            tally.close()
        self._tallies.clear()

    def _in_tallies(self) -> int:
        return sum(tally.total() for tally in self._tallies)

    def _cut(self) -> tuple[int, int]:
        """What the tallies have counted by a time, and that time (CLOCK_MONOTONIC): C1."""
        counted = self._in_tallies()
        for margin_ns in _MARGINS_NS:
            _spin(margin_ns)
            now_ns = time.monotonic_ns()
            _spin(margin_ns)
            before, counted = counted, self._in_tallies()
            if before == counted:
                break
        return counted, now_ns


def _spin(margin_ns: int) -> None:
    """Let a margin pass. Who sleeps on a busy machine gets its CPU back late: others have launched by then."""
    end_ns = time.monotonic_ns() + margin_ns
    while time.monotonic_ns() < end_ns:
        pass
