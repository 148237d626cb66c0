"""Where threads of a process are to stop: functions, with stop signals armed in every thread (probes.stop_signal)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from signal import Signals
from typing import Final

from livedbg.adapters.exceptions.breakpoint_tracer import DEBUG_REGISTERS
from livedbg.linux.procfs import thread_ids
from livedbg.probes.perf import BREAKPOINT, TRACEPOINT, NoPerf, Source
from livedbg.probes.places import Found, find_places
from livedbg.probes.stop_signal import StopSignals
from livedbg.probes.tracefs import NoTracefs, TraceEvents

_NEAR: Final = 16  # bytes of a function's beginning in which its thread stops
_LEARNT_MOST: Final = 24  # types in one filter (it has a page: 4096 bytes)


class StopPlaces:
    """The places in one process.

    Args:
        pid: the process.
        functions: their names.
        arguments: what the kernel reads at a call, to filter by.

    Attributes:
        files: in which functions are found, as the process has them.
        left_out: files with a function for which no debug register was left.
    """

    def __init__(self, pid: int, functions: Sequence[str], arguments: Sequence[str]) -> None:
        self.files: tuple[str, ...] = ()
        self.left_out: list[str] = []
        self._pid = pid
        self._functions = tuple(functions)
        self._arguments = tuple(arguments)
        self._trace: TraceEvents | None = None
        self._searched: set[tuple[str, int]] = set()
        self._places: list[tuple[Found, int]] = []  # with the number of the event that is defined there
        self._signals: StopSignals | None = None
        self._dropped: list[int] = []

    async def find(self) -> bool:
        """Look for the functions in files that were not searched before; whether there are places that were not known.

        Raises:
            OSError: the process is gone.
        """
        found, _ = await asyncio.to_thread(find_places, self._pid, self._functions, self._searched)
        if not self._places:
            with contextlib.suppress(NoTracefs):
                self._trace = TraceEvents()
        before = len(self._places)
        for one in found:
            if self._trace is not None:
                event = self._trace.define(one.place.path, one.place.offset, self._arguments)
                self._places.append((one, event.number))
            elif len(self._places) < DEBUG_REGISTERS:
                self._places.append((one, 0))
            else:
                self.left_out.append(one.file)
        self.files = tuple(dict.fromkeys(one.file for one, _ in self._places))
        return len(self._places) > before

    def at(self, counter: int) -> Found | None:
        """The function at whose beginning a program counter is."""
        return next((found for found, _ in self._places if 0 <= counter - found.address < _NEAR), None)

    def arm(self, number: Signals) -> None:
        """Arm stop signals in every thread at all places; those that were armed before give way to these.

        Args:
            number: the signal.

        Raises:
            OSError: not allowed (NoPerf), or too many files would be open.
        """
        before = self._signals
        signals = StopSignals(self._sources(), number)
        try:
            signals.add_all(thread_ids(self._pid))
        except NoPerf:
            signals.close()
            if self._trace is None:
                raise
            self._trace.close()  # it may define trace events and not count them: then by debug registers
            self._trace = None
            self._places = self._places[:DEBUG_REGISTERS]
            self.arm(number)
            return
        except BaseException:
            signals.close()
            raise
        self._signals = signals
        if before is not None:
            before.close()

    def add_threads(self) -> None:
        """Arm them in threads that were born since.

        Raises:
            OSError: as `arm` does.
        """
        if self._signals is not None:
            self._signals.add_all(thread_ids(self._pid))

    def drop(self, type_info: int) -> bool:
        """Have the kernel filter a type from the next `arm` on; whether it can."""
        if self._trace is None or not type_info or len(self._dropped) >= _LEARNT_MOST:
            return False
        self._dropped.append(type_info)
        return True

    def disarm(self) -> None:
        """No thread stops any more."""
        if self._signals is not None:
            self._signals.close()

    def close(self) -> None:
        """Disarm, and take the definitions out."""
        self.disarm()
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def _sources(self) -> list[Source]:
        if self._trace is None:
            return [Source(BREAKPOINT, address=found.address) for found, _ in self._places]
        wanted = " && ".join(f"type_info != {address:#x}" for address in self._dropped)
        return [Source(TRACEPOINT, number, wanted=wanted) for _, number in self._places]
