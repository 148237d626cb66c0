"""Find the first dispatch in which two traces differ, and the first one that made NaN or infinity.

Invariants:
    iree_first.F1. Only dispatches that compute the same are compared: if two compilations divide the program
        differently, equal names mean nothing.
    iree_first.V1. A dispatch made a NaN only if all its inputs could be read and have none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from livedbg.adapters.iree.differences.trace import Call, Saved, Trace
from livedbg.values.compare import Difference, Tolerance, compare
from livedbg.values.dump import shape_text
from livedbg.values.statistics import Statistics, statistics

Fate = Literal["equal", "culprit", "inherited", "only", "uncompared"]
"""`culprit`: other outputs from equal inputs. `inherited`: its inputs differ already."""


class CallDifference(Struct):
    """One dispatch on both sides.

    Attributes:
        name: `EXECUTABLE::FUNCTION`, on the first side.
        ordinal: index among its calls, from 0.
        inputs: of each input that both have.
        outputs: of each output that both have.
        calls: on both sides.
    """

    name: str
    ordinal: int
    fate: Fate
    inputs: list[Difference | None] = field(default_factory=list)
    outputs: list[Difference | None] = field(default_factory=list)
    calls: tuple[Call, Call] | None = None

    def tensors(self) -> Iterator[tuple[str, Difference | None, tuple[Saved, Saved]]]:
        """Yield `input 0`, how it differs, and the tensor on both sides, for each input and output."""
        if self.calls is None:
            return
        one, other = self.calls
        for kind, differences, here, there in (
            ("input", self.inputs, one.inputs, other.inputs),
            ("output", self.outputs, one.outputs or [], other.outputs or []),
        ):
            for number, (found, mine, its) in enumerate(zip(differences, here, there, strict=False)):
                yield f"{kind} {number}", found, (mine, its)


class Compared(Struct):
    """Comparison of two traces.

    Attributes:
        calls: common dispatches, in the order of the first trace.
        only: by side: dispatches without a counterpart, or whose namesake computes something else.
        results: of the last common run of the function.
    """

    calls: list[CallDifference] = field(default_factory=list)
    only: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    results: list[Difference | None] = field(default_factory=list)

    @property
    def first(self) -> CallDifference | None:
        """Return the first dispatch with different outputs from equal inputs, else the first that differs at all."""
        culprit = next((one for one in self.calls if one.fate == "culprit"), None)
        return culprit or next((one for one in self.calls if one.fate == "inherited"), None)

    @property
    def differs(self) -> bool:
        return self.first is not None or any(one is not None and one.differs for one in self.results)

    def counted(self, fate: Fate) -> int:
        return sum(one.fate == fate for one in self.calls)


def compare_traces(
    one: Trace,
    other: Trace,
    tolerance: Tolerance,
    runs: tuple[int, int] = (0, 0),
    mates: Mapping[str, str] | None = None,
) -> Compared:
    """Compare two runs, dispatch by dispatch; calls of one dispatch are paired in order.

    Args:
        one: the judged side.
        other: the reference side.
        runs: which run of each.
        mates: the other side's name of each dispatch (F1); None if they have the same names.
    """
    here = [call for call in one.calls if call.run == runs[0]]
    there = [call for call in other.calls if call.run == runs[1]]
    waiting: dict[str, list[Call]] = {}
    for call in there:
        waiting.setdefault(call.name, []).append(call)
    found = Compared()
    seen: Counter[str] = Counter()
    for call in here:
        name = call.name if mates is None else mates.get(call.name, "")
        queue = waiting.get(name, [])
        ordinal = seen[call.name]
        seen[call.name] += 1
        if not queue:
            found.only[0].append(call.name)
            continue
        found.calls.append(_pair((one, other), (call, queue.pop(0)), ordinal, tolerance))
    found.only[1].extend(call.name for queue in waiting.values() for call in queue)
    if len(one.results) > runs[0] and len(other.results) > runs[1]:
        found.results = _tensors(one, other, one.results[runs[0]], other.results[runs[1]], tolerance)
    return found


def differing_runs(
    one: Trace, other: Trace, tolerance: Tolerance, runs: int, mates: Mapping[str, str] | None = None
) -> Compared:
    """Compare each run of the first trace with the first run of the other, up to one that differs; else the first."""
    first = compare_traces(one, other, tolerance, mates=mates)
    if first.differs:
        return first
    for run in range(1, runs):
        again = compare_traces(one, other, tolerance, (run, 0), mates)
        if again.differs:
            return again
    return first


def small_differences(
    one: Trace, other: Trace, first: CallDifference | None, runs: int, mates: Mapping[str, str] | None
) -> CallDifference | None:
    """Return the dispatch that made different bits from equal ones, if that spreads to the first that differs."""
    if first is None or first.fate != "culprit":
        return None
    bits = differing_runs(one, other, Tolerance(0.0, 0.0), runs, mates)
    own = [each.fate for each in bits.calls if (each.name, each.ordinal) == (first.name, first.ordinal)]
    return bits.first if own == ["inherited"] else None


def _pair(traces: tuple[Trace, Trace], calls: tuple[Call, Call], ordinal: int, tolerance: Tolerance) -> CallDifference:
    (one, other), (call, mate) = traces, calls
    inputs = _tensors(one, other, call.inputs, mate.inputs, tolerance)
    outputs = _tensors(one, other, call.outputs or [], mate.outputs or [], tolerance)
    fate: Fate = "equal"
    if call.outputs is None or mate.outputs is None or (outputs and all(each is None for each in outputs)):
        fate = "uncompared"
    elif _any(outputs) or len(call.outputs) != len(mate.outputs):
        known = call.given and mate.given and None not in inputs
        fate = "inherited" if _any(inputs) else "culprit" if known else "uncompared"
    return CallDifference(call.name, ordinal, fate, inputs, outputs, calls)


def _any(differences: Sequence[Difference | None]) -> bool:
    return any(one is not None and one.differs for one in differences)


def _tensors(
    one: Trace, other: Trace, here: Sequence[Saved], there: Sequence[Saved], tolerance: Tolerance
) -> list[Difference | None]:
    pairs = ((one.tensor(mine), other.tensor(its)) for mine, its in zip(here, there, strict=False))
    return [None if mine is None or its is None else compare(mine, its, tolerance) for mine, its in pairs]


_TOLD = 6


class Bad(Struct, frozen=True):
    """A dispatch with a bad value in its outputs.

    Attributes:
        ordinal: index among its calls in its run, from 0.
        output: index of the first such output.
        count: number of bad elements.
        size: elements of that output.
        index: of its first NaN.
        made: none of its inputs has one (V1).
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
    """Return the first dispatch whose outputs have NaN, or infinity."""
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
    """Return the indices of the function's inputs that have NaN."""
    return [number for number, one in enumerate(trace.inputs) if has_nan(trace, one)]


