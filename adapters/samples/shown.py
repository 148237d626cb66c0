"""Stacks of samples on the stream: unwound within a budget, each frame with the time since which it is held.

A frame is held while it and all its callers are the same functions in every sample of a running thread. A loop's
callees come and go; the function with the loop is held.

Invariants:
    shown.H1. A frame is held since a sample that had it, and every later sample had it too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from livedbg.adapters.samples.account import SampleAccount, Troubles
from livedbg.adapters.samples.python_frames import PYTHON, with_python
from livedbg.adapters.samples.unwinding import SampledStacks
from livedbg.model import SAMPLED, Frame, Stack, Thread
from livedbg.model.errors import LivedbgError
from livedbg.model.events import SamplesSeen, StacksSeen
from livedbg.model.launches import ProfileSlice, SampledStack
from livedbg.probes.clock_samples import Repeats
from livedbg.probes.perf_records import Sample
from livedbg.session.adapter import Context
from livedbg.session.pacing import CpuCredit
from livedbg.session.sources import StackSources
from livedbg.unwind.pool import UnwinderPool
from livedbg.unwind.unwound import Unwound


class _Held(NamedTuple):
    function: str
    module: str | None
    since_ns: int
    samples: int


class HeldFrames:
    """The held frames of threads."""

    def __init__(self) -> None:
        self._held: dict[int, list[_Held]] = {}

    def seen(self, tid: int, frames: Sequence[Frame], taken_ns: int) -> tuple[Frame, ...]:
        """Add a sample of a thread.

        Args:
            frames: innermost first.
            taken_ns: when the sample was taken.

        Returns:
            The frames, each with the time since which it is held.
        """
        before = self._held.get(tid, [])
        after: list[_Held] = []
        for place, frame in enumerate(reversed(frames)):
            known = before[place] if place < len(before) else None
            if known is None or (known.function, known.module) != (frame.function, frame.module):
                before = []  # what is inside another function is another place
                after.append(_Held(frame.function, frame.module, taken_ns, 1))
            else:
                after.append(known._replace(samples=known.samples + 1))
        self._held[tid] = after
        return tuple(
            msgspec.structs.replace(frame, held_mono_ns=held.since_ns, held_samples=held.samples)
            for frame, held in zip(frames, reversed(after), strict=True)
        )

    def keep(self, tids: Collection[int]) -> None:
        """Forget all threads but these: a thread that was blocked meanwhile starts anew."""
        for tid in self._held.keys() - set(tids):
            del self._held[tid]


_UNWINDING: Final = 0.002  # share of a core that unwinding may take when nobody asks
_BURST_S: Final = 1.0  # CPU time of unwinding that may come at once: symbols are read then
_UNWIND_S: Final = 30.0
_LOST: Final = "outer frames may be missing: code without unwind tables, or more stack than was copied"


class Shown:
    """Unwinds the newest sample of each thread and emits its stack.

    Args:
        troubles: reports samples that can't be unwound.
        covered: whether a thread (its identifier) is profiled elsewhere.
    """

    def __init__(
        self, pool: UnwinderPool, account: SampleAccount, troubles: Troubles, covered: Callable[[str], bool]
    ) -> None:
        self._pool = pool
        self._account = account
        self._troubles = troubles
        self._covered = covered
        self._stacks: dict[int, SampledStacks] = {}
        self._held = HeldFrames()
        self._repeats = Repeats()
        self._pending: dict[int, Sample] = {}
        self._credit = CpuCredit(_UNWINDING, _BURST_S)
        self._credit_s = time.monotonic()
        self._one_at_a_time = asyncio.Lock()
        self._sources = StackSources()

    def waiting(self, tids: Collection[int]) -> dict[int, Sample]:
        """Return and forget the deferred samples of these threads."""
        pending, self._pending = self._pending, {}
        return {tid: one for tid, one in pending.items() if tid in tids}

    def keep(self, ids: Mapping[int, Thread]) -> None:
        """Forget all threads but these."""
        self._held.keep(ids)
        self._repeats.keep(ids)
        for pid in self._stacks.keys() - {_pid_of(thread) for thread in ids.values()}:
            del self._stacks[pid]

    async def emit(
        self,
        context: Context,
        ids: Mapping[int, Thread],
        samples: Iterable[Sample],
        periods_ns: Mapping[int, int] | None = None,
    ) -> None:
        """Unwind samples, one per thread, and put the stacks on the stream.

        Args:
            periods_ns: CPU time that each represents: they become parts of profiles, and samples that need unwinding
                may be
                deferred until there is CPU time for it. None if the stacks were requested.
        """
        by_process: dict[int, dict[int, Sample]] = {}
        for sample in samples:
            by_process.setdefault(_pid_of(ids[sample.tid]), {})[sample.tid] = sample
        for pid, some in by_process.items():
            async with self._one_at_a_time:
                try:
                    unwound = await self._unwound(pid, some, asked=periods_ns is None)
                except OSError:
                    continue  # it has ended
                except LivedbgError as error:
                    self._troubles.report(context, ids[min(some)].process, error)
                    continue
            stacks = [
                self._stack(ids[tid], some[tid], stack)
                for tid, stack in unwound.items()
                if stack is not None and stack.frames
            ]
            if stacks:
                shown = await self._sources.added(pid, stacks)
                context.emit(StacksSeen(stacks=shown, **context.stamp()))
            slices = tuple(
                _slice(ids[tid], some[tid], periods_ns[tid], stack)
                for tid, stack in unwound.items()
                if periods_ns is not None and not self._covered(ids[tid].id)
            )
            if slices:
                context.emit(SamplesSeen(slices=slices, **context.stamp()))
        self._account.report(context)

    async def _unwound(self, pid: int, samples: dict[int, Sample], *, asked: bool) -> dict[int, Unwound | None]:
        """Return thread -> stack; a thread whose sample is deferred keeps it for the next turn.

        Raises:
            LivedbgError: the unwinder failed.
            OSError: the process is gone or its mappings may not be read.
        """
        known = self._stacks.get(pid) or self._stacks.setdefault(pid, SampledStacks(pid, self._pool))
        now_s = time.monotonic()
        self._credit.passed(now_s - self._credit_s)
        self._credit_s = now_s
        if not asked and self._credit.wait_s() > 0:
            found = await known.recall(list(samples.values()))
            self._pending |= {tid: sample for tid, sample in samples.items() if tid not in found}
            return found
        before_s, own_s = self._pool.cpu_s(pid), time.thread_time()
        try:
            found_all = await known.unwind(list(samples.values()), _UNWIND_S)
        finally:
            after_s = self._pool.cpu_s(pid)
            spent_s = after_s - before_s if after_s >= before_s else after_s
            self._credit.spend(spent_s + time.thread_time() - own_s)
        return dict(zip(samples, found_all, strict=True))

    def _stack(self, thread: Thread, sample: Sample, unwound: Unwound) -> Stack:
        repeated = self._repeats.seen(_pid_of(thread), sample)
        return Stack(
            thread=thread.id,
            frames=self._held.seen(sample.tid, unwound.frames, sample.mono_ns),
            taken_mono_ns=sample.mono_ns,
            source=SAMPLED,
            layer="native",
            partial=not unwound.whole,
            note=None if unwound.whole else _LOST,
            repeats_since_mono_ns=repeated.since_ns if repeated is not None else None,
            repeats=repeated.samples if repeated is not None else 0,
        )


def _pid_of(thread: Thread) -> int:
    return int(thread.process.rpartition("/")[2])


def _slice(thread: Thread, sample: Sample, period_ns: int, unwound: Unwound | None) -> ProfileSlice:
    frames = with_python(unwound, None, PYTHON)
    counted = SampledStack(frames, period_ns, whole=unwound is not None and unwound.whole)
    return ProfileSlice(
        thread=thread.id,
        start_mono_ns=sample.mono_ns,
        end_mono_ns=sample.mono_ns,
        stacks=(counted,) if frames else (),
        unknown=0 if frames else 1,
    )
