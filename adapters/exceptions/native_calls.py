"""What is traced: which functions, what the kernel reads there, and what that means.

Invariants:
    native_calls.J1. A subject describes calls in one tracer's thread alone: it needs no lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from livedbg.adapters.exceptions.calls import ARGUMENTS, Call, CallReader
from livedbg.adapters.exceptions.python_callers import PythonCallers
from livedbg.cpython.call_frames import PyFrames
from livedbg.model.catchpoints import Moment
from livedbg.probes.launch_calls import Describe
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found
from livedbg.probes.tracefs import Field, values


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
