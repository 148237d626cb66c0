"""Step 2, isolate: the dispatch that does not return, fails, or makes the first NaN, by traces and by cuts.

A cut ends the function after a dispatch (recipe `iree-break-dispatch`): it then returns the outputs of that dispatch.
It shows whether the fault occurs without traces; if traces hide it, a search finds the first cut with the fault.

Invariants:
    iree_isolate.O1. A dispatch is said to have made a NaN only if all its inputs were read and have none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.adapters.iree.differences.first import Bad, bad_inputs, first_bad, has_nan, tensors_told
from livedbg.adapters.iree.differences.toolchain import Side, calls_in, compile_module, place_of
from livedbg.adapters.iree.differences.trace import Trace
from livedbg.adapters.iree.flow.ground import COMPILE_S, Ground
from livedbg.model.errors import SourceError
from livedbg.text.wording import many


class Dispatch(Struct, frozen=True):
    """One call in the program.

    Attributes:
        name: `EXECUTABLE::FUNCTION`.
        place: `linalg.matmul at m.mlir:12`, or "".
        reason: why it can't stand alone, or "".
    """

    name: str
    place: str = ""
    reason: str = ""


class Dispatches(Struct, frozen=True):
    """The calls of a function in the flow phase; torch's functions have their code in `NAME$async`."""

    flow: Path
    function: str = ""
    calls: tuple[Dispatch, ...] = ()

    def shown(self, name: str) -> str:
        """Return a dispatch with its source."""
        found = next((one for one in self.calls if one.name == name and one.place), None)
        short = name.split("::", maxsplit=1)[0]
        return f"{short} ({found.place})" if found is not None else short

    def position(self, name: str) -> int | None:
        """Return the index of its call in the function, as the compiler counts; None if it has several calls."""
        found = [at for at, one in enumerate(self.calls) if one.name == name]
        return found[0] if len(found) == 1 else None


def make_flow(ground: Ground, side: Side, function: str) -> Dispatches:
    """Compile the source up to the flow phase, and read its dispatches; raise SourceError on failure."""
    flow = ground.folder / f"{side.name}.flow.mlir"
    if not flow.exists():
        command = [side.compiler, str(ground.source), *side.flags]
        compile_module([*command, "--compile-to=flow", "--mlir-print-debuginfo", "-o", str(flow)], COMPILE_S)
    found = calls_in(side.python, flow)
    made_by = {one.function for one in found}
    function = function if function in made_by or f"{function}$async" not in made_by else f"{function}$async"
    calls = [Dispatch(one.call, place_of(one.operations), one.reason) for one in found if one.function == function]
    return Dispatches(flow, function, tuple(calls))


_BREAK: Final = "iree-break-dispatch"
_HIDDEN: Final = (
    "With traces it does not happen. They wait for each dispatch, and tensors lie elsewhere in memory: it may be a "
    "race, or an access outside of a tensor."
)
FAULTS: Final = {"hang": "it does not end", "nan": "its results have NaN", "fails": "it fails"}
"""What a run shows by itself."""


class _Cut(Struct, frozen=True):
    """Result of the function cut after a dispatch.

    Attributes:
        fault: `hang`, `nan`, `fails` or "".
        said: its failure, or why it could not be tried.
    """

    fault: str = ""
    said: str = ""
    tried: bool = True


def told_cut(ground: Ground, side: Side, function: str, dispatches: Dispatches, name: str) -> None:
    """Report whether a traced dispatch's fault occurs without traces too."""
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
    """Find the first dispatch after which the fault occurs, if traces hide it."""
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
    """Compile and run the function, cut after a dispatch."""
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


_TRACE: Final = "iree-trace-tensors"
LACKS: Final = "The module's source: tracing is a flag of the compiler, and only the compiled module is known."


def isolate(ground: Ground) -> None:
    book = ground.book
    if ground.source is None and ground.traced is None:
        book.note.lacks = {"source": "FILE.mlir"}
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
    """Report the result of the traced run; return the faulty dispatch's name, or ""."""
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
