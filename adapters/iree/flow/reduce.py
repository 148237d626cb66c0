"""Step 4, reduce: run the dispatch alone, as a module of its own with its saved inputs: does it fail alone too?

Invariants:
    iree_reduce.R1. "Alone too" is said only if the same fault was seen in the run of the dispatch alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from livedbg.adapters.iree.differences.first import compare_traces, has_nan, tensors_told
from livedbg.adapters.iree.differences.sentences import difference_told
from livedbg.adapters.iree.differences.toolchain import calls_of_both
from livedbg.adapters.iree.differences.trace import Call, Trace, read_trace
from livedbg.adapters.iree.differences.whole import (
    Request,
    by_hand,
    compile_alone,
    extract,
    isolate,
    save_inputs,
    words_for,
)
from livedbg.adapters.iree.flow.compare import sides, tolerance
from livedbg.adapters.iree.flow.ground import COMPILE_S, Ground
from livedbg.adapters.iree.flow.isolate import LACKS, Dispatches, make_flow
from livedbg.model.errors import SourceError
from livedbg.text.shell import shell_word

_NOT_EXCLUDED: Final = (
    "Not excluded: other inputs; what happens only sometimes (diff-run with --runs); values that are wrong on both "
    "sides; accesses out of bounds (recipe iree-sanitize); what another driver or device does; speed."
)


_OUTSIDE: Final = (
    "It may read outside of its tensors what others wrote there (recipes iree-sanitize, iree-asan), or race "
    "(iree-one-worker, diff-run --runs 20)."
)


def reduce(ground: Ground) -> None:
    book = ground.book
    wanted = ground.handed.get("dispatch", "")
    if not wanted:
        _nothing(ground)
        return
    if ground.source is None:
        book.lacks(LACKS, "--source FILE.mlir")
        return
    name, _, number = wanted.partition("#")
    function = ground.function()
    dispatches = make_flow(ground, ground.side(), function)
    found = [one.name for one in dispatches.calls if name in (one.name, *one.name.split("::"))]
    if not found:
        known = ", ".join(dict.fromkeys(one.name.split("::")[0] for one in dispatches.calls))
        book.note.undone = True
        book.say("missing", f"{function} has no dispatch {name}, but: {known}.")
        return
    name = found[0]
    if ground.handed.get("fault") == "differs" and ground.handed.get("compared"):
        _both(ground, dispatches)
        return
    trace = _whole(ground, function)
    call = _call(trace, name, int(number or 0))
    if call is None:
        book.say("found", f"{dispatches.shown(name)} was not reached when the function ran with traces.")
        return
    _alone(ground, dispatches, trace, call)


def _nothing(ground: Ground) -> None:
    book = ground.book
    if ground.source is None and ground.traced is None:
        book.lacks("A dispatch to extract: the steps before could not look for one.", "--source FILE.mlir")
    elif "fault" in ground.handed:
        book.say("found", "No step found the dispatch at fault: nothing to extract (--dispatch NAME extracts one).")
        book.say("", _NOT_EXCLUDED)
    else:
        book.say("found", "Nothing: no step that was done found a fault, so that there is no dispatch to extract.")
        book.say("", _NOT_EXCLUDED)


def _whole(ground: Ground, function: str) -> Trace:
    """Return the traced run of step 2, or a new one."""
    folder = Path(ground.handed.get("trace", ""))
    if ground.handed.get("trace") and folder.is_dir():
        return read_trace(folder, "")
    module = ground.folder / "traced.vmfb"
    side = ground.side()
    ground.book.doing("running the whole function once more, for the dispatch's inputs")
    ground.build(side, module, "iree-trace-tensors")
    return ground.run(side, module, "trace", function)


def _call(trace: Trace, name: str, ordinal: int) -> Call | None:
    found = [call for call in trace.calls if call.name == name]
    return found[ordinal] if ordinal < len(found) else None


def _alone(ground: Ground, dispatches: Dispatches, trace: Trace, call: Call) -> None:
    book, shown, fault = ground.book, dispatches.shown(call.name), ground.handed.get("fault", "")
    unread = [one for one in call.inputs if not one.file]
    if unread:
        book.say("found", f"{shown} can't be run alone: the values of an input could not be read.")
        return
    side, source = ground.side(), ground.folder / "alone.mlir"
    book.doing(f"extracting {call.name.split('::')[0]}")
    reason = extract(side, dispatches.flow, call.name, source)
    if reason:
        book.say("found", f"{shown} can't be run alone: {reason}.")
        return
    book.doing("compiling it alone")
    try:
        module = compile_alone(side, source, COMPILE_S)
    except SourceError as error:
        book.note.failed = True
        book.say("found", f"{shown} does not compile alone: {' '.join(error.message.split(chr(10)))}")
        return
    inputs = save_inputs(trace, call, ground.folder)
    book.doing("running it alone with its saved inputs")
    alone = ground.run(side, module, "alone", "main", words_for(inputs, ground.folder))
    _judged(ground, shown, fault, alone)
    book.note.lines += tensors_told(alone, "input", call.inputs if not alone.inputs else alone.inputs)
    if alone.results:
        book.note.lines += tensors_told(alone, "output", alone.results[-1])
    _by_hand(ground, ground.folder, by_hand(side, source, inputs))


def _by_hand(ground: Ground, folder: Path, commands: Sequence[str]) -> None:
    ground.book.say("by hand", f"cd {shell_word(folder)}")
    for command in commands:
        ground.book.say("", command)


def _judged(ground: Ground, shown: str, fault: str, alone: Trace) -> None:
    book = ground.book
    hang = "no end" in alone.failure
    nan = bool(alone.results) and any(has_nan(alone, one) for one in alone.results[-1])
    seen = "hang" if hang else "fails" if alone.failure else "nan" if nan else ""
    what = {
        "hang": f"it does not return ({alone.failure})",
        "fails": f"it fails ({alone.failure})",
        "nan": "its outputs have NaN",
        "": "it returns, and its outputs have no NaN",
    }[seen]
    if seen and seen == fault:
        sentence = f"It fails alone too: {shown}, with its saved inputs, on {ground.device}: {what}."
    elif seen:
        sentence = f"{shown} alone, with its saved inputs: {what}."
    else:
        sentence = f"Not alone: it needs what came before, or the timing. {shown}, with its saved inputs: {what}."
        sentence = sentence if fault else f"{shown} alone, with its saved inputs: {what}."
    if fault and not seen:
        book.say("try", _OUTSIDE)
    book.note.hung, book.note.failed = hang, seen == "fails"
    book.note.wrong_value = nan and not ground.random
    book.say("found", sentence)


def _both(ground: Ground, dispatches: Dispatches) -> None:
    """Run a dispatch that differs alone on both sides."""
    book, compared = ground.book, Path(ground.handed["compared"])
    traces = [read_trace(compared / f"{name}.trace", "") for name in "AB"]
    allowed = tolerance(ground)
    pair, flows = sides(ground), (compared / "A.flow.mlir", compared / "B.flow.mlir")
    program = calls_of_both((pair[0].python, pair[1].python), flows)
    first = compare_traces(traces[0], traces[1], allowed, mates=program.mates).first
    if first is None:
        book.say("found", "The tensors that step 3 saved do not differ any more, or are gone: run step 3 again.")
        return
    book.doing(f"running {first.name.split('::')[0]} alone on both sides")
    assert ground.source is not None
    request = Request(ground.source, "main", (), pair, 1, allowed, ground.folder, COMPILE_S, still_s=ground.limit_s)
    alone = isolate(first, request, flows, traces[1])
    shown = dispatches.shown(first.name)
    if alone.differs is None:
        book.say("found", f"{shown} could not be run alone: {alone.reason}.")
    elif alone.differs:
        book.note.wrong_value = True
        book.say("found", f"It differs alone too: {shown}, with the same inputs on both sides.")
    else:
        book.say(
            "found", f"Not alone: with the same inputs {shown} is equal. It needs what came before, or the timing."
        )
    for number, one in enumerate(alone.outputs):
        book.say(f"output {number}", difference_told(one))
    if alone.commands:
        _by_hand(ground, alone.folder, alone.commands)
