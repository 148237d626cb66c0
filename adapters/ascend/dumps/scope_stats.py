"""Read `scope_stats.jsonl`: the fill of each ring at begin and end of every scope, and the open scopes.

Source: simpler docs/dfx/scope-stats.md and its scope_stats_plot.py, August 2026 (schema 5 and 6; in 5 the heap's
counters wrap, so it gives no heap peaks).
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, field

from livedbg.adapters.ascend.trouble import Full
from livedbg.text.typed import ready

_MOST: Final = 2_000_000  # records that are read
_MONOTONIC: Final = 6  # the schema from which on the heap's counters do not wrap


class _Meta(Struct):
    version: int = 0
    fatal: bool = False
    dropped: int = 0
    task_window_max: list[int] = []
    heap_max: list[int] = []
    dep_pool_max: list[int] = []
    tensormap_max: int = 0


class Sample(Struct):
    """The begin or the end of a scope, with its site, as `orchestration.cpp:77`."""

    site: str
    phase: str
    depth: int
    ring: int
    task_window_start: int = 0
    task_window_end: int = 0
    heap_start: int = 0
    heap_end: int = 0
    dep_pool_start: int = 0
    dep_pool_end: int = 0
    tensormap: int = 0


class Peak(Struct, frozen=True):
    """The most of one resource that a scope may have held, and its capacity."""

    what: Full
    ring: int
    used: int
    size: int
    site: str


class ScopeStats(Struct, frozen=True):
    """Content of one file.

    Attributes:
        open: begins of open scopes, innermost last.
        peaks: by ring and resource.
        dropped: records that the device lost: then peaks are lower bounds.
    """

    open: tuple[Sample, ...] = ()
    peaks: tuple[Peak, ...] = ()
    dropped: int = 0

    def peak(self, what: Full, ring: int | None) -> Peak | None:
        """Return the peak of a resource, for one ring or the fullest."""
        found = [one for one in self.peaks if one.what is what and ring in (None, one.ring)]
        return max(found, key=lambda one: one.used / max(1, one.size), default=None)


class _Reading(Struct):
    meta: _Meta
    open: dict[int, Sample] = field(default_factory=dict)
    peaks: dict[tuple[Full, int], Peak] = field(default_factory=dict)

    def take(self, sample: Sample) -> None:
        if sample.phase == "begin":
            self.open[sample.depth] = sample
            return
        begun = self.open.pop(sample.depth, None)
        if begun is None or begun.site != sample.site:
            return
        meta = self.meta
        self._peak(Full.SLOTS, sample, sample.task_window_end - begun.task_window_start, meta.task_window_max)
        self._peak(Full.POOL, sample, sample.dep_pool_end - begun.dep_pool_start, meta.dep_pool_max)
        if meta.version >= _MONOTONIC:
            self._peak(Full.HEAP, sample, sample.heap_end - begun.heap_start, meta.heap_max)
        self._peak(Full.MAP, sample, sample.tensormap, [meta.tensormap_max] * (sample.ring + 1))

    def _peak(self, what: Full, sample: Sample, used: int, sizes: list[int]) -> None:
        if not 0 <= sample.ring < len(sizes):
            return
        key = (what, sample.ring)
        if key not in self.peaks or used > self.peaks[key].used:
            self.peaks[key] = Peak(what, sample.ring, used, sizes[sample.ring], sample.site)


def read_scope_stats(data: bytes) -> ScopeStats:
    """Parse the file; a truncated last line is ignored.

    Raises:
        msgspec.DecodeError: the first line is of another file, or an inner line is broken.
    """
    lines = data.split(b"\n")
    reading = _Reading(msgspec.json.decode(lines[0], type=ready(_Meta)))
    decoder = msgspec.json.Decoder(ready(Sample))
    for number, line in enumerate(lines[1 : _MOST + 1], 1):
        if not line.strip():
            continue
        try:
            reading.take(decoder.decode(line))
        except msgspec.DecodeError:
            if number < len(lines) - 1:  # a last line that is cut is left out
                raise
    scopes = tuple(one for _, one in sorted(reading.open.items(), key=lambda item: item[0]))
    return ScopeStats(scopes, tuple(reading.peaks.values()), reading.meta.dropped)
