"""Step 3, compare: the same function another way, dispatch by dispatch, with `livedbg diff-run`'s engine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from msgspec import structs

from livedbg.adapters.iree.differences.first import CallDifference, first_bad, told
from livedbg.adapters.iree.differences.sentences import difference_told, headline, lines
from livedbg.adapters.iree.differences.toolchain import Side
from livedbg.adapters.iree.differences.whole import Request, Whole, compare_sides
from livedbg.adapters.iree.flow.as_given import EXPECTED
from livedbg.adapters.iree.flow.ground import COMPILE_S, Ground
from livedbg.adapters.iree.flow.isolate import LACKS
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
