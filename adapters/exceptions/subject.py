"""What is listened to: in which functions, what is read there, and what that means.

Invariants:
    J1. A subject is used by one listener's thread alone, once it is set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from livedbg.adapters.exceptions.bounded import Newest
from livedbg.adapters.exceptions.calls import ARGUMENTS, Call, describe
from livedbg.adapters.exceptions.fetched import values
from livedbg.adapters.exceptions.python_beneath import PythonBeneath
from livedbg.adapters.exceptions.python_frames import PyFrames
from livedbg.adapters.exceptions.types import Types
from livedbg.linux.places import Found
from livedbg.model.catchpoints import Moment
from livedbg.probes.perf import Sample
from livedbg.probes.tracefs import Field

__all__ = ["NativeCalls", "Subject", "Unheard"]

_PROCESSES: Final = 256  # whose types are remembered


class Unheard(LookupError):
    """A file has the function, but what it means there is not known; the text says why, for users."""


class Subject(Protocol):
    """What is listened to.

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
            Unheard: it is not known what to read there.
            OSError: the file is gone.
        """

    def describe(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> Call | None:
        """The call that a sample is of; None when it is none of those that are meant."""

    def python(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> PyFrames | None:
        """The Python frames that a wanted call is in or under; None where there are none."""


class NativeCalls:
    """C++ exceptions at some moment, and calls of functions.

    Args:
        moment: what is listened to.
        functions: their names.
        beneath: finds the Python frames that call native code.
        later: a called function need not be there yet. (A runtime never needs to.)
    """

    only = ""
    stack_bytes = 24 << 10

    def __init__(
        self, moment: Moment, functions: Sequence[str], beneath: PythonBeneath, *, later: bool = False
    ) -> None:
        self._beneath = beneath
        self._moment = moment
        self.functions = tuple(functions)
        self.awaited = later or moment is not Moment.CALL
        self._types: Newest[int, Types] = Newest(_PROCESSES)

    def changed(self) -> bool:
        """Whether there is another Python now."""
        return self._beneath.changed()

    def arguments(self, found: Found) -> Sequence[str]:
        """The same everywhere, and Python's frames where there is Python."""
        return *ARGUMENTS[self._moment], *self._beneath.arguments()

    def describe(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> Call:
        """Type and message, or function and arguments."""
        types = self._types.get(sample.pid)
        if types is None:
            types = self._types[sample.pid] = Types(sample.pid)
        call = describe(sample, fields, self._moment, found.name, types)
        return replace(call, words=self._beneath.words(sample, values(fields, sample.raw)))

    def python(self, sample: Sample, fields: Mapping[str, Field], found: Found) -> PyFrames | None:
        """What the kernel read, or else what is there just after."""
        return self._beneath.of(sample, values(fields, sample.raw))