def has_nan(trace: Trace, saved: Saved) -> bool:
    """Return whether a readable tensor has NaN."""
    found = _statistics(trace, saved)
    return found is not None and found.nans > 0


def _statistics(trace: Trace, saved: Saved) -> Statistics | None:
    tensor = trace.tensor(saved)
    return None if tensor is None else statistics(tensor)


def tensors_told(trace: Trace, label: str, tensors: Sequence[Saved]) -> Iterator[tuple[str, str]]:
    """Yield a labelled line for each tensor."""
    for number, saved in enumerate(tensors[:_TOLD]):
        yield f"{label} {number}", told(trace, saved)
    if len(tensors) > _TOLD:
        yield label, f"{len(tensors) - _TOLD} more"


def told(trace: Trace, saved: Saved) -> str:
    """Return `float32[16,32]: minimum 0, maximum 1, mean 0.5, 3 NaN`."""
    found = _statistics(trace, saved)
    if found is None:
        return f"its values could not be read{f' ({saved.problem})' if saved.problem else ''}"
    return f"{saved.type}{shape_text(saved.shape)}: {numbers_told(found)}"


def numbers_told(found: Statistics) -> str:
    """Return `minimum 0, maximum 1, mean 0.5, 3 NaN`."""
    odd = [f"{count:,} {word}" for count, word in ((found.nans, "NaN"), (found.infinities, "infinite")) if count]
    numbers = (
        [f"minimum {found.minimum:.6g}", f"maximum {found.maximum:.6g}", f"mean {found.mean:.6g}"]
        if found.mean is not None
        else ["no finite number"]
    )
    return ", ".join([*numbers, *odd])
