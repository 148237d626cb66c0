"""Subjects of tracing: functions, the kernel's reads there, and their meaning; and Python callers of native code.

The kernel reads the frames of the thread that took the GIL last. A thread that released the GIL before it called native
code (as operators in C++ do) is still that one, unless another has taken it since; then its frames are read from
memory just after the call.

Invariants:
    native_calls.J1. A subject describes calls in one tracer's thread alone: it needs no lock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from livedbg.adapters.exceptions.calls import ARGUMENTS, Call, CallReader
from livedbg.cpython.call_frames import CallFrames, PyFrames, words_of
from livedbg.cpython.interpreter import find_interpreter, image_of
from livedbg.cpython.objects import ObjectReader
from livedbg.cpython.probe_arguments import caller_arguments, own_tid
from livedbg.cpython.threads import ThreadReader
from livedbg.model.catchpoints import Moment
from livedbg.probes.newest import Newest
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found
from livedbg.probes.tracefs import Field, values

_PROCESSES: Final = 256
_THREADS: Final = 1024
_AGAIN_NS: Final = 50_000_000  # a thread's frames are read from memory no more often
_STATES_NS: Final = 500_000_000  # and where its state is, when that is known


class PythonCallers:
    """Finds the Python callers of native code in a process and its forks."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._image: tuple[object, ...] = ()
        self._frames: Newest[int, tuple[ThreadReader, CallFrames] | None] = Newest(_PROCESSES)
        self._states: Newest[int, tuple[int, dict[int, int]]] = Newest(_PROCESSES)
        self._late: Newest[tuple[int, int], tuple[int, PyFrames | None]] = Newest(_THREADS)

    def changed(self) -> bool:
        """Return whether the process runs another Python than when `arguments` was called."""
        try:
            image = image_of(self._pid)
        except OSError:
            return False
        return bool(self._image) and bool(image[0]) and image != self._image  # 0: it has ended

    def arguments(self) -> tuple[str, ...]:
        """Return what the kernel should read at a call; () if there is no readable Python."""
        try:
            self._image = image_of(self._pid)
            self._frames.clear()
            reader = _reader(self._pid)
            gils = reader.gils() if reader is not None else []
        except OSError:
            return ()
        if reader is None or not gils:  # no Python, free-threaded, or not begun
            return ()
        return caller_arguments(reader.layout, gils[0].address)

    def words(self, sample: Sample, values: Mapping[str, int | bytes]) -> tuple[int, ...]:
        """Return a key of a call's Python frames, as far as the kernel read them."""
        return words_of(values) if values.get("tid") == own_tid(sample.pid, sample.tid) else ()

    def of(self, sample: Sample, values: Mapping[str, int | bytes]) -> PyFrames | None:
        """Return the frames, complete and as of the call if possible; None if there are none."""
        known = self._reading(sample.pid)
        if known is None:
            return None
        if values.get("tid") == own_tid(sample.pid, sample.tid):
            return known[1].of(values) if words_of(values) else None
        return self._read_late(sample, *known)

    def stopped(self, sample: Sample) -> PyFrames | None:
        """Return the frames of a thread that is stopped at the call; None if there are none."""
        known = self._reading(sample.pid)
        state = self._state(known[0], own_tid(sample.pid, sample.tid)) if known is not None else None
        return known[1].now(state, stopped=True) if known is not None and state is not None else None

    def _reading(self, pid: int) -> tuple[ThreadReader, CallFrames] | None:
        if pid not in self._frames:
            try:
                reader = _reader(pid)
            except OSError:  # it has ended
                reader = None
            frames = CallFrames(ObjectReader(pid, reader.layout)) if reader is not None else None
            self._frames[pid] = (reader, frames) if reader is not None and frames is not None else None
        return self._frames[pid]

    def _read_late(self, sample: Sample, reader: ThreadReader, frames: CallFrames) -> PyFrames | None:
        key = sample.pid, sample.tid
        read_ns, found = self._late.get(key, (0, None))
        now_ns = time.monotonic_ns()
        if now_ns - read_ns > _AGAIN_NS:
            state = self._state(reader, own_tid(sample.pid, sample.tid))
            found = frames.now(state) if state is not None else None
            self._late[key] = now_ns, found
        return found

    def _state(self, reader: ThreadReader, tid: int) -> int | None:
        read_ns, states = self._states.get(reader.pid, (0, {}))
        now_ns = time.monotonic_ns()
        if now_ns - read_ns > (_STATES_NS if tid in states else _AGAIN_NS):
            with contextlib.suppress(OSError):
                states = reader.states()
            self._states[reader.pid] = now_ns, states
        return states.get(tid)


def _reader(pid: int) -> ThreadReader | None:
    """Return a reader of the process's Python threads, None without readable Python; raise OSError if it is gone."""
    interpreter = find_interpreter(pid)
    if interpreter is None or interpreter.layout is None or interpreter.runtime is None:
        return None
    return ThreadReader(pid, interpreter)


class Subject(Protocol):
    """A subject of tracing.

    Attributes:
        only: a kernel filter on the event's fields; "" for none.
        awaited: the functions may be loaded later.
        stack_bytes: size of the stack copy at a call: a multiple of 8, at least 8.
    """

    @property
    def functions(self) -> tuple[str, ...]: ...

    @property
    def only(self) -> str: ...

    @property
    def awaited(self) -> bool: ...

    @property
    def stack_bytes(self) -> int: ...

    def changed(self) -> bool:
        """Return whether the arguments have changed, at every place."""

    def arguments(self, found: Found) -> Sequence[str]:
        """Return what the kernel should read at a place; raise NotTraceable, or OSError if the file is gone."""

    def describe(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> Call | None:
        """Return the call of a sample; None if it is not of this subject."""

    def python(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> PyFrames | None:
        """Return the Python frames that a matching call is in or under; None for none."""


class NativeCalls:
    """C++ exceptions at some moment, and calls of functions.

    Args:
        callers: finds the Python frames that call native code.
        later: a called function may be loaded later (always true of a runtime).
    """

    only = ""
    stack_bytes = 24 << 10

    def __init__(
        self,
        moment: Moment,
        functions: Sequence[str],
        callers: PythonCallers,
        *,
        later: bool = False,
    ) -> None:
        self._callers = callers
        self._calls = CallReader(moment)
        self.functions = tuple(functions)
        self.awaited = later or moment is not Moment.CALL

    def changed(self) -> bool:
        return self._callers.changed()

    def arguments(self, found: Found) -> Sequence[str]:
        return *ARGUMENTS[self._calls.moment], *self._callers.arguments()

    def describe(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> Call:
        call = self._calls.call(sample, fields, found.name)
        return replace(call, words=self._callers.words(sample, values(fields, sample.raw)))

    def python(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> PyFrames | None:
        return self._callers.of(sample, values(fields, sample.raw))
