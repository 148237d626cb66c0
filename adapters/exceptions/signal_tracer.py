"""Trace signals as a process gets them: the kernel's trace event signal:signal_deliver, without a stop or ptrace.

The event comes in the thread that gets the signal, just before its handler runs or the process ends: a sample of it has
the registers and the stack of the instruction that faulted. The kernel filters by signal number.

The sender is taken from the kernel's trace event signal:signal_generate, which comes in the sending thread. It is
traced on all CPUs, since anybody may be the sender, and filtered by signal and target in the kernel. A signal that ends
a process without a core dump (unhandled SIGTERM, SIGINT, SIGKILL) is never delivered as itself: the kernel gives
SIGKILL to every thread at once (kernel/signal.c, complete_signal). Which one it was follows from this event.

Invariants:
    signal_tracer.G1. Threads born later are traced, and followed children also after an exec: events are inherited.
    signal_tracer.G2. A signal that the kernel filters out costs the target only the event's own test.
    signal_tracer.G3. Only page faults near address 0 are traced, which no program has on purpose: they come from null
        pointers. For the others this costs a comparison, some 0.1 us of 2 us (measured on Linux 6.18); of every 128th
        new page a sample is taken (livedbg.probes.overflows).
    signal_tracer.S1. If senders may not be traced, signals are traced all the same.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from livedbg.adapters.exceptions.calls import Call, TracedCall
from livedbg.adapters.exceptions.signal_meaning import BY_SOMEBODY, QUIET_WHERE_HANDLED, effect, is_fatal, origin
from livedbg.linux import procfs
from livedbg.linux.ending import Ending
from livedbg.linux.maps import Mapping
from livedbg.linux.procfs import process_exists, read_stat, signal_name
from livedbg.linux.registers import PC, SP
from livedbg.probes.newest import Newest
from livedbg.probes.overflows import Overflows
from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.perf_records import Sample
from livedbg.probes.tracefs import NoTracefs, TraceEvent, kernel_event
from livedbg.probes.tracer import ProcessTree, Tracer
from livedbg.text.sanitize import clean_line

_EVERYBODY: Final = -1  # for perf_event_open(2)
_SIGNAL_SENDERS_RINGS: Final = 1 << 20
_STACK: Final = 8  # bytes: the sender's stack is of no use
_MOST: Final = 256
_NOT_SENT: Final = 1  # TRACE_SIGNAL_IGNORED (trace/events/signal.h)


class Sent(NamedTuple):
    """A signal on its way to a process or thread, and a text on its sender."""

    number: int
    code: int
    target: int
    mono_ns: int
    sender: int
    by: str


class Senders:
    """The last sender of each traced signal to a process; for None, to any, including its children."""

    def __init__(self, numbers: Collection[int], pid: int | None) -> None:
        self._numbers = frozenset(numbers)
        self._pid = pid
        self._event: TraceEvent | None = None
        self._events: PerfEvents | None = None
        self._sent: Newest[tuple[int, int], Sent] = Newest(_MOST)

    def start(self) -> None:
        """Start tracing; raise OSError (NoPerf, NoTracefs) if not allowed."""
        self._event = kernel_event("signal", "signal_generate")
        wanted = " || ".join(f"sig == {number}" for number in sorted(self._numbers))
        if self._pid is not None:
            wanted = f"pid == {self._pid} && ({wanted})"
        source = Source(TRACEPOINT, self._event.number, wanted=wanted)
        self._events = PerfEvents([source], stack_bytes=_STACK, ring_bytes=_SIGNAL_SENDERS_RINGS)
        self._events.add(_EVERYBODY)

    def update(self) -> None:
        """Read the new signals; includes any signal that was delivered before this call."""
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
        """Remove and return the last signal of that number to one of these targets."""
        for target in targets:
            if (target, number) in self._sent:
                return self._sent.pop((target, number))
        return None

    def take_last(self, targets: Collection[int]) -> Sent | None:
        """Remove and return the last signal of any number to one of these targets."""
        sent = [one for one in self._sent.values() if one.target in targets]
        return self._sent.pop((sent[-1].target, sent[-1].number)) if sent else None

    def close(self) -> None:
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


_RINGS: Final = 4 << 20  # bytes: signals are few
_PROCESSES: Final = 256
_NULL: Final = 65536  # below: never mapped (/proc/sys/vm/mmap_min_addr)
_DYING_NS: Final = 60_000_000_000  # how long a process that was killed is given until it is over
_UNREPORTED_NS: Final = 1_000_000_000  # how long to wait for the cause of an end that was missed
_IDLE_S: Final = 0.2
_CHECK_S: Final = 1.0  # between two checks which threads are left


class SignalTracer(Tracer):
    """Traces signals; used as `FunctionTracer` is.

    Args:
        numbers: traced signals.
        report: called in the tracer's thread with the signals, in time order.
        mappings: returns the known mappings of a process; called in the tracer's thread.
        follow: include child processes.

    Raises:
        ValueError: no signal is named.
    """

    def __init__(
        self,
        pid: int,
        numbers: Collection[int],
        *,
        report: Callable[[Sequence[TracedCall]], None],
        mappings: Callable[[int], Sequence[Mapping]],
        follow: bool,
    ) -> None:
        super().__init__()
        if not numbers:
            raise ValueError("no signal is named")
        self._pid = pid
        self._numbers = frozenset(numbers)
        self._report = report
        self._mappings = mappings
        self._tree = ProcessTree(pid, follow)
        self._event: TraceEvent | None = None
        self._events: PerfEvents | None = None
        self._senders = Senders(self._numbers, None if follow else pid)
        self._fault: TraceEvent | None = None
        self._touched: Newest[int, tuple[int, int]] = Newest(_PROCESSES)  # by thread: its instruction and the address
        self._exec = -1  # number of the source
        self._overflows = Overflows(pid)
        self._end: Ending | None = None
        self._dying: dict[int, Sample] = {}
        self._ended: Newest[int, None] = Newest(_PROCESSES)  # of which it is reported what ended them

    def _arm(self) -> None:
        self._end = Ending(self._pid)
        self._event = kernel_event("signal", "signal_deliver")
        sources = [Source(TRACEPOINT, self._event.number, wanted=_filter(self._numbers))]
        if signal.SIGSEGV in self._numbers:
            with contextlib.suppress(NoTracefs):  # not on this machine
                self._fault = kernel_event("exceptions", "page_fault_user")
                sources.append(Source(TRACEPOINT, self._fault.number, wanted=f"address < {_NULL}"))
            with contextlib.suppress(NoTracefs):  # it may lack the rights
                sources.append(Source(TRACEPOINT, kernel_event("sched", "sched_process_exec").number))
                self._exec = len(sources) - 1
        self._events = PerfEvents.in_threads(sources, self._tree.threads, follow=self._tree.follow, ring_bytes=_RINGS)
        if not self._events.threads and not process_exists(self._pid):
            raise ProcessLookupError
        if signal.SIGSEGV in self._numbers:  # now: it takes a descriptor for each thread and CPU, too
            self._overflows.start(self._tree.threads, follow=self._tree.follow)
        with contextlib.suppress(OSError):  # then it is not known who sent them
            self._senders.start()

    def _trace(self) -> None:
        assert self._events is not None
        check_s = time.monotonic() + _CHECK_S
        while not self._over.is_set():
            self._wait(_IDLE_S, [self._events.fileno(), *self._overflows.filenos])
            self._read(self._events)
            if time.monotonic() >= check_s:
                check_s = time.monotonic() + _CHECK_S
                self._events.keep(self._tree.threads())
        self._read(self._events)

    def _read(self, events: PerfEvents) -> None:
        samples = events.read()
        lost = events.take_lost()
        self._overflows.update()
        self.counts.lost += lost
        self._senders.update()
        traced = []
        for sample in samples:
            if sample.source == self._exec:
                self._overflows.begun(sample)
                continue
            if sample.source:
                assert self._fault is not None
                self._touched[sample.tid] = (sample.registers[PC], int(self._fault.fields["address"].read(sample.raw)))
                continue
            number, code, handler = self._fields(sample)
            if number != signal.SIGKILL:
                sent = self._senders.take(number, (sample.tid, sample.pid))
                used = self._overflow(sample, number, code)
                seen = self._overflows.seen(sample, used)
                call = replace(self._call(sample, number, code, handler, sent), overflow=used)
                if seen is not sample:
                    before = (seen.registers[SP] - sample.registers[SP]) >> 10
                    call = replace(call, message=f"{call.message}; the stack as it was {before} kB before its end")
                traced.append(TracedCall(seen, call))
            elif sample.pid not in self._ended:
                self._dying.setdefault(sample.pid, sample)
        traced += self._dead()
        self.counts.seen += lost + len(traced)
        if traced:
            self._report(traced)

    def _dead(self) -> list[TracedCall]:
        """Return what ended the processes whose threads got SIGKILL, as they do at any end: a signal or exit()."""
        traced = []
        for pid, sample in list(self._dying.items()):
            there = process_exists(pid)
            status = self._status(pid)
            age_ns = time.monotonic_ns() - sample.mono_ns
            if status is None and age_ns < (_DYING_NS if there else _UNREPORTED_NS) and not self._over.is_set():
                continue
            del self._dying[pid]
            self._ended[pid] = None
            targets = (pid, sample.tid)
            killed = self._senders.take_last(targets) if status is None else self._senders.take(status & 0x7F, targets)
            if killed is not None:
                traced.append(TracedCall(sample, self._call(sample, killed.number, killed.code, 0, killed)))
        return traced

    def _status(self, pid: int) -> int | None:
        """Return the wait status of an ending process; None while it is not known."""
        if pid == self._pid and self._end is not None:
            return self._end.status()
        try:
            stat = read_stat(pid)
        except OSError:
            return None
        return stat.exit_code if stat.state == "zombie" else None

    def _fields(self, sample: Sample) -> tuple[int, int, int]:
        assert self._event is not None
        number, code, handler = (int(self._event.fields[name].read(sample.raw)) for name in _FIELDS)
        return number, code - ((code & 0x80000000) << 1), handler  # the code is an int

    def _overflow(self, sample: Sample, number: int, code: int) -> int:
        if number not in _BY_STACK:
            return 0
        return self._overflows.of(sample, self._mappings(sample.pid), forbidden=code == _FORBIDDEN)

    def _call(self, sample: Sample, number: int, code: int, handler: int, sent: Sent | None) -> Call:
        by = f", by {sent.by}" if sent is not None and code in BY_SOMEBODY and sent.sender != sample.pid else ""
        others = bool(by) or (sent is None and code in _FROM_OUTSIDE)
        pc, address = self._touched.pop(sample.tid, (0, 0))
        at = f", at address {address:#x}" if pc == sample.registers[PC] and number == signal.SIGSEGV else ""
        message = f"{origin(number, code)}{at}{by}; {effect(number, handler, self._mappings(sample.pid))}"
        return Call((signal_name(number),), message, sent=others, fatal=is_fatal(number, handler))

    def _disarm(self) -> None:
        self._senders.close()
        self._overflows.close()
        if self._end is not None:
            self._end.close()
        if self._events is not None:
            self._events.close()


_THEMSELVES: Final = (
    *(signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGFPE, signal.SIGSEGV, signal.SIGBUS),
    *(signal.SIGSYS, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT),
    *(signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
)
"""Signals that are delivered as themselves though nobody handles them: they dump core, or end nothing (signal(7))."""

_FROM_OUTSIDE: Final = (0, -1)  # of those: as a rule, where the sender is not known
_FIELDS: Final = ("sig", "code", "sa_handler")
_FORBIDDEN: Final = 2  # SEGV_ACCERR
_BY_STACK: Final = (signal.SIGSEGV, signal.SIGBUS)


def _filter(numbers: Collection[int]) -> str:
    """Return the kernel filter (Documentation/trace/events.rst, event filtering)."""
    parts = []
    delivered = {*numbers, signal.SIGKILL} if any(number not in _THEMSELVES for number in numbers) else set(numbers)
    for number in sorted(delivered):
        quiet = number in QUIET_WHERE_HANDLED and len(numbers) > 1
        parts.append(f"(sig == {int(number)} && sa_handler == 0)" if quiet else f"sig == {int(number)}")
    return " || ".join(parts)
