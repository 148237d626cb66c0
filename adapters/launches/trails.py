"""What each thread launched: made of the calls that were traced.

Invariants:
    trails.T1. Memory is bounded: `MOST` threads, `LAST` launches each. Of more threads the one that launched longest
        ago goes.
    trails.T2. `changed` gives each trail once a change; a thread that stops launching has its rate go to 0, one whose
        launches are not sampled any more does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from livedbg.adapters.launches.kernel_names import HostNames, Lookups
from livedbg.model import ids
from livedbg.model.launches import BEAT_NS, Launch, LaunchTrail
from livedbg.probes.launch_calls import LaunchCall, is_nested

__all__ = ["LAST", "MOST", "Trails"]

LAST: Final = 16
MOST: Final = 512


@dataclass(slots=True)
class _Trail:
    count: int = 0
    lately: int = 0
    rate_per_s: float = 0.0
    last: list[Launch] = field(default_factory=list)
    outer: LaunchCall | None = None
    first_ns: int = 0
    beat_ns: int = 0
    beats: int = 0
    changed: bool = True


class Trails:
    """The trails of one process.

    Args:
        host: name of the host.
        pid: the process.
        wall_ns: the wall clock of a time of CLOCK_MONOTONIC.
    """

    def __init__(self, host: str, pid: int, wall_ns: Callable[[int], int]) -> None:
        self._host = host
        self._pid = pid
        self._wall_ns = wall_ns
        self._trails: dict[int, _Trail] = {}
        self._names = HostNames(pid)
        self._lookups = Lookups()
        self._seen = True
        self._seen_since_ns = 0

    def add(self, calls: Sequence[LaunchCall], span_s: float, now_ns: int, *, seen: bool = True) -> None:
        """Take the calls of a span of time.

        Args:
            calls: in the order of time.
            span_s: how long the span was.
            now_ns: CLOCK_MONOTONIC, after which nothing was read.
            seen: from now on each call is sampled.
        """
        fresh, self._seen = seen != self._seen, seen
        if fresh and seen:
            self._seen_since_ns = now_ns
        for call in calls:
            if call.is_lookup:
                self._lookups.add(call)
        self._lookups.settle(now_ns)
        for call in calls:
            if not call.is_lookup:
                self._launched(call)
        for trail in self._trails.values():
            self._name(trail)
            rate = trail.lately / span_s if span_s > 0 and (trail.lately or seen) else trail.rate_per_s
            trail.changed = trail.changed or fresh or bool(trail.lately) or rate != trail.rate_per_s
            trail.rate_per_s, trail.lately = rate, 0

    def changed(self) -> Iterator[LaunchTrail]:
        """The trails of which something is new."""
        for tid, trail in self._trails.items():
            if trail.changed:
                trail.changed = False
                yield LaunchTrail(
                    thread=ids.thread(self._host, self._pid, tid),
                    process=ids.process(self._host, self._pid),
                    count=trail.count,
                    rate_per_s=trail.rate_per_s,
                    last=tuple(trail.last),
                    seen=self._seen,
                    seen_since_mono_ns=self._seen_since_ns,
                    first_mono_ns=trail.first_ns,
                    beats=trail.beats,
                )

    def _launched(self, call: LaunchCall) -> None:
        trail = self._trails.pop(call.tid, None) or _Trail()
        self._trails[call.tid] = trail
        if len(self._trails) > MOST:
            self._trails.pop(next(iter(self._trails)))
        if trail.outer is not None and is_nested(trail.outer, call):
            trail.outer = None  # has one inner call
            return
        trail.outer = call if call.by_runtime else None
        if not trail.count:
            trail.first_ns = call.mono_ns
        if call.mono_ns >= trail.beat_ns + BEAT_NS:
            trail.beats += 1
            trail.beat_ns = call.mono_ns
        trail.count += 1
        trail.lately += 1
        trail.last.append(
            Launch(
                function=call.function,
                kernel=self._kernel(call),
                handle=call.handle,
                grid=call.grid,
                block=call.block,
                shared_bytes=call.shared_bytes,
                stream=call.stream,
                mono_ns=call.mono_ns,
                wall_ns=self._wall_ns(call.mono_ns),
            )
        )
        del trail.last[:-LAST]

    def _name(self, trail: _Trail) -> None:
        """Give names that were learnt only now."""
        for at, launch in enumerate(trail.last):
            if launch.kernel is None and (name := self._lookups.name(self._pid, launch.handle)) is not None:
                trail.last[at] = structs.replace(launch, kernel=name)
                trail.changed = True

    def _kernel(self, call: LaunchCall) -> str | None:
        if call.grid is None:
            return None
        if call.by_runtime:
            return self._names.name(call.handle)
        return self._lookups.name(call.pid, call.handle)
