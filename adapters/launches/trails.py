"""Records the launches of each thread, from traced calls, with the names of kernels.

If a call identifies a kernel by the address of a host function (`LaunchCall.by_runtime`), the symbol of that function
gives the name if the file has kept it. Any other handle has no name of its own: it is known if the program looked the
kernel up while it was traced.

Invariants:
    trails.T1. Memory is bounded: `MOST` threads, `LAST` launches each. Of more threads the one that launched longest
        ago is dropped.
    trails.T2. `changed` yields each trail once per change; the rate of a thread that stops launching goes to 0, that of
        one whose launches are no longer sampled does not.
    trails.N1. A handle has a name only if it was read from an address that exactly one lookup had written to.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from livedbg.linux import memory
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import symbol_at
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.model import ids
from livedbg.model.launches import BEAT_NS, Launch, LaunchTrail
from livedbg.probes.launch_calls import LaunchCall, is_nested
from livedbg.probes.newest import Newest
from livedbg.text.demangling import demangled_symbol
from livedbg.text.sanitize import clean_line

_REMEMBERED: Final = 4096


class HostNames:
    """The symbols at which functions of one process begin."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: Newest[int, str | None] = Newest(_REMEMBERED)

    def name(self, address: int) -> str | None:
        """Return the demangled name of the function at an address, or its file and offset if it has no symbol."""
        if address not in self._known:
            self._known[address] = self._find(address)
        return self._known[address]

    def _find(self, address: int) -> str | None:
        try:
            mappings = parse_maps(self._pid)
        except OSError:
            return None
        holder = next((mapping for mapping in mappings if mapping.start <= address < mapping.end), None)
        if holder is None or not holder.path.startswith("/"):
            return None
        same = [m for m in mappings if (m.device, m.inode) == (holder.device, holder.inode)]
        return self._in_file(address, holder, same)

    def _in_file(self, address: int, holder: Mapping, same: list[Mapping]) -> str | None:
        file = holder.path.rpartition("/")[2]
        try:
            with ElfFile(mapped_file(self._pid, holder)) as elf:
                bias = elf.load_bias(same)
                if bias is None:
                    return None
                symbol = symbol_at(elf, address - bias)
        except (OSError, ElfError):
            return None
        return demangled_symbol(symbol.name) if symbol is not None else clean_line(f"{file}+{address - bias:#x}")


class Lookups:
    """Handles of kernels whose lookups were traced."""

    def __init__(self) -> None:
        self._names: Newest[tuple[int, int], str] = Newest(_REMEMBERED)
        self._pending: list[tuple[LaunchCall, int, int]] = []
        self._fresh: list[LaunchCall] = []

    def add(self, lookup: LaunchCall) -> None:
        """Add a lookup call; its result is read by the next `settle`."""
        self._pending = [
            (one, value, read_ns)
            for one, value, read_ns in self._pending
            if (one.pid, one.handle) != (lookup.pid, lookup.handle) or lookup.mono_ns > read_ns
        ]  # fmt: skip  # another one may have written there before it was read: N1
        self._fresh = [one for one in self._fresh if (one.pid, one.handle) != (lookup.pid, lookup.handle)]
        self._fresh.append(lookup)

    def settle(self, now_ns: int) -> None:
        """Accept the handles read last time, and read new ones; all calls up to the last time must have been added."""
        for lookup, value, _ in self._pending:
            self._names[lookup.pid, value] = clean_line(lookup.name.decode("utf-8", "replace"))
        self._pending.clear()
        for lookup in self._fresh:
            try:
                (value,) = struct.unpack("<Q", memory.read(lookup.pid, lookup.handle, 8))
            except (OSError, OverflowError):
                continue
            if value:
                self._pending.append((lookup, value, now_ns))
        self._fresh.clear()

    def name(self, pid: int, handle: int) -> str | None:
        """Return the kernel name of a handle."""
        return self._names.get((pid, handle))


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
    """The trails of one process; `wall_ns` converts CLOCK_MONOTONIC to wall-clock time."""

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
            span_s: length of the span.
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
        """Yield the trails that have changed."""
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
        """Fill in names that were learnt only now."""
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
