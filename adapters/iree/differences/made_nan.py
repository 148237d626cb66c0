"""The first dispatch of a run that made NaN: its outputs have some, and all of its inputs are finite."""

from __future__ import annotations

from msgspec import Struct

from livedbg.adapters.iree.differences.trace import Call, Trace
from livedbg.values.statistics import statistics

__all__ = ["MadeNaN", "first_made_nan"]


class MadeNaN(Struct, frozen=True):
    """It.

    Attributes:
        name: of the dispatch, `EXECUTABLE::FUNCTION`.
        ordinal: the how manieth call of it in its run, from 0.
        output: which of its outputs.
        count: elements that are NaN.
        size: elements of that output.
        index: of the first of them.
    """

    name: str
    ordinal: int
    output: int
    count: int
    size: int
    index: tuple[int, ...]


def first_made_nan(trace: Trace) -> MadeNaN | None:
    """The first one; None where the first NaN came from elsewhere, or where that can't be told."""
    for number, call in enumerate(trace.calls):
        for output, saved in enumerate(call.outputs or ()):
            tensor = trace.tensor(saved)
            found = statistics(tensor) if tensor is not None else None
            if found is None or not found.nans:
                continue
            if not _sound(trace, call):
                return None
            ordinal = sum(one.name == call.name and one.run == call.run for one in trace.calls[:number])
            return MadeNaN(call.name, ordinal, output, found.nans, found.total, found.first_nan or ())
    return None


def _sound(trace: Trace, call: Call) -> bool:
    """Whether all inputs were read and are finite."""
    tensors = [trace.tensor(saved) for saved in call.inputs]
    known = [statistics(tensor) for tensor in tensors if tensor is not None]
    return len(known) == len(tensors) and not any(one.nans or one.infinities for one in known)
