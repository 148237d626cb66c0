"""The thread that takes the samples of a profile: it wakes at each sample, and reads Python frames at once."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from livedbg.adapters.samples.python_frames import NEAR_NS, PythonFrames
from livedbg.cpython.call_frames import PyFrames, PyPlace
from livedbg.probes.clock_samples import THREADS, ClockSamples
from livedbg.probes.perf_event import Counted
from livedbg.probes.perf_records import Sample
from livedbg.probes.rings import LEAST

_STACK_BYTES: Final = 32 << 10  # numpy's calls alone take 20 KB
_RINGS: Final = 16 << 20  # bytes of all rings together
_RING_BYTES: Final = 256 << 10
_WAIT_S: Final = 0.1
_REFRESH_S: Final = 0.25
_SWITCH_S: Final = 0.0005  # how long other threads of ours may keep this one waiting


class Followed(NamedTuple):
    """The sampled threads.

    Attributes:
        threads: tid -> process and thread identifier; the most important first.
        period_ns: CPU time of a thread between two samples.
    """

    threads: dict[int, tuple[int, str]]
    period_ns: int


class Taken(NamedTuple):
    """A sample.

    Attributes:
        period_ns: CPU time that it represents.
        python: None if the thread runs no Python, or the frames were read too late.
    """

    thread: str
    sample: Sample
    period_ns: int
    python: PyFrames | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Some samples, and the number of samples dropped by the kernel, by thread."""

    taken: list[Taken] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)


class Sampling:
    """Takes samples until stopped.

    Args:
        threads: may be replaced at any time.
        give: takes each batch, in this thread.
        counted: the event that triggers samples.
    """

    def __init__(
        self, threads: Followed, give: Callable[[Batch], object], counted: Counted = Counted.CPU_CLOCK
    ) -> None:
        self._counted = counted
        self.threads = threads
        self._give = give
        self._stop = threading.Event()
        self._python = PythonFrames()
        self.cpu_s = 0.0
        """CPU time that taking the samples has taken."""

    def stop(self) -> None:
        """End `run` soon. Callable from any thread."""
        self._stop.set()

    def run(self, seconds: float) -> None:
        """Take samples for some time; raise NoPerf if not allowed."""
        with contextlib.suppress(OSError):  # a read that comes late is of no use; it takes 1 to 2 % of a core
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 0)
        before_s = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        try:
            self._run(time.monotonic() + seconds)
        finally:
            sys.setswitchinterval(before_s)
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0))

    def _run(self, end_s: float) -> None:
        many = max(1, min(THREADS, len(self.threads.threads)))
        ring_bytes = max(LEAST, min(_RING_BYTES, 1 << (_RINGS // many).bit_length() - 1))
        refresh_s, before_s = 0.0, time.thread_time()
        with ClockSamples(_STACK_BYTES, ring_bytes, wake=True, counted=self._counted) as clocks:
            while (now_s := time.monotonic()) < end_s and not self._stop.is_set():
                if now_s >= refresh_s:
                    followed = self.threads
                    clocks.follow(dict.fromkeys(followed.threads, followed.period_ns))
                    self._python.refresh({pid for pid, _ in followed.threads.values()})
                    refresh_s = now_s + _REFRESH_S
                self._turn(clocks, followed, clocks.wait(_WAIT_S))
                self.cpu_s = time.thread_time() - before_s
            self._turn(clocks, followed, [])

    def _turn(self, clocks: ClockSamples, followed: Followed, ready: list[int]) -> None:
        """Read the Python frames of threads that have a new sample, then the samples."""
        read: dict[int, tuple[int, tuple[PyPlace, ...]]] = {}
        for tid in ready:
            if tid in followed.threads and (places := self._python.places(followed.threads[tid][0], tid)):
                with contextlib.suppress(OSError):
                    read[tid] = clocks.ran_ns(tid), places
        newest: dict[int, Sample] = {}
        samples = clocks.read()
        for sample in samples:
            newest[sample.tid] = sample
        taken: list[Taken] = []
        for sample in samples:
            if sample.tid not in followed.threads:
                continue
            pid, thread = followed.threads[sample.tid]
            python = None
            if sample.tid in read and newest[sample.tid] is sample:
                ran_ns, places = read[sample.tid]
                if 0 <= ran_ns - sample.ran_ns <= NEAR_NS:  # Y1
                    python = self._python.named(pid, places)
            taken.append(Taken(thread, sample, clocks.period_ns(sample.tid) or followed.period_ns, python))
        lost = {followed.threads[tid][1]: count for tid, count in clocks.take_lost().items() if tid in followed.threads}
        if taken or lost:
            self._give(Batch(taken, lost))
