"""The stacks of samples, unwound by the common native unwinder, and cached.

The stack of a sample follows from its program counter and from the words of its stack that point into code or into the
stack itself. Two samples that have these in common have the same frames, so a loop is unwound only as often as it has
places. Samples of one thread have their stacks at the same address: each is moved, so that many are unwound at once.

Invariants:
    samples_unwinding.W1. No more than `_REMEMBERED` stacks of a process are kept.
    samples_unwinding.W2. Stacks are forgotten when the memory layout of the process changes.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.registers import FRAME_POINTER, PC, SP
from livedbg.model.errors import LivedbgError
from livedbg.probes.newest import Newest
from livedbg.probes.perf_records import Sample
from livedbg.unwind.capture import Capture, ThreadCopy
from livedbg.unwind.pool import UnwinderPool
from livedbg.unwind.unwound import Unwound

_REMEMBERED: Final = 4096
_AT_ONCE: Final = 128  # samples that are unwound together
_STACKS_AT: Final = 1 << 44  # where their stacks are moved to: neither programs nor libraries nor stacks lie there
_APART: Final = 1 << 20
_PAGE: Final = 4096


class SampledStacks:
    """Unwinds the samples of one process."""

    def __init__(self, pid: int, pool: UnwinderPool) -> None:
        self._pid = pid
        self._pool = pool
        self._mappings: tuple[Mapping, ...] = ()
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._known: Newest[bytes, Unwound | None] = Newest(_REMEMBERED)
        self.cpu_s = 0.0
        """CPU time that telling samples apart has taken."""

    async def unwind(self, samples: Sequence[Sample], limit_s: float) -> list[Unwound | None]:
        """Return the stacks of samples, in order; None for a sample that can't be unwound.

        Args:
            limit_s: time limit for each `_AT_ONCE` new samples.

        Raises:
            LivedbgError: the unwinder failed.
            OSError: the process is gone and nothing of it is cached, or its mappings may not be read.
        """
        keys = await asyncio.to_thread(self._keys, samples)
        if any(key not in self._known for key in keys):
            if await asyncio.to_thread(self._refresh):
                keys = await asyncio.to_thread(self._keys, samples)
            await self._learn(samples, keys, limit_s)
        return [self._known.get(key) for key in keys]

    async def recall(self, samples: Sequence[Sample]) -> dict[int, Unwound | None]:
        """Return thread -> stack, for samples whose stack is cached; one sample per thread."""
        keys = await asyncio.to_thread(self._keys, samples)
        pairs = zip(samples, keys, strict=True)
        return {sample.tid: self._known[key] for sample, key in pairs if key in self._known}

    async def _learn(self, samples: Sequence[Sample], keys: Sequence[bytes], limit_s: float) -> None:
        """Unwind the new samples: many at once, each as a thread with its stack at an address of its own."""
        left = list({key: sample for key, sample in zip(keys, samples, strict=True) if key not in self._known}.items())
        for start in range(0, len(left), _AT_ONCE):
            some = left[start : start + _AT_ONCE]
            copies = await asyncio.to_thread(_moved_apart, [sample for _, sample in some])
            try:
                unwinder = await self._pool.of(self._pid)
                done = await unwinder.unwind(Capture(self._pid, copies, (), self._mappings), limit_s)
            except LivedbgError:
                await self._pool.drop(self._pid)
                raise
            for (key, _), copy in zip(some, copies, strict=True):
                self._known[key] = done.get(copy.tid)

    def _refresh(self) -> bool:
        """Read the mappings again, keeping the last ones of an ended process; return whether they have changed.

        Raises:
            OSError: the process is gone and none were read, or they may not be read.
        """
        try:
            mappings = tuple(parse_maps(self._pid))
        except OSError:
            mappings = ()
            if not self._mappings:
                raise
        if not mappings and self._mappings:  # a process that ends has none
            return False
        code = [mapping for mapping in mappings if mapping.executable]
        if code == [mapping for mapping in self._mappings if mapping.executable] and self._mappings:
            self._mappings = mappings
            return False
        self._mappings = mappings
        self._starts, self._ends = [mapping.start for mapping in code], [mapping.end for mapping in code]
        self._known.clear()
        return True

    def _keys(self, samples: Sequence[Sample]) -> list[bytes]:
        before_s = time.thread_time()
        keys = [self._key(sample) for sample in samples]
        self.cpu_s += time.thread_time() - before_s
        return keys

    def _key(self, sample: Sample) -> bytes:
        """Return a hash of all that the frames depend on, independent of the stack's address."""
        sp, bp = sample.registers[SP], sample.registers[FRAME_POINTER]
        top = sp + len(sample.stack)
        starts, ends = self._starts, self._ends
        low, high = (starts[0], ends[-1]) if starts else (0, 0)
        chain = array("q", (_signed(sample.registers[PC]), bp - sp if sp <= bp < top else -1))
        for place, word in enumerate(_words(sample)):
            if sp <= word < top:
                chain.extend((place, sp - word - 1))
            elif low <= word < high and word < ends[bisect_right(starts, word) - 1]:
                chain.extend((place, _signed(word)))
        return blake2b(chain.tobytes(), digest_size=16).digest()


def _moved_apart(samples: Sequence[Sample]) -> tuple[ThreadCopy, ...]:
    return tuple(_moved(number, sample) for number, sample in enumerate(samples))


def _moved(number: int, sample: Sample) -> ThreadCopy:
    """Return a sample as a thread with that number, its stack moved to an address range of its own."""
    sp = sample.registers[SP]
    top = sp + len(sample.stack)
    by = _STACKS_AT + number * _APART + sp % _PAGE - sp
    words = _words(sample)
    for place, word in enumerate(words):
        if sp <= word <= top:
            words[place] = word + by
    registers = tuple(word + by if sp <= word <= top else word for word in sample.registers)
    return ThreadCopy(number + 1, registers, sp + by, words.tobytes())


def _words(sample: Sample) -> array[int]:
    return array("Q", sample.stack[: len(sample.stack) & -8])


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
