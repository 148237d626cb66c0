"""Stop signals: a thread that calls a function gets a signal, at which its tracer stops it.

A perf event signals each call to its owner (fcntl(2): F_SETOWN_EX, F_SETSIG, O_ASYNC; kernel/events/core.c,
perf_event_wakeup). With the calling thread itself as the owner, the signal is pending before the thread goes back to
its program: a traced thread stops at the function's first or second instruction, with its arguments still in their
registers. The signal is one that does nothing by default and that the target has no handler for. A tracer sees such a
signal all the same (kernel/signal.c, sig_ignored).

Invariants:
    stop_signal.K1. However tracer and owner end, the target runs on: what is still on its way does nothing. A
        breakpoint's SIGTRAP would end the target (livedbg.touch.attach).
    stop_signal.K2. The events end with our process, however it ends, and their traps in the target with them.
    stop_signal.K3. Threads that are not traced pay a trap and nothing else: an ignored signal is not even queued for
        them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import struct
from collections.abc import Collection, Sequence
from typing import Final

from livedbg.linux.descriptors import room_for_files
from livedbg.linux.procfs import status_fields
from livedbg.probes.perf import Source, enable, open_event

_SETSIG, _SETOWN_EX = 10, 15  # fcntl-linux.h; F_OWNER_TID is 0
_HARMLESS: Final = (signal.SIGURG, signal.SIGWINCH)  # ignored by default: signal(7)


def harmless_signal(pid: int) -> signal.Signals | None:
    """Return a signal that does nothing to this process; None if it has handlers for all of them.

    Raises:
        OSError: the process is gone.
    """
    caught = int(status_fields(pid).get("SigCgt", "0"), 16)
    return next((number for number in _HARMLESS if not caught >> (number - 1) & 1), None)


class StopSignals:
    """Sends a signal from `harmless_signal` to the added threads at each of their calls."""

    def __init__(self, sources: Sequence[Source], number: signal.Signals) -> None:
        self._sources = tuple(sources)
        self._signal = number
        self._files: dict[int, list[int]] = {}

    def add(self, tid: int) -> None:
        """Arm the signal in a thread.

        Raises:
            ProcessLookupError: it is gone.
            NoPerf: not allowed.
            OSError: too many files are open; ENOSPC: no debug register is left.
        """
        if tid in self._files:
            return
        files: list[int] = []
        try:
            for source in self._sources:
                files.append(open_event(source, tid))
                fcntl.fcntl(files[-1], _SETOWN_EX, struct.pack("ii", 0, tid))
                fcntl.fcntl(files[-1], _SETSIG, self._signal)
                fcntl.fcntl(files[-1], fcntl.F_SETFL, fcntl.fcntl(files[-1], fcntl.F_GETFL) | os.O_ASYNC)
            for file in files:
                enable(file)
        except BaseException:
            for file in files:
                os.close(file)
            raise
        self._files[tid] = files

    def add_all(self, tids: Collection[int]) -> None:
        """Arm the signal in these threads only; those that are gone are skipped. Raises as `add` does."""
        for tid in self._files.keys() - set(tids):
            self._drop(tid)
        fresh = sum(1 for tid in tids if tid not in self._files)
        if fresh and not room_for_files(fresh * len(self._sources)):
            raise OSError(errno.EMFILE, f"{fresh} threads need more open files than `ulimit -n` allows")
        for tid in tids:
            with contextlib.suppress(ProcessLookupError):
                self.add(tid)

    def close(self) -> None:
        for tid in list(self._files):
            self._drop(tid)

    def _drop(self, tid: int) -> None:
        for file in self._files.pop(tid):
            os.close(file)
