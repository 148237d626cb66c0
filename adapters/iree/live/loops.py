"""Detect workers in endless loops, by the kernel's clock samples; and find the dispatches on stacks.

Samples are taken for a moment only when a dispatch makes no progress, and again as long as it doesn't.

Invariants:
    iree_loops.Q1. A worker repeats itself only after `_ENOUGH` samples in one loop: if an outer loop, which counts
        in a floating-point register, runs that loop for a few steps again and again, some are outside of it.
    iree_loops.Q2. A sleeping thread repeats nothing: it is not waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field

from livedbg.adapters.iree.live.libraries import Dispatch
from livedbg.adapters.iree.live.waits import is_worker
from livedbg.linux.procfs import read_stat
from livedbg.linux.registers import PC
from livedbg.model import Intrusion, ThreadState
from livedbg.model.events import Touched
from livedbg.model.intents import SAMPLES
from livedbg.model.snapshot import Snapshot
from livedbg.probes.clock_samples import ClockSamples, Repeats
from livedbg.probes.perf_event import NoPerf, supported
from livedbg.session.adapter import Context

_PERIOD_NS: Final = 500_000  # CPU time between two samples
_FOR_S: Final = 5.0  # at most, on a busy machine
_POLL_S: Final = 0.02
_ENOUGH: Final = 300
_COMPUTES: Final = 10  # samples of a thread that contradict: it computes
_ADDRESSES: Final = 16
_EACH_NS: Final = 30_000  # what a sample takes of its thread, about (docs/performance.md)


class Loop(Struct, frozen=True):
    """A thread that was seen to repeat itself.

    Attributes:
        dispatch: name of the dispatch whose code it is in.
        samples: number of samples equal to an earlier one.
        since_ns: CLOCK_MONOTONIC of the first sample.
    """

    dispatch: str
    samples: int
    since_ns: int


class Sampled(Struct):
    """The newest samples of a thread: CLOCK_MONOTONIC, and the instructions of the dispatch, each once."""

    dispatch: Dispatch
    mono_ns: int
    addresses: dict[int, None] = field(default_factory=dict)


class Loops:
    """Workers of one process; `sampled` maps tids to the dispatch of their newest sample, and where in it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._repeats = Repeats(floats=True)
        self.sampled: dict[int, Sampled] = {}

    async def look(
        self, context: Context, threads: Mapping[int, str], at: Callable[[int], Dispatch | None]
    ) -> dict[int, Loop]:
        """Sample some threads (by tid) in dispatches, which `at` finds; return those that repeat themselves."""
        self._repeats.keep(threads)
        self.sampled = {}
        if not supported() or context.request.options.get(SAMPLES) == "no":
            return {}
        found: dict[int, Loop] = {}
        against: Counter[int] = Counter()
        taken = 0
        end = time.monotonic() + _FOR_S
        try:
            with ClockSamples(stack_bytes=8) as clocks:
                clocks.follow(dict.fromkeys(threads, _PERIOD_NS))
                while time.monotonic() < end and any(tid not in found and against[tid] < _COMPUTES for tid in threads):
                    await asyncio.sleep(_POLL_S)
                    against.update({tid: _COMPUTES for tid in threads if tid not in found and sleeps(self._pid, tid)})
                    for sample in clocks.read():
                        taken += 1
                        repeated = self._repeats.seen(self._pid, sample)
                        dispatch = at(sample.registers[PC])
                        found.pop(sample.tid, None)
                        if dispatch is not None:
                            self._note(sample.tid, dispatch, sample.mono_ns, sample.registers[PC])
                        if repeated is None:
                            against[sample.tid] += 1
                        elif dispatch is not None and repeated.samples >= _ENOUGH:
                            found[sample.tid] = Loop(dispatch.name, repeated.samples, repeated.since_ns)
        except NoPerf:
            return {}  # the adapter that samples says so
        if taken:
            self._account(context, taken, len(threads))
        return found

    def _note(self, tid: int, dispatch: Dispatch, mono_ns: int, address: int) -> None:
        known = self.sampled.get(tid)
        if known is None or known.dispatch != dispatch:
            known = self.sampled[tid] = Sampled(dispatch, mono_ns)
        known.mono_ns = mono_ns
        if len(known.addresses) < _ADDRESSES:
            known.addresses[address] = None

    def _account(self, context: Context, samples: int, threads: int) -> None:
        about_ms = samples * _EACH_NS / 1e6
        touch = Intrusion(
            target=f"process:{context.request.host}/{self._pid}",
            what="samples",
            why=f"{samples} samples of {threads} workers by the kernel's clock, about {about_ms:.2f} ms of interrupts",
            measured=False,
            at_wall_ns=time.time_ns(),
        )
        context.emit(Touched(intrusion=touch, **context.stamp()))


def sleeps(pid: int, tid: int) -> bool:
    """Return whether a thread waits, or has ended, right now."""
    try:
        return read_stat(pid, tid).state is ThreadState.WAITING
    except OSError:
        return True


class OnStack(Struct, frozen=True):
    """A dispatch whose code a thread was in.

    Attributes:
        thread: its id.
        taken_mono_ns: when its stack was taken.
        address: in the code.
        seen_mono_ns: when a later sample found it there; 0 if none did.
        before: the dispatch on its stack, if a later sample found it in this one.
        device: name of the running device; "" if not known.
        lines: `FILE:LINE` of samples, by the library's debug information.
    """

    thread: str
    dispatch: Dispatch
    taken_mono_ns: int
    address: int
    seen_mono_ns: int = 0
    before: str = ""
    device: str = ""
    lines: tuple[str, ...] = ()


def dispatches_on_stacks(
    process: str, at: Callable[[int], Dispatch | None], snapshot: Snapshot, *, in_callers: str
) -> list[OnStack]:
    """Return the innermost dispatch on each living thread's newest stack; `at` finds one by address."""
    found = []
    for thread in snapshot.threads.values():
        stack = snapshot.stacks.get(thread.id)
        if thread.process != process or thread.exited or stack is None:
            continue
        for frame in stack.frames:
            dispatch = at(frame.address) if frame.address else None
            if dispatch is not None and frame.address:
                device = dispatch.device or ("local-task" if is_worker(thread) else in_callers)
                found.append(OnStack(thread.id, dispatch, stack.taken_mono_ns, frame.address, device=device))
                break
    return found
