"""The ledger's account of samples: number of samples and threads, and estimated cost; and the sampling rate.

Invariants:
    samples_pace.P1. In the long run the samples take no more than the given share of a core, or `LEAST_HZ` of them are
        taken.
"""

from __future__ import annotations

import math
import time
from typing import Final

from msgspec import Struct, field

from livedbg.linux.access import access_problem
from livedbg.model import Intrusion
from livedbg.model.errors import LivedbgError
from livedbg.model.events import Touched
from livedbg.probes.clock_samples import Refused, refused
from livedbg.probes.perf_event import NoPerf
from livedbg.session.adapter import Context
from livedbg.session.publisher import Statuses
from livedbg.text.wording import many

_EVERY_S: Final = 60.0  # between two entries of a process
_EACH_NS: Final = 30_000
"""What a sample takes of its thread, about: an interrupt and a copy of 8 KB (docs/performance.md)."""


class _Open(Struct):
    """Samples of one process that are not in the ledger yet."""

    samples: int = 0
    threads: set[str] = field(default_factory=set)
    next_s: float = 0.0


class SampleAccount:
    """Counts samples, and adds them to the ledger at intervals."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def add(self, process: str, thread: str) -> None:
        """Count a sample of a thread."""
        entry = self._open.setdefault(process, _Open())
        entry.samples += 1
        entry.threads.add(thread)

    def report(self, context: Context) -> None:
        """Add due entries to the ledger: the first samples at once, later ones each minute."""
        now_s = time.monotonic()
        for process, entry in self._open.items():
            if entry.samples and now_s >= entry.next_s:
                self._write(context, process, entry)
                entry.next_s = now_s + _EVERY_S

    def close(self, context: Context) -> None:
        """Add the rest to the ledger."""
        for process, entry in self._open.items():
            if entry.samples:
                self._write(context, process, entry)

    def _write(self, context: Context, process: str, entry: _Open) -> None:
        about_ms = entry.samples * _EACH_NS / 1e6
        touch = Intrusion(
            target=process,
            what="samples",
            why=(
                f"{many(entry.samples, 'sample')} of {many(len(entry.threads), 'running thread')} by the kernel's "
                f"clock, about {about_ms:.2f} ms of interrupts; --no-samples switches them off"
            ),
            measured=False,
            at_wall_ns=time.time_ns(),
        )
        context.emit(Touched(intrusion=touch, **context.stamp()))
        entry.samples = 0
        entry.threads.clear()


LEAST_HZ: Final = 10.0
"""Samples a second of all threads together, however much each costs."""

_FEW: Final = 20  # samples from which on their cost is known


class Pace:
    """The rate of samples.

    Args:
        each_hz: maximum number of samples for each second of a thread's CPU time.
        total_hz: maximum number of samples a second of all threads together.
        share: share of a core for taking and unwinding them.
    """

    def __init__(self, each_hz: float, total_hz: float, share: float = math.inf) -> None:
        self._each_hz = each_hz
        self._most_hz = self._total_hz = total_hz
        self._share = share
        self._cpu_s = 0.0
        self._samples = 0

    def cost(self, cpu_s: float, samples: int) -> None:
        """Note our total CPU time and number of samples so far."""
        taken = samples - self._samples
        if taken < _FEW:
            return
        each_s = max(1e-9, cpu_s - self._cpu_s) / taken
        self._cpu_s, self._samples = cpu_s, samples
        wanted_hz = max(LEAST_HZ, min(self._most_hz, self._share / each_s))
        self._total_hz = min(self._most_hz, (self._total_hz + wanted_hz) / 2)  # one slow batch is not the rule

    def period_ns(self, cores: float) -> int:
        """Return the CPU time of a thread between two samples, if all threads together use so many cores."""
        return int(max(1e9 / self._each_hz, cores * 1e9 / self._total_hz))


class Troubles:
    """The statuses of a source."""

    def __init__(self, source: str) -> None:
        self._refused, self._failed = Statuses(source), Statuses(source)

    def deny(self, context: Context, error: NoPerf, instead: str = "") -> None:
        """Report that there are no samples, with the kernel's reason, and a sentence on what is done instead."""
        why = _refusal(context, error)
        sentence = f"{why.sentence} {instead}" if instead else why.sentence
        self._refused.only(context, "", {why.code: (sentence, why.remedy)})

    def allowed(self, context: Context) -> None:
        """Withdraw the report of `deny`."""
        self._refused.withdraw(context, "")

    def report(self, context: Context, target: str, error: LivedbgError) -> None:
        """Report that samples of a process can't be unwound."""
        sentence = f"No native stacks of running threads: {error.message}"
        self._failed.say(context, target, error.code or "samples", sentence, error.remedy)


def _refusal(context: Context, error: NoPerf) -> Refused:
    """Return why there are no samples: first the targets' permissions, then the kernel's settings."""
    problems = (access_problem(target.pid) for target in context.request.processes)
    for problem in filter(None, problems):
        return Refused("samples-refused", f"No native stacks of running threads: {problem.sentence}", problem.remedy)
    return refused(error)
