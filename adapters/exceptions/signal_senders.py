"""Who sent a signal: by the kernel's trace event signal:signal_generate, which comes in the thread that sends it.

It is traced on all CPUs, since anybody may be the sender, and filtered by signal and target in the kernel. What ends a
process without a core dump (SIGTERM, SIGINT, SIGKILL, where nobody handles them) is never delivered as itself: the
kernel gives SIGKILL to every thread at once (kernel/signal.c, complete_signal). Which one it was, follows from this
event.

Invariants:
    signal_senders.S1. Where it is not allowed, signals are traced all the same, without their senders.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from livedbg.linux import procfs
from livedbg.probes.newest import Newest
from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.tracefs import TraceEvent, kernel_event
from livedbg.text.sanitize import clean_line

__all__ = ["Senders", "Sent"]

_EVERYBODY: Final = -1  # for perf_event_open(2)
_RINGS: Final = 1 << 20
_STACK: Final = 8  # bytes: the sender's stack is of no use
_MOST: Final = 256
_NOT_SENT: Final = 1  # TRACE_SIGNAL_IGNORED (trace/events/signal.h)


class Sent(NamedTuple):
    """A signal on its way.

    Attributes:
        target: the process or thread that it was sent to.
        by: who sent it, in words.
    """

    number: int
    code: int
    target: int
    mono_ns: int
    sender: int
    by: str


class Senders:
    """Knows who sent the last of each signal to a process.

    Args:
        numbers: which signals.
        pid: to this process only; None: to any, for a process and its children.
    """

    def __init__(self, numbers: Collection[int], pid: int | None) -> None:
        self._numbers = frozenset(numbers)
        self._pid = pid
        self._event: TraceEvent | None = None
        self._events: PerfEvents | None = None
        self._sent: Newest[tuple[int, int], Sent] = Newest(_MOST)

    def start(self) -> None:
        """Begin to trace.

        Raises:
            OSError: not allowed (NoPerf, NoTracefs).
        """
        self._event = kernel_event("signal", "signal_generate")
        wanted = " || ".join(f"sig == {number}" for number in sorted(self._numbers))
        if self._pid is not None:
            wanted = f"pid == {self._pid} && ({wanted})"
        source = Source(TRACEPOINT, self._event.number, wanted=wanted)
        self._events = PerfEvents([source], stack_bytes=_STACK, ring_bytes=_RINGS)
        self._events.add(_EVERYBODY)

    def update(self) -> None:
        """Take in what was sent; a signal that was delivered before this is asked is among it."""
        if self._events is None or self._event is None:
            return
        for sample in self._events.read():
            number, code, target, result = (
                int(self._event.fields[name].read(sample.raw)) for name in ("sig", "code", "pid", "result")
            )
            if result != _NOT_SENT:
                code -= (code & 0x80000000) << 1  # an int
                sent = Sent(number, code, target, sample.mono_ns, sample.pid, _name(sample.pid))
                self._sent[target, number] = sent

    def take(self, number: int, targets: Collection[int]) -> Sent | None:
        """The last signal of that number to one of these, once."""
        for target in targets:
            if (target, number) in self._sent:
                return self._sent.pop((target, number))
        return None

    def take_last(self, targets: Collection[int]) -> Sent | None:
        """The last signal of any number to one of these, once."""
        sent = [one for one in self._sent.values() if one.target in targets]
        return self._sent.pop((sent[-1].target, sent[-1].number)) if sent else None

    def close(self) -> None:
        """Trace no more."""
        if self._events is not None:
            self._events.close()
            self._events = None


def _name(pid: int) -> str:
    if not pid:
        return "the kernel"
    try:
        return f"process {pid} ({clean_line(procfs.read_stat(pid).name)})"
    except OSError:
        return f"process {pid}, which has ended"
