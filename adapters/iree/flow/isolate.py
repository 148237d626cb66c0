"""Step 2, isolate: the dispatch that does not return, fails, or makes the first NaN, by traces and by cuts.

Invariants:
    iree_isolate.O1. A dispatch is called the one that made a NaN only if all its inputs were read and have none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from livedbg.adapters.iree.differences.bad_values import Bad, bad_inputs, first_bad, tensors_told
from livedbg.adapters.iree.differences.trace import Trace
from livedbg.adapters.iree.flow.cuts import FAULTS, first_cut, told_cut
from livedbg.adapters.iree.flow.dispatches import Dispatches, make_flow
from livedbg.adapters.iree.flow.ground import Ground
from livedbg.text.wording import many

__all__ = ["LACKS", "isolate"]

_TRACE: Final = "iree-trace-tensors"
LACKS: Final = "The module's source: tracing is a flag of the compiler, and only the compiled module is known."


def isolate(ground: Ground) -> None:
    """Do the step."""
    book = ground.book
    if ground.source is None and ground.traced is None:
        book.lacks(LACKS, "--source FILE.mlir, or a module compiled with --iree-flow-trace-dispatch-tensors")
        return
    side = ground.side()
    module = ground.traced
    if ground.source is not None:
        book.doing(f"compiling {ground.source.name} with traces")
        module = ground.folder / "traced.vmfb"
        without = ground.build(side, module, _TRACE)
        effect = " ".join(without) or "It acts at compile time: the module has flow.tensor.trace for its dispatches."
        book.say("tracing", effect)
    assert module is not None
    function = ground.function(module)
    dispatches = make_flow(ground, side, function) if ground.source is not None else Dispatches(Path())
    book.doing(f"running {function} on {ground.device} with traces")
    book.note.hands |= {"trace": str(ground.folder / "trace"), "function": function}
    book.note.places = {one.name: dispatches.shown(one.name) for one in dispatches.calls}
    book.note.trace = str(ground.folder / "trace")
    book.write()
    trace = ground.run(side, module, "trace", function, show=True)
    book.note.trace = ""
    found = _of_trace(ground, trace, dispatches)
    if ground.source is None or not dispatches.calls:
        return
    if found:
        told_cut(ground, side, function, dispatches, found)
    elif (fault := ground.handed.get("fault", "")) in FAULTS:
        first_cut(ground, side, function, dispatches, fault)


def _of_trace(ground: Ground, trace: Trace, dispatches: Dispatches) -> str:
    """What the traced run shows; gives the dispatch's name, or "" if none is at fault."""
    book = ground.book
    returned = sum(call.outputs is not None for call in trace.calls)
    book.say("dispatches", f"{many(len(trace.calls), 'dispatch')} began, {returned} returned.")
    if trace.failure:
        return _not_ended(ground, trace, dispatches)
    for number in bad_inputs(trace):
        book.say("found", f"Input {number} (counted from 0) has NaN before anything is computed.")
    bad = first_bad(trace, "nan")
    if bad is not None:
        return _of_nan(ground, trace, dispatches, bad)
    infinite = first_bad(trace, "infinity")
    if infinite is not None:
        name = dispatches.shown(infinite.call.name)
        book.say("found", f"No NaN. {name} is the first with infinity in its outputs, which may be meant (a mask).")
        book.note.lines += tensors_told(trace, "output", infinite.call.outputs or ())
    elif not trace.calls:
        book.say("found", "Nothing: the module has no dispatch, or none is traced.")
    else:
        book.say("found", "Nothing: every dispatch returned, and none has NaN or infinity in its outputs.")
    return ""


def _not_ended(ground: Ground, trace: Trace, dispatches: Dispatches) -> str:
    book, call = ground.book, trace.open
    hang = "no end" in trace.failure
    book.note.hung, book.note.failed = hang, not hang
    book.note.hands["fault"] = "hang" if hang else "fails"
    if call is None:
        when = "after its dispatches" if trace.calls else "before any dispatch began"
        book.say("found", f"It {'did not end' if hang else 'failed'} {when}: {trace.failure}.")
        return ""
    how = f"did not return: {trace.failure}" if hang else f"did not return, and the run failed: {trace.failure}"
    book.say("found", f"{dispatches.shown(call.name)} began and {how}.")
    book.note.lines += tensors_told(trace, "input", call.inputs)
    ordinal = sum(one.name == call.name for one in trace.calls) - 1
    book.note.hands["dispatch"] = f"{call.name}#{ordinal}"
    return call.name


def _of_nan(ground: Ground, trace: Trace, dispatches: Dispatches, bad: Bad) -> str:
    book, name = ground.book, dispatches.shown(bad.call.name)
    what = f"{name} is the first dispatch with NaN in its outputs ({many(bad.count, 'element')} of output {bad.output})"
    if bad.made:
        why = "its inputs have infinity and no NaN" if bad.infinite else "its inputs have none: it made it"
    else:
        why = "an input has NaN already, or could not be read"
    book.say("found", f"{what}; {why}{_made_up(ground)}.")
    book.note.lines += tensors_told(trace, "input", bad.call.inputs)
    book.note.lines += tensors_told(trace, "output", bad.call.outputs or ())
    book.note.wrong_value = not ground.random
    book.note.hands |= {"fault": "nan", "dispatch": f"{bad.call.name}#{bad.ordinal}"}
    return bad.call.name


def _made_up(ground: Ground) -> str:
    return ". The function's inputs are random: the program may never have such values" if ground.random else ""
