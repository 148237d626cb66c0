"""Listens to signals as a process gets them: the kernel's trace event signal:signal_deliver, without a stop.

The event comes in the thread that gets the signal, just before its handler runs or the process ends: a sample of it has
the registers and the stack of the instruction that faulted. Which signals are meant is for the kernel to sort out.
ptrace is not needed, and nothing in the target changes.

Invariants:
    G1. Threads born later, and where they are followed children, also after an exec, are heard: events are inherited.
    G2. A signal that the kernel sorted out costs the target nothing but the event's own test.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from livedbg.adapters.exceptions.calls import Call
from livedbg.adapters.exceptions.hearing import Heard, Hearing, threads_of
from livedbg.adapters.exceptions.signal_words import QUIET_WHERE_HANDLED, effect, origin, signal_name
from livedbg.linux.maps import Mapping
from livedbg.linux.perf import TRACEPOINT, PerfEvents, Sample, Source
from livedbg.linux.procfs import process_exists
from livedbg.linux.tracefs import TraceEvent, kernel_event

__all__ = ["SignalListener"]

_RINGS: Final = 4 << 20  # bytes: signals are few
_IDLE_S: Final = 0.2
_LOOK_S: Final = 1.0  # between two looks at which threads are left


class SignalListener(Hearing):
    """Hears signals; used as `Listener` is.

    Args:
        pid: the process.
        numbers: which signals.
        tell: called in the listener's thread with the signals, in the order of time.
        mappings: those of a process, as they are known; called in the listener's thread.
        follow: child processes too.

    Raises:
        ValueError: no signal is named.
    """

    def __init__(
        self,
        pid: int,
        numbers: Collection[int],
        *,
        tell: Callable[[Sequence[Heard]], None],
        mappings: Callable[[int], Sequence[Mapping]],
        follow: bool,
    ) -> None:
        super().__init__()
        if not numbers:
            raise ValueError("no signal is named")
        self._pid = pid
        self._numbers = frozenset(numbers)
        self._tell = tell
        self._mappings = mappings
        self._follow = follow
        self._event: TraceEvent | None = None
        self._events: PerfEvents | None = None

    def _set(self) -> None:
        self._event = kernel_event("signal", "signal_deliver")
        source = Source(TRACEPOINT, self._event.number, wanted=_filter(self._numbers))
        self._events = PerfEvents([source], follow=self._follow, ring_bytes=_RINGS)
        self._events.add_all(lambda: threads_of(self._pid, self._follow))
        if not self._events.threads and not process_exists(self._pid):
            raise ProcessLookupError

    def _listen(self) -> None:
        assert self._events is not None
        waiting = select.poll()
        waiting.register(self._awake, select.POLLIN)
        waiting.register(self._events.fileno(), select.POLLIN)
        look_s = time.monotonic() + _LOOK_S
        while not self._over.is_set():
            waiting.poll(1000 * _IDLE_S)
            self._hear(self._events)
            if time.monotonic() >= look_s:
                look_s = time.monotonic() + _LOOK_S
                self._events.keep(threads_of(self._pid, self._follow))
        self._hear(self._events)

    def _hear(self, events: PerfEvents) -> None:
        samples = events.read()
        lost = events.take_lost()
        self.counts.lost += lost
        self.counts.seen += lost + len(samples)
        if samples:
            self._tell([Heard(sample, self._call(sample)) for sample in samples])

    def _call(self, sample: Sample) -> Call:
        assert self._event is not None
        number, code, handler = (int(self._event.fields[name].read(sample.raw)) for name in _FIELDS)
        code -= (code & 0x80000000) << 1  # an int
        words = f"{origin(number, code)}; {effect(number, handler, self._mappings(sample.pid))}"
        return Call((signal_name(number),), words)

    def _close(self) -> None:
        if self._events is not None:
            self._events.close()


_FIELDS: Final = ("sig", "code", "sa_handler")


def _filter(numbers: Collection[int]) -> str:
    """What the kernel sorts out by (Documentation/trace/events.rst, event filtering)."""
    parts = []
    for number in sorted(numbers):
        quiet = number in QUIET_WHERE_HANDLED and len(numbers) > 1
        parts.append(f"(sig == {int(number)} && sa_handler == 0)" if quiet else f"sig == {int(number)}")
    return " || ".join(parts)
