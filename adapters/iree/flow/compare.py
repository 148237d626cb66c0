"""Steps 3 and 4: the function another way, by `livedbg diff-run`'s engine; and the dispatch alone: does it fail too?

Step 4, reduce, runs the dispatch as a module of its own with its saved inputs.

Invariants:
    iree_reduce.R1. "Alone too" is said only if the same fault was seen in the run of the dispatch alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import structs

from livedbg.adapters.iree.differences.first import (
    CallDifference,
    compare_traces,
    first_bad,
    has_nan,
    tensors_told,
    told,
)
from livedbg.adapters.iree.differences.sentences import difference_told, headline, lines
from livedbg.adapters.iree.differences.toolchain import Side, calls_of_both
from livedbg.adapters.iree.differences.trace import Call, Trace, read_trace
from livedbg.adapters.iree.differences.whole import (
    Request,
    Whole,
    by_hand,
    compare_sides,
    compile_alone,
    extract,
    isolate,
    save_inputs,
    words_for,
)
from livedbg.adapters.iree.flow.as_given import EXPECTED
from livedbg.adapters.iree.flow.ground import COMPILE_S, Ground
from livedbg.adapters.iree.flow.isolate import LACKS, Dispatches, make_flow
from livedbg.model.errors import SourceError
from livedbg.text.shell import shell_word
from livedbg.values.compare import Tolerance
from livedbg.values.dump import shape_text

AGAINST: Final = ("--iree-llvmcpu-target-cpu=generic", "--iree-opt-level=O0")
"""What a CPU is compared with by default: no instructions of its own, no optimisation."""


def compare(ground: Ground) -> None:
    book, source = ground.book, ground.source
    module = source or ground.traced
    if module is None:
        book.note.lacks = {"source": "FILE.mlir"}
        book.lacks(LACKS, "--source FILE.mlir, or a module compiled with --iree-flow-trace-dispatch-tensors")
        return
    pair = sides(ground)
    function = ground.function()
    request = Request(
        module, function, ground.inputs, pair, 1, tolerance(ground), ground.folder / "compared", COMPILE_S,
        reduce=False, still_s=ground.limit_s,
    )  # fmt: skip
    request.folder.mkdir()
    for side in pair:
        book.say(f"side {side.name}", " ".join((side.device, *(side.flags or ("with the default flags",)))))
    whole = compare_sides(request, book.doing)
    for line in lines(whole):
        print(line)
    _judged(ground, whole)
    book.say("by hand", _by_hand(ground, request))


def sides(ground: Ground) -> tuple[Side, Side]:
    """Return the program's own side, and another one: as given, else the CPU for a GPU, or plain code for a CPU."""
    given = ground.handed
    local = ground.device.startswith("local")
    named = given.get("against") or given.get("against-flags")
    device = given.get("against") or (ground.device if named or local else "local-sync")
    flags = given.get("against-flags")
    one = structs.replace(ground.side("A"), flags=ground.flags)
    own = shlex.split(flags) if flags is not None else AGAINST if not named and local else ()
    if flags is None and device == ground.device:
        names = {flag.partition("=")[0] for flag in own}
        own = (*(flag for flag in ground.flags if flag.partition("=")[0] not in names), *own)
    if ground.source is None:
        own = ()
        device = given.get("against") or ("local-sync" if ground.device != "local-sync" else "local-task")
    return one, structs.replace(one, name="B", device=device, flags=tuple(own))


def tolerance(ground: Ground) -> Tolerance:
    """Return the tolerance: as given, else by type."""
    given = [ground.handed.get(name) for name in ("rtol", "atol")]
    rtol, atol = (float(one) if one else None for one in given)
    return Tolerance(rtol, atol)


def _judged(ground: Ground, whole: Whole) -> None:
    book, compared = ground.book, whole.compared
    equal = compared.counted("equal")
    book.say("dispatches", f"{len(compared.calls)} compared, {equal} equal within the tolerance.")
    for side, names in zip(whole.request.sides, compared.only, strict=True):
        if names:
            short = ", ".join(name.split("::")[0] for name in names[:4])
            book.say("dispatches", f"{len(names)} of side {side.name} without a counterpart: {short}.")
    first = compared.first
    told_all = compared.differs or whole.failed or any(compared.only)
    book.say("found", headline(whole) if told_all else "Nothing: no dispatch and no result differs.")
    if ground.handed.get("fault") == EXPECTED and not compared.differs and not whole.failed:
        book.say("expected", "Both sides give the same: the program or the expected values are wrong, not one device.")
    if ground.handed.get("fault") == "nan" and all(first_bad(trace, "nan") for trace in whole.traces):
        book.say("NaN", "It is on both sides: it comes of the program or its inputs, not of one device.")
    if whole.failed:
        hung = any("no end" in trace.failure for _, trace in whole.failed)
        book.note.hung, book.note.failed = hung, not hung
        well = [side for side, trace in zip(whole.request.sides, whole.traces, strict=True) if not trace.failure]
        if well:
            book.say("other side", f"Side {well[0].name} ({well[0].device}) ends: what is between the two matters.")
        elif len(whole.failed) > 1:
            book.say("other side", "Both sides fail: look at the program or its inputs rather than at one device.")
    if compared.differs and not whole.failed:
        book.note.wrong_value = True
    if first is not None and first.calls is not None:
        book.note.hands["compared"] = str(whole.request.folder)
        if "dispatch" not in ground.handed:
            book.note.hands |= {"dispatch": f"{first.name}#{first.ordinal}", "fault": "differs"}
        book.note.lines += _numbers(whole, first)


def _numbers(whole: Whole, first: CallDifference) -> Iterator[tuple[str, str]]:
    """Yield how the inputs and outputs of a dispatch differ, with the statistics of both sides."""
    for label, found, tensors in first.tensors():
        yield label, f"{tensors[0].type}{shape_text(tensors[0].shape)}: {difference_told(found)}"
        if found is not None and found.differs:
            for side, trace, saved in zip("AB", whole.traces, tensors, strict=True):
                yield f"  side {side}", told(trace, saved)


def _by_hand(ground: Ground, request: Request) -> str:
    words = ["livedbg", "diff-run", str(request.module), "--function", request.function]
    words += [word for one in request.inputs for word in ("--input", one)]
    words += [word for one in request.sides[0].parameters for word in ("--parameters", one)]
    words += [word for one in request.sides[0].before for word in ("--load", one)]
    for side in request.sides:
        words += ["--device", side.device]
        if any(one.flags for one in request.sides):
            words += ["--flags", " ".join(side.flags)]
    words += [word for name in ("rtol", "atol") if (value := ground.handed.get(name)) for word in (f"--{name}", value)]
    return " ".join(shell_word(word) for word in words)


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
    _judged_alone(ground, shown, fault, alone)
    book.note.lines += tensors_told(alone, "input", call.inputs if not alone.inputs else alone.inputs)
    if alone.results:
        book.note.lines += tensors_told(alone, "output", alone.results[-1])
    _by_hand_alone(ground, ground.folder, by_hand(side, source, inputs))


def _by_hand_alone(ground: Ground, folder: Path, commands: Sequence[str]) -> None:
    ground.book.say("by hand", f"cd {shell_word(folder)}")
    for command in commands:
        ground.book.say("", command)


def _judged_alone(ground: Ground, shown: str, fault: str, alone: Trace) -> None:
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
        _by_hand_alone(ground, alone.folder, alone.commands)
