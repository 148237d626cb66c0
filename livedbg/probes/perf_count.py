"""Counts calls by perf events that hand over nothing: exact, and of the threads that were asked about alone.

The count of a trace event in tracefs (`uprobe_profile`) holds the calls of every process in which somebody traces
the same function; that of a perf event (perf_event_open(2), read) holds those of its thread and of what it starts.

Invariants:
    perf_count.T1. Threads born while a tally is made are in it: it is made anew until there were none. Where some were
        born each time, calls of these may be missing.
    perf_count.T2. A call whose samples all lie after `since_ns` is in the tally.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self

from livedbg.probes.perf_event import Source, enable, open_to_count

_ROUNDS: Final = 10  # of making a tally
_ONE_CALL_NS: Final = 2_000_000
"""The kernel goes through the events of a call one by one, 10 to 30 microseconds apart: one that is enabled meanwhile
has been passed by, though the sample that another takes of that call is of later. A hypervisor can make it longer."""


class Tally:
    """The calls of some trace events in some threads, and in what those start.

    Args:
        sources: the events.
        threads: which threads; those that are gone are left out.
        follow: child processes too.

    Attributes:
        since_ns: from then on all of them count (CLOCK_MONOTONIC); the first began some milliseconds before.

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
        self.since_ns = time.monotonic_ns() + _ONE_CALL_NS

    @classmethod
    def of_all(cls, sources: Sequence[Source], threads: Callable[[], Iterable[int]], *, follow: bool) -> Self:
        """A tally of all threads: those born before their parent was in it have inherited nothing (T1).

        Args:
            sources: as for the class; so are `follow` and what is raised.
            threads: lists them.
            follow: child processes too.
        """
        for last in reversed(range(_ROUNDS)):
            known = frozenset(threads())
            tally = cls(sources, known, follow=follow)
            try:
                if not last or known.issuperset(threads()):
                    break
            except BaseException:
                tally.close()
                raise
            tally.close()
        return tally

    def total(self) -> int:
        """How many there were by now; threads that have ended are in it."""
        return sum(int.from_bytes(os.read(file, 8), "little") for file in self._files)

    def close(self) -> None:
        """Count no more."""
        for file in self._files:
            os.close(file)
        self._files.clear()
