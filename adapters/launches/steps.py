"""The count of a process's launches as steps in time: they are where the calls were, however late these are read.

Invariants:
    steps.B1. Calls within half a second are one step (`BEAT_NS`), so how many steps there are depends on the process,
        not of how often it was read; while launches are only counted, a step is as late as the reading.
    steps.B2. The last step of calls that have stopped comes once its half second is over, or at `end`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from livedbg.model.launches import BEAT_NS
from livedbg.probes.launch_calls import LaunchCall

__all__ = ["Step", "Steps"]


class Step(NamedTuple):
    """The count had a value from a time on.

    Attributes:
        value: of the count.
        mono_ns: CLOCK_MONOTONIC.
    """

    value: int
    mono_ns: int


class Steps:
    """Makes steps of what was traced.

    Args:
        now_ns: CLOCK_MONOTONIC; nothing was launched before, as far as anybody knows.
    """

    def __init__(self, now_ns: int) -> None:
        self._until_ns = now_ns
        self._value = 0
        self._begun_ns = 0
        self._last: Step | None = None
        self._first = True

    @property
    def traced_to_ns(self) -> int:
        """Up to when the steps have all that was traced."""
        return self._until_ns if self._last is None else self._begun_ns

    def take(self, calls: Sequence[LaunchCall], total: int, until_ns: int) -> Iterator[Step]:
        """What was traced since the last time.

        Args:
            calls: those that were sampled, in the order of time.
            total: launches counted in all; where it is more than those calls, the rest came by `until_ns`.
            until_ns: all calls up to then are in it.
        """
        for call in calls:
            if not call.is_lookup and self._value < total:
                yield from self._add(1, call.mono_ns)
        if self._value < total:
            yield from self._add(total - self._value, until_ns, after_ns=self._until_ns)
        self._until_ns = until_ns
        if until_ns >= self._begun_ns + BEAT_NS:
            yield from self.end()

    def end(self) -> Iterator[Step]:
        """The step that is not over yet."""
        if self._last is not None:
            yield self._last
            self._last = None

    def _add(self, count: int, mono_ns: int, after_ns: int | None = None) -> Iterator[Step]:
        if self._first:
            self._first = False
            yield Step(0, mono_ns if after_ns is None else after_ns)
        if mono_ns >= self._begun_ns + BEAT_NS:
            yield from self.end()
            self._begun_ns = mono_ns
        self._value += count
        self._last = Step(self._value, mono_ns)
