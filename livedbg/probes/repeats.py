"""Threads that repeat themselves: in a loop that only reads, with the same registers whenever it is sampled.

Such a loop has no state of its own, so it ends only when somebody else changes what it reads: it spins. A computation
has state: a counter or an address in a register, a sum in a vector register, something that it stores.

Invariants:
    samples_repeats.E1. A thread repeats itself only while every sample is in one loop that only reads, and had the
        registers that an earlier sample had at the same instruction, if there was one.
    samples_repeats.E2. Only samples that are the same as an earlier one are counted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from livedbg.linux import memory
from livedbg.linux.x86_64 import GENERAL, PC, SP
from livedbg.linux.x86_64_loops import REACH, reading_loop
from livedbg.probes.perf_records import Sample


class Repeated(NamedTuple):
    """How long a thread has repeated itself.

    Attributes:
        since_ns: CLOCK_MONOTONIC of the first sample.
        samples: how many were the same as an earlier one.
    """

    since_ns: int
    samples: int


class _Loop:
    """A loop that a thread is in, and its registers at each instruction that was sampled."""

    def __init__(self, addresses: frozenset[int], since_ns: int) -> None:
        self.addresses = addresses
        self.since_ns = since_ns
        self.registers: dict[int, tuple[int, ...]] = {}
        self.same = 0

    def takes(self, sample: Sample) -> bool:
        """Whether a sample is in it and contradicts no earlier one (E1)."""
        pc = sample.registers[PC]
        registers = tuple(sample.registers[place] for place in (*GENERAL, SP))
        if pc not in self.addresses:
            return False
        known = pc in self.registers
        self.same += known
        return self.registers.setdefault(pc, registers) == registers


class Repeats:
    """Which threads repeat themselves.

    Args:
        floats: loops may also compute in floating-point registers, which samples don't have.
    """

    def __init__(self, *, floats: bool = False) -> None:
        self._floats = floats
        self._loops: dict[int, _Loop] = {}

    def seen(self, pid: int, sample: Sample) -> Repeated | None:
        """One more sample of a thread of a process; None if it does not repeat itself, or not yet."""
        loop = self._loops.get(sample.tid)
        if loop is None or not loop.takes(sample):
            loop = self._loops[sample.tid] = _Loop(self._loop_at(pid, sample.registers[PC]), sample.mono_ns)
            loop.takes(sample)
        return Repeated(loop.since_ns, loop.same) if loop.same else None

    def keep(self, tids: Collection[int]) -> None:
        """Forget all threads but these."""
        for tid in self._loops.keys() - set(tids):
            del self._loops[tid]

    def _loop_at(self, pid: int, pc: int) -> frozenset[int]:
        """The loop that only reads around a program counter, if it is in one."""
        base = pc - REACH
        try:
            code = memory.read(pid, base, 2 * REACH)
        except OSError:
            return frozenset()
        return reading_loop(code, base, pc, self._floats)
