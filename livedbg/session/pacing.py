"""Pauses between samples, so that sampling takes no more than its share of the time.

Two kinds of cost are counted. CPU time shows the load on this machine; wall time also shows how slow a file system or a
busy machine is. A sampler chooses between four pacers:

    Limit         a pause that follows from the cost of the last sample alone
    SamplePace    a token bucket of CPU time, and pauses that grow while nothing changes
    ChangePace    a token bucket of CPU time, for samples that are taken only when something has changed
    CpuCredit     the token bucket alone, for samples with another trigger

Invariants:
    pacing.R1. In the long run the samples take at most their share of one core (Limit: of the time, too; SamplePace: or
        one sample in 8 s).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final, NamedTuple, ParamSpec, TypeVar

from msgspec import Struct

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_SLOWEST_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 8.0
"""Less than the time from which on a wait counts as long (10 s): a thread that moves is looked at before it is called
stuck."""

_QUIET_SAMPLES: Final = 6
_SHARE: Final = 0.002
_SECOND_S: Final = 0.15
"""Pause after the first sample: only two samples show what makes progress."""

_BURST_S: Final = 0.05
"""CPU time that may be spent beyond the share at once: the first sample of a process costs the most."""

SEARCH_S: Final = 2.0
"""Pause between the first searches of a process for something that most have not."""

_LEAST_S: Final = 0.4
_LONGEST_S: Final = 30.0


class Cost(NamedTuple):
    """Cost of a sample, in seconds."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


class Stopwatch:
    """Measures the cost of its thread's work from now on."""

    def __init__(self) -> None:
        self._cpu_s, self._wall_s = time.thread_time(), time.monotonic()

    def cost(self) -> Cost:
        """Return the cost so far; call it in the thread that made this."""
        return Cost(time.thread_time() - self._cpu_s, time.monotonic() - self._wall_s)


