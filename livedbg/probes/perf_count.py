"""Counts calls by perf events that hand over nothing: exact, and of the threads that were asked about alone.

The count of a trace event in tracefs (`uprobe_profile`) holds the calls of every process in which somebody traces
the same function; that of a perf event (perf_event_open(2), read) holds those of its thread and of what it starts.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence

from livedbg.probes.perf_event import Source, enable, open_to_count

__all__ = ["Tally"]


class Tally:
    """The calls of some trace events in some threads, and in what those start.

    Args:
        sources: the events.
        threads: which threads; those that are gone are left out.
        follow: child processes too.

    Attributes:
        since_ns: from then on all of them count (CLOCK_MONOTONIC); the first began some microseconds before.

    Raises:
        NoPerf: not allowed.
        OSError: too many files are open.
    """

    def __init__(self, sources: Sequence[Source], threads: Iterable[int], *, follow: bool) -> None:
        self._files: list[int] = []
        try:
            for tid in threads:
                for source in sources:
                    with contextlib.suppress(ProcessLookupError):
                        self._files.append(open_to_count(source, tid, follow=follow))
            for file in self._files:
                enable(file)
        except BaseException:
            self.close()
            raise
        self.since_ns = time.monotonic_ns()

    def total(self) -> int:
        """How many there were by now; threads that have ended are in it."""
        return sum(int.from_bytes(os.read(file, 8), "little") for file in self._files)

    def close(self) -> None:
        """Count no more."""
        for file in self._files:
            os.close(file)
        self._files.clear()
