"""Which places keep the memory that glibc's malloc gave: allocations minus frees, by call stack, at the peak.

Probes at the returns of malloc and its kin give a block's address, its size (the word before it) and the caller's
stack; probes at free and realloc give the block back. The kernel filters both by the same test of address and size:
blocks of less than 16 KiB are followed if they are in one of 2**n ranges of 16 KiB, those of less than 1 MiB by ranges
of 1 MiB, and larger ones always. So no free of a block that is followed is missed, and few calls are read. Each call
costs the target a trap, some microseconds.

Invariants:
    allocations.K1. What was freed is not kept; an older free does not end a younger block at the same address.
    allocations.K2. If one of N blocks is followed, it counts N times.
    allocations.K3. Where the kernel dropped frees, what was taken until then is no longer said to be kept.
    allocations.K4. A program that would spend more than `_SHARE` of its time in our traps can be left alone.
    allocations.K5. What does not live for a second, or a small part of the time, is not kept.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from livedbg.linux import procfs
from livedbg.linux.registers import PC
from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.perf_count import Tally, trap_costs
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found, find_places
from livedbg.probes.tracefs import TraceEvent, TraceEvents, values

TIERS: Final = (16 << 10, 1 << 20)
"""Sizes below which blocks are chosen by ranges of addresses of that size: no stride of such blocks misses all."""

_TAKE: Final = ("malloc", "calloc", "realloc", "aligned_alloc", "memalign")
_GIVE: Final = ("free", "realloc")
_LIBC: Final = ("/libc.so.6", "/libc-2.")
_MOST_BITS: Final = (10, 5)  # of the address that choose a block
_FIRST: Final = (4, 2)
_STACK_BYTES: Final = 8 << 10
_TAKE_RING, _GIVE_RING = 16 << 20, 4 << 20  # bytes
_MANY: Final = 100  # allocations of a tier in one look: more, and fewer blocks are followed
_SHARE: Final = 0.5  # of the target's time that the traps may take
_TRAPS: Final = 3  # of a block: at the call, at its return, and as it is freed
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_FEW: Final = 10  # less, and more are followed
_BLOCKS: Final = 50_000  # that are followed at once, about

Stack = TypeVar("Stack", bound=Hashable)

Bits = tuple[int, int]
"""By how many bits of their addresses the blocks of each tier are chosen."""


class _Block(NamedTuple, Generic[Stack]):
    bytes: int
    at_ns: int
    stack: Stack
    weight: int
    old: bool = False

    @property
    def stands_for(self) -> int:
        return self.bytes * self.weight


class KeptBlocks(Generic[Stack]):
    """The blocks that live, what those that are old enough come to by stack, and that at its peak."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block[Stack]] = {}
        self._young: deque[tuple[int, int]] = deque()  # when they were taken, and their addresses
        self._now: Counter[Stack] = Counter()
        self._count: Counter[Stack] = Counter()
        self._bytes = self._most = 0
        self._peak: dict[Stack, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def peak(self) -> dict[Stack, tuple[int, int]]:
        """Bytes and blocks by stack, when most was kept."""
        return self._peak

    def took(self, address: int, size: int, at_ns: int, stack: Stack, weight: int) -> None:
        """Add a block."""
        self._drop(address)
        self._blocks[address] = _Block(size, at_ns, stack, weight)
        self._young.append((at_ns, address))

    def gave(self, address: int, at_ns: int) -> None:
        """Take a block away, if it is older than this (K1)."""
        block = self._blocks.get(address)
        if block is not None and block.at_ns < at_ns:
            self._drop(address)

    def choose(self, bits: Bits) -> None:
        """Follow blocks by so many bits: those that are no longer followed are stood for by the others (K2)."""
        for address, block in list(self._blocks.items()):
            weight = weight_of(block.bytes, bits)
            if block.weight < weight:
                self._drop(address)
                if is_followed(address, block.bytes, bits):
                    more = self._blocks[address] = block._replace(weight=weight)
                    self._credit(more, int(block.old))

    def forget(self) -> None:
        """Follow none of the blocks any more: some may have been freed (K3)."""
        self._blocks.clear()
        self._young.clear()
        self._now.clear()
        self._count.clear()
        self._bytes = 0

    def note_peak(self, before_ns: int) -> None:
        """Keep what there is now of blocks that were taken before this, if it is most so far (K5)."""
        while self._young and self._young[0][0] < before_ns:
            at_ns, address = self._young.popleft()
            block = self._blocks.get(address)
            if block is not None and block.at_ns == at_ns:
                block = self._blocks[address] = block._replace(old=True)
                self._credit(block, 1)
        if self._bytes > self._most:
            self._most = self._bytes
            self._peak = {stack: (size, self._count[stack]) for stack, size in self._now.items() if size > 0}

    def _drop(self, address: int) -> None:
        block = self._blocks.pop(address, None)
        if block is not None:
            self._credit(block, -int(block.old))

    def _credit(self, block: _Block[Stack], sign: int) -> None:
        self._bytes += sign * block.stands_for
        self._now[block.stack] += sign * block.stands_for
        self._count[block.stack] += sign * block.weight


def _tier(size: int) -> int:
    return sum(size >= limit for limit in TIERS)


def weight_of(size: int, bits: Bits) -> int:
    """Return for how many blocks of its size one that is followed stands."""
    return 1 << (*bits, 0)[_tier(size)]


def is_followed(address: int, size: int, bits: Bits) -> bool:
    """Return whether a block is one of those that are followed: what `wanted` asks of the kernel."""
    return not address & (weight_of(size, bits) - 1) * (*TIERS, 0)[_tier(size)]


def wanted(bits: Bits) -> str:
    """Return the kernel's test of a block (Documentation/trace/events.rst)."""
    parts, least = [], 0
    for limit, some in zip(TIERS, bits, strict=True):
        chosen = f" && !(ptr & {((1 << some) - 1) * limit:#x})" if some else ""
        parts.append(f"(size >= {least} && size < {limit}{chosen})")
        least = limit
    return f"ptr != 0 && ({' || '.join(parts)} || size >= {least})"


def too_often(traps_s: float, system_s: float, wall_s: float) -> bool:
    """Return whether so many traps, at what one costs at most, take too much of the target's time (K4)."""
    return min(traps_s, system_s) > _SHARE * max(wall_s, 0.5)


class AllocationProbes:
    """The probes of one process. A context manager; raises NoTracefs or NoPerf if not allowed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.bits: Bits = _FIRST
        self.lost_frees = 0
        self._trace = TraceEvents()
        self._searched: set[tuple[str, int]] = set()
        self._took: list[TraceEvent] = []
        self._gave: list[TraceEvent] = []
        self._armed: tuple[PerfEvents, PerfEvents] | None = None
        self._trap_ns = trap_costs().counted
        self._tally: Tally | None = None
        self._tallied = (0.0, 0, 0.0)  # when, how many, and the system's time
        self._before: list[tuple[PerfEvents, PerfEvents]] = []  # that gave way, and may have samples

    @property
    def armed(self) -> bool:
        return self._armed is not None

    def find(self) -> None:
        """Arm the probes in files that were loaded meanwhile.

        Raises:
            NoPerf: not allowed.
        """
        try:
            found, _ = find_places(self.pid, {*_TAKE, *_GIVE}, self._searched)
        except OSError:
            return  # it has ended
        if new := [one for one in found if any(name in one.file for name in _LIBC)]:
            self._define(new)
            self.arm(self.bits)
            if self._tally is not None:
                self._tally.close()
            sources = [Source(TRACEPOINT, event.number) for event in self._took]
            self._tally = Tally.of_all(sources, self._threads, follow=False)
            self._tallied = (time.monotonic(), 0, _system_s(self.pid))

    def too_many(self) -> bool:
        """Return whether there were more allocations than may be, since this was asked last (K4)."""
        if self._tally is None:
            return False
        now = (time.monotonic(), self._tally.total(), _system_s(self.pid))
        wall_s, calls, system_s = (after - before for before, after in zip(self._tallied, now, strict=True))
        self._tallied = now
        return too_often(_TRAPS * calls * self._trap_ns / 1e9, system_s, wall_s)

    def _define(self, found: Iterable[Found]) -> None:
        for one in found:
            path, offset = one.place
            if one.name in _TAKE:
                arguments = ("ptr=$retval:x64", "size=-8($retval):u64")
                self._took.append(self._trace.define(path, offset, arguments, returns=True))
            if one.name in _GIVE:
                self._gave.append(self._trace.define(path, offset, ("ptr=%di:x64", "size=-8(%di):u64")))

    def arm(self, bits: Bits) -> None:
        """Follow blocks by so many bits of their addresses.

        The probes overlap, and those of frees are the first: no free of a block that is taken meanwhile is missed.
        """
        before, self.bits = self._armed, bits
        pairs = ((self._gave, 8, _GIVE_RING), (self._took, _STACK_BYTES, _TAKE_RING))
        opened: list[PerfEvents] = []
        try:
            for events, stack_bytes, ring_bytes in pairs:
                sources = [Source(TRACEPOINT, event.number, wanted=wanted(bits)) for event in events]
                opened.append(
                    PerfEvents.in_threads(
                        sources, self._threads, stack_bytes=stack_bytes, ring_bytes=ring_bytes, wake=False
                    )
                )
        except BaseException:
            _close(opened)
            raise
        self._armed = (opened[1], opened[0])
        self._before += [before] if before is not None else []

    def read(self) -> tuple[list[tuple[Sample, int, int]], list[tuple[int, int]]]:
        """Return the allocations (with address and size) and the frees (address, time) since the last call."""
        before, self._before = self._before, []
        pairs = [*before, *([self._armed] if self._armed is not None else [])]
        blocks: list[tuple[Sample, int, int]] = []
        given = [one for _, gave in pairs for one in gave.read()]
        frees = [(int(values(self._gave[one.source].fields, one.raw)["ptr"]), one.mono_ns) for one in given]
        self.lost_frees += sum(gave.take_lost() for _, gave in pairs)
        for took, _ in pairs:  # after the frees: each of these has its block in the list by now
            for one in took.read():
                read = values(self._took[one.source].fields, one.raw)
                address, size = int(read["ptr"]), int(read["size"]) & ~7
                if is_followed(address, size, self.bits):  # else nobody would read its free, now that these close
                    at_call = (*one.registers[:PC], one.registers[PC] - 1, *one.registers[PC + 1 :])
                    blocks.append((one._replace(registers=at_call), address, size))
        for pair in before:
            _close(pair)
        return blocks, frees

    def adapt(self, kept: KeptBlocks[Stack], sizes: Sequence[int]) -> None:
        """Follow as many blocks of each tier as can be read; `sizes`: of those that were taken last."""
        taken = Counter(map(_tier, sizes))
        small, medium = (
            min(most, _bits_after(some, taken[tier], len(kept)))
            for tier, (some, most) in enumerate(zip(self.bits, _MOST_BITS, strict=True))
        )
        if self.armed and (small, medium) != self.bits:
            self.arm((small, medium))
            kept.choose((small, medium))

    def close(self) -> None:
        for pair in (*self._before, *([self._armed] if self._armed is not None else [])):
            _close(pair)
        if self._tally is not None:
            self._tally.close()
        self._trace.close()

    def _threads(self) -> Collection[int]:
        try:
            return procfs.thread_ids(self.pid)
        except OSError:
            return ()


def _system_s(pid: int) -> float:
    """Return the CPU time that the kernel has spent for a process, its traps included; 0 if it is gone."""
    try:
        return int(procfs.read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()[12]) / _TICKS
    except (OSError, LookupError):
        return 0.0


def _close(events: Iterable[PerfEvents]) -> None:
    for one in events:
        one.close()


def _bits_after(bits: int, taken: int, followed: int) -> int:
    if taken > _MANY or followed > _BLOCKS:
        return bits + 1
    return max(0, bits - 1) if taken < _FEW and followed < _BLOCKS // 4 else bits
