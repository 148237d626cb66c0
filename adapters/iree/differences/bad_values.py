"""NaN and infinity among the saved tensors of a run: the first dispatch that made them, and statistics in words.

Invariants:
    iree_values.V1. A dispatch made a NaN only if all its inputs could be read and have none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from livedbg.adapters.iree.differences.trace import Call, Saved, Trace
from livedbg.values.listing import shape_text
from livedbg.values.statistics import Statistics, statistics

_TOLD = 6


class Bad(Struct, frozen=True):
    """A dispatch with a bad value in its outputs.

    Attributes:
        ordinal: the how manieth call of it in its run, from 0.
        output: the number of the first output that has it.
        count: how many elements of it.
        size: elements of that output.
        index: of its first NaN.
        made: none of its inputs has it (V1).
        infinite: an input has infinity.
    """

    call: Call
    ordinal: int
    output: int
    count: int
    size: int
    index: tuple[int, ...]
    made: bool
    infinite: bool


def first_bad(trace: Trace, kind: Literal["nan", "infinity"]) -> Bad | None:
    """The first dispatch whose outputs have NaN, or infinity."""
    seen: Counter[tuple[str, int]] = Counter()
    for call in trace.calls:
        ordinal = seen[call.name, call.run]
        seen[call.name, call.run] += 1
        for number, saved in enumerate(call.outputs or ()):
            found = _statistics(trace, saved)
            count = 0 if found is None else found.nans if kind == "nan" else found.infinities
            if found is None or not count:
                continue
            given = [_statistics(trace, one) for one in call.inputs]
            clean = all(one is not None and not (one.nans if kind == "nan" else one.infinities) for one in given)
            infinite = any(one is not None and one.infinities for one in given)
            return Bad(call, ordinal, number, count, found.total, found.first_nan or (), clean, infinite)
    return None


def bad_inputs(trace: Trace) -> list[int]:
    """The function's inputs that have NaN, by number."""
    return [number for number, one in enumerate(trace.inputs) if has_nan(trace, one)]


def has_nan(trace: Trace, saved: Saved) -> bool:
    """Whether a tensor that could be read has NaN."""
    found = _statistics(trace, saved)
    return found is not None and found.nans > 0


def _statistics(trace: Trace, saved: Saved) -> Statistics | None:
    tensor = trace.tensor(saved)
    return None if tensor is None else statistics(tensor)


def tensors_told(trace: Trace, label: str, tensors: Sequence[Saved]) -> Iterator[tuple[str, str]]:
    """Each tensor as a line."""
    for number, saved in enumerate(tensors[:_TOLD]):
        yield f"{label} {number}", told(trace, saved)
    if len(tensors) > _TOLD:
        yield label, f"{len(tensors) - _TOLD} more"


def told(trace: Trace, saved: Saved) -> str:
    """`float32[16,32]: minimum 0, maximum 1, mean 0.5, 3 NaN`."""
    found = _statistics(trace, saved)
    if found is None:
        return f"its values could not be read{f' ({saved.problem})' if saved.problem else ''}"
    return f"{saved.type}{shape_text(saved.shape)}: {numbers_told(found)}"


def numbers_told(found: Statistics) -> str:
    """`minimum 0, maximum 1, mean 0.5, 3 NaN`."""
    odd = [f"{count:,} {word}" for count, word in ((found.nans, "NaN"), (found.infinities, "infinite")) if count]
    numbers = (
        [f"minimum {found.minimum:.6g}", f"maximum {found.maximum:.6g}", f"mean {found.mean:.6g}"]
        if found.mean is not None
        else ["no finite number"]
    )
    return ", ".join([*numbers, *odd])
