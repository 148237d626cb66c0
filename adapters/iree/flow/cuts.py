"""The function cut behind a dispatch, without traces: does it still happen? If traces hide it: which cut is first?

The recipe `iree-break-dispatch` cuts: the function then returns the outputs of that dispatch.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from livedbg.adapters.iree.differences.bad_values import has_nan
from livedbg.adapters.iree.differences.side import Side
from livedbg.adapters.iree.flow.dispatches import Dispatches
from livedbg.adapters.iree.flow.ground import Ground
from livedbg.model.errors import SourceError

__all__ = ["FAULTS", "first_cut", "told_cut"]

_BREAK: Final = "iree-break-dispatch"
_HIDDEN: Final = (
    "With traces it does not happen. They wait for each dispatch, and tensors lie elsewhere in memory: it may be a "
    "race, or an access outside of a tensor."
)
FAULTS: Final = {"hang": "it does not end", "nan": "its results have NaN", "fails": "it fails"}
"""What a run shows by itself."""


class _Cut(Struct, frozen=True):
    """What the function does that ends behind a dispatch.

    Attributes:
        fault: `hang`, `nan`, `fails` or "".
        said: why it could not be tried, or what its failure was.
    """

    fault: str = ""
    said: str = ""
    tried: bool = True


def told_cut(ground: Ground, side: Side, function: str, dispatches: Dispatches, name: str) -> None:
    """Whether what a traced dispatch does happens without traces too."""
    at = dispatches.position(name)
    if at is None:
        ground.book.say("cut", "It is called in several places: the function was not cut behind it.")
        return
    cut = _cut(ground, side, function, dispatches, at)
    if not cut.tried:
        ground.book.say("cut", f"The function could not be cut behind it: {cut.said}")
    elif cut.fault == ground.book.note.hands.get("fault"):
        ground.book.say(
            "cut", f"The same without traces: cut behind it (--iree-flow-break-dispatch), {FAULTS[cut.fault]}."
        )
    else:
        what = FAULTS.get(cut.fault, "it ends well")
        ground.book.say(
            "cut", f"Without traces, cut behind it (--iree-flow-break-dispatch), {what}: the cause may lie elsewhere."
        )


def first_cut(ground: Ground, side: Side, function: str, dispatches: Dispatches, fault: str) -> None:
    """Traces show nothing, and step 1 did: search the first dispatch behind which it happens."""
    book = ground.book
    book.say("traces", _HIDDEN)
    low, high = 0, len(dispatches.calls) - 1
    whole = _cut(ground, side, function, dispatches, high)
    if not whole.tried:
        book.say("cut", f"The function could not be cut behind {dispatches.calls[high].name}: {whole.said}")
        return
    if whole.fault != fault:
        book.say("cut", "Cut behind its last dispatch, without traces, it does not happen either.")
        return
    while low < high:
        middle = (low + high) // 2
        cut = _cut(ground, side, function, dispatches, middle)
        if not cut.tried:
            book.say("cut", f"The function could not be cut behind {dispatches.calls[middle].name}: {cut.said}")
            return
        low, high = (low, middle) if cut.fault == fault else (middle + 1, high)
    name = dispatches.calls[low].name
    book.say("found", f"{dispatches.shown(name)} is the first dispatch behind which, when cut, {FAULTS[fault]}.")
    book.note.hands |= {"fault": fault, "dispatch": f"{name}#0"}


def _cut(ground: Ground, side: Side, function: str, dispatches: Dispatches, at: int) -> _Cut:
    """Compile and run the function, cut behind a dispatch."""
    ground.book.doing(f"cutting {function} behind dispatch {at}")
    module = ground.folder / f"cut-{at}.vmfb"
    try:
        without = [] if module.exists() else ground.build(side, module, _BREAK, f"@{dispatches.function}:{at}")
    except SourceError as error:
        return _Cut(said=error.message.split("\n", maxsplit=1)[-1], tried=False)
    if without:
        return _Cut(said=" ".join(without), tried=False)
    trace = ground.run(side, module, f"cut-{at}", function)
    if trace.failure:
        return _Cut("hang" if "no end" in trace.failure else "fails", trace.failure)
    results = trace.results[-1] if trace.results else []
    return _Cut("nan" if any(has_nan(trace, one) for one in results) else "")
