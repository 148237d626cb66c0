"""What is traced: which functions, what the kernel reads there, and what that means.

The Python frames that called native code, such as a throw.

The kernel reads the frames of the thread that took the GIL last. A thread that gave the GIL up before it called native
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
from livedbg.probes.launch_calls import Describe
from livedbg.probes.newest import Newest
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found
from livedbg.probes.tracefs import Field, values

_PROCESSES: Final = 256
_THREADS: Final = 1024
_AGAIN_NS: Final = 50_000_000  # a thread's frames are read from memory no more often
_STATES_NS: Final = 500_000_000  # and where its state is, when that is known


class PythonCallers:
    """Finds them.

    Args:
        pid: the process; those that it starts have their frames read too, where they are forks of it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._image: tuple[object, ...] = ()
        self._frames: Newest[int, tuple[ThreadReader, CallFrames] | None] = Newest(_PROCESSES)
        self._states: Newest[int, tuple[int, dict[int, int]]] = Newest(_PROCESSES)
        self._late: Newest[tuple[int, int], tuple[int, PyFrames | None]] = Newest(_THREADS)

    def changed(self) -> bool:
        """Whether the process runs another Python by now than when the arguments were asked for."""
        try:
            image = image_of(self._pid)
        except OSError:
            return False
        return bool(self._image) and bool(image[0]) and image != self._image  # 0: it has ended

    def arguments(self) -> tuple[str, ...]:
        """What the kernel is to read at a call; () where there is no Python that it can be read of."""
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
        """What distinguishes the Python frames of a call, as far as the kernel read them."""
        return words_of(values) if values.get("tid") == own_tid(sample.pid, sample.tid) else ()

    def of(self, sample: Sample, values: Mapping[str, int | bytes]) -> PyFrames | None:
        """The frames, and whether they are whole and were so at the call; None where there are none."""
        known = self._reading(sample.pid)
        if known is None:
            return None
        if values.get("tid") == own_tid(sample.pid, sample.tid):
            return known[1].of(values) if words_of(values) else None
        return self._read_late(sample, *known)

    def stopped(self, sample: Sample) -> PyFrames | None:
        """Those of a thread that is stopped at the call, and so has them still; None where there are none."""
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
        """A thread's state; None for a thread that has none."""
        read_ns, states = self._states.get(reader.pid, (0, {}))
        now_ns = time.monotonic_ns()
        if now_ns - read_ns > (_STATES_NS if tid in states else _AGAIN_NS):
            with contextlib.suppress(OSError):
                states = reader.states()
            self._states[reader.pid] = now_ns, states
        return states.get(tid)


def _reader(pid: int) -> ThreadReader | None:
    """Reads the Python threads of a process; None where there is no Python that can be read.

    Raises:
        OSError: the process is gone.
    """
    interpreter = find_interpreter(pid)
    if interpreter is None or interpreter.layout is None or interpreter.runtime is None:
        return None
    return ThreadReader(pid, interpreter)


class Subject(Protocol):
    """What is traced.

    Attributes:
        functions: their names.
        only: a filter on the fields of the event, for the kernel; "" for none.
        awaited: the functions need not be there yet: they may be loaded later.
        stack_bytes: how much of the stack is to be copied at a call: a multiple of 8, at least 8.
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
        """Whether other arguments are to be read by now, at every place."""

    def arguments(self, found: Found) -> Sequence[str]:
        """What the kernel is asked to read at a place.

        Raises:
            NotTraceable: it is not known what to read there.
            OSError: the file is gone.
        """

    def describe(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> Call | None:
        """The call that a sample is of; None when it is none of those that are meant."""

    def python(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> PyFrames | None:
        """The Python frames that a wanted call is in or under; None where there are none."""


class NativeCalls:
    """C++ exceptions at some moment, and calls of functions.

    Args:
        moment: what is traced.
        functions: their names.
        callers: finds the Python frames that call native code.
        known: what calls of single functions mean.
        later: a called function need not be there yet. (A runtime never needs to.)
    """

    only = ""
    stack_bytes = 24 << 10

    def __init__(
        self,
        moment: Moment,
        functions: Sequence[str],
        callers: PythonCallers,
        *,
        known: Mapping[str, Describe],
        later: bool = False,
    ) -> None:
        self._callers = callers
        self._calls = CallReader(moment, known)
        self.functions = tuple(functions)
        self.awaited = later or moment is not Moment.CALL

    def changed(self) -> bool:
        """Whether there is another Python now."""
        return self._callers.changed()

    def arguments(self, found: Found) -> Sequence[str]:
        """The same everywhere, and Python's frames where there is Python."""
        return *ARGUMENTS[self._calls.moment], *self._callers.arguments()

    def describe(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> Call:
        """Type and message, or function and arguments."""
        call = self._calls.call(sample, fields, found.name)
        return replace(call, words=self._callers.words(sample, values(fields, sample.raw)))

    def python(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> PyFrames | None:
        """What the kernel read, or else what is there just after."""
        return self._callers.of(sample, values(fields, sample.raw))