def timed(work: Callable[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs) -> tuple[_Result, Cost]:
    """Call a function in this thread; return its result and its cost."""
    watch = Stopwatch()
    result = work(*args, **kwargs)
    return result, watch.cost()


class Limit(Struct, frozen=True):
    """The cost limit for one kind of samples.

    Attributes:
        cpu: largest share of one core.
        wall: largest share of the time.
        least_s: shortest pause.
        most_s: longest pause, whatever a sample costs.
    """

    cpu: float = 1.0
    wall: float = 1.0
    least_s: float = 0.0
    most_s: float = math.inf

    def rest_s(self, cost: Cost) -> float:
        return max(self.least_s, min(self.most_s, max(_rest_s(cost.cpu_s, self.cpu), _rest_s(cost.wall_s, self.wall))))


def _rest_s(cost_s: float, share: float) -> float:
    """Return the pause after which work of `cost_s` has taken no more than a share of the time."""
    return cost_s * (1 / share - 1)


class Backoff:
    """Pauses that grow while nothing happens."""

    def __init__(self, first_s: float, most_s: float, factor: float) -> None:
        self._first_s = first_s
        self._most_s = max(most_s, first_s)
        self._factor = factor
        self.pause_s = first_s

    def reset(self) -> float:
        self.pause_s = self._first_s
        return self.pause_s

    def grow(self) -> float:
        self.pause_s = min(self._most_s, self.pause_s * self._factor)
        return self.pause_s


class Searches:
    """When to search each process again for something that most have not: ever more rarely."""

    def __init__(self) -> None:
        self._next_s: dict[str, float] = {}
        self._pauses: dict[str, Backoff] = {}

    def due(self, process: str, *, often: bool = False) -> bool:
        """Return whether to search a process now, and note that; `often` leaves the next pause a short one."""
        now_s = time.monotonic()
        if now_s < self._next_s.get(process, 0.0):
            return False
        pauses = self._pauses.setdefault(process, Backoff(SEARCH_S, _LONGEST_S, 2))
        self._next_s[process] = now_s + (SEARCH_S if often else pauses.pause_s)
        pauses.grow()
        return True

    def forget(self, process: str) -> None:
        self._next_s.pop(process, None)
        self._pauses.pop(process, None)


class CpuCredit:
    """A token bucket of CPU time: `share` seconds are credited each second, up to `burst_s`; it is full at first."""

    def __init__(self, share: float, burst_s: float) -> None:
        self._share = share
        self._burst_s = burst_s
        self._credit_s = burst_s

    def passed(self, seconds: float) -> None:
        """Add the credit for a time."""
        self._credit_s = min(self._burst_s, self._credit_s + seconds * self._share)

    def spend(self, cost_s: float) -> None:
        """Subtract used CPU time."""
        self._credit_s -= cost_s

    def wait_s(self) -> float:
        """Return how long until there is credit again; 0 if there is some."""
        return max(0.0, -self._credit_s / self._share)


class SamplePace:
    """Pauses between samples: short while things change, longer while nothing does."""

    def __init__(self, fastest_s: float) -> None:
        self._pauses = Backoff(fastest_s, _SLOWEST_S, 1.5)
        self._quiet = 0
        self._first = True
        self._credit = CpuCredit(_SHARE, _BURST_S)

    def after(self, *, changed: bool, cost_s: float) -> float:
        """Return the pause after a sample, which found something new if `changed`."""
        self._quiet = 0 if changed else self._quiet + 1
        if changed:
            self._pauses.reset()
        elif self._quiet > _QUIET_SAMPLES:
            self._pauses.grow()
        self._credit.spend(min(cost_s, _BURST_S) if self._first else cost_s)  # what finds a process comes once
        pause_s = max(self._pauses.pause_s, min(self._credit.wait_s(), _LONGEST_PAUSE_S))
        if self._first:
            self._first, pause_s = False, min(pause_s, _SECOND_S)
        self._credit.passed(pause_s)
        return pause_s


class ChangePace:
    """Decides when to sample something that has changed, or may have.

    Args:
        share: largest share of one core that the samples may take in the long run.
        burst_s: CPU time that may be spent at once after a quiet time.
        moving_most_s: longest pause while it keeps changing and nothing in it comes to rest.
    """

    def __init__(self, share: float, burst_s: float, moving_most_s: float = _LEAST_S) -> None:
        self._credit = CpuCredit(share, burst_s)
        self._pauses = Backoff(_LEAST_S, _LONGEST_S, 2)
        self._moving = Backoff(_LEAST_S, moving_most_s, 1.5)
        self._sampled: object = None
        self._sampled_s: float | None = None
        self._still: frozenset[str] = frozenset()
        self._pause_s = 0.0

    def due(self, signature: object, still: frozenset[str] = frozenset()) -> bool:
        """Return whether to sample now.

        Args:
            signature: what the sample depends on, e.g. when each thread last moved; None if not known: then samples
                become ever rarer.
            still: the parts that have come to rest: a new one gives the shortest pause.
        """
        if self._sampled_s is None:
            return True
        if signature is not None and signature == self._sampled:
            return False
        pause_s = _LEAST_S if still - self._still else self._pause_s
        return time.monotonic() - self._sampled_s >= max(pause_s, self._credit.wait_s())

    def sampled(self, signature: object, cost_s: float, still: frozenset[str] = frozenset()) -> None:
        """Record a sample with the signature and the still parts at its start."""
        now_s = time.monotonic()
        if self._sampled_s is not None:
            self._credit.passed(now_s - self._sampled_s)
        self._credit.spend(cost_s)
        if signature is not None:
            rests = self._sampled is None or still - self._still
            self._pause_s = self._moving.reset() if rests else self._moving.grow()
            self._pauses.reset()
        elif self._pause_s:
            self._pause_s = self._pauses.grow()
        else:
            self._pause_s = self._pauses.reset()
        self._sampled, self._sampled_s, self._still = signature, now_s, still
