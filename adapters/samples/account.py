"""The account of samples for the ledger: how many of how many threads, and about what that cost them."""

from __future__ import annotations

import time
from typing import Final

from msgspec import Struct, field

from livedbg.model import Intrusion
from livedbg.model.events import Touched
from livedbg.session.adapter import Context
from livedbg.text.wording import many

_EVERY_S: Final = 60.0  # between two entries of a process
_EACH_NS: Final = 30_000
"""What a sample takes of its thread, about: an interrupt and a copy of 8 KB (docs/performance.md)."""


class _Open(Struct):
    """What is not in the ledger yet, of one process."""

    samples: int = 0
    threads: set[str] = field(default_factory=set)
    next_s: float = 0.0


class SampleAccount:
    """Counts samples, and puts them into the ledger from time to time."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def add(self, process: str, thread: str) -> None:
        """A thread of a process was sampled."""
        entry = self._open.setdefault(process, _Open())
        entry.samples += 1
        entry.threads.add(thread)

    def report(self, context: Context) -> None:
        """Put what is due into the ledger: the first samples at once, later ones each minute."""
        now_s = time.monotonic()
        for process, entry in self._open.items():
            if entry.samples and now_s >= entry.next_s:
                self._write(context, process, entry)
                entry.next_s = now_s + _EVERY_S

    def close(self, context: Context) -> None:
        """Put the rest into the ledger."""
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
