"""The comparison of two sides as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from livedbg.adapters.iree.differences.first import CallDifference, first_bad, numbers_told
from livedbg.adapters.iree.differences.toolchain import Side, label, place_of
from livedbg.adapters.iree.differences.whole import Alone, Whole
from livedbg.text.shell import shell_word
from livedbg.text.wording import many
from livedbg.values.compare import Difference
from livedbg.values.dump import shape_text
from livedbg.values.sentences import difference_json, difference_text
from livedbg.values.statistics import statistics

_NAMED = 6


def headline(whole: Whole) -> str:
    """Return the result in one to three sentences."""
    if whole.failed:
        side, trace = whole.failed[0]
        if not trace.called:
            return f"{_label(whole, side)} could not call the function: {trace.failure}."
        at = f"{_where(whole, trace.open.name)} began and did not return" if trace.open else "no dispatch was open"
        return f"{_label(whole, side)} did not end well ({trace.failure}): {at}."
    first = whole.compared.first
    if first is None:
        return _no_dispatch(whole)
    where = f"{_where(whole, first.name)}{_call(first)}"
    if first.fate == "inherited":
        before = " What is made otherwise on the two sides lies before it." if _apart(whole) else ""
        return f"{where} differs, as do its inputs.{before}"
    if whole.exact is not None:
        return _spread(whole, first, where)
    if _twice(whole):
        device = whole.request.sides[0].device
        return f"{where} is not deterministic on {device}: other outputs for equal inputs."
    result = " No result of the function differs beyond the tolerance." if _results_equal(whole) else ""
    return f"{where} is the first that differs. Its inputs are equal.{result}"


def _no_dispatch(whole: Whole) -> str:
    """Return the headline if no common dispatch differs."""
    compared = whole.compared
    runs = f" in {whole.request.runs} runs of each side" if _twice(whole) else ""
    apart = f"{many(len(compared.only[0]), 'dispatch')} of A and {len(compared.only[1])} of B"
    if not any(one is not None and one.differs for one in compared.results):
        unread = compared.counted("uncompared")
        if not _apart(whole) and not unread:
            return f"No dispatch and no result differs{runs}."
        if not _apart(whole):
            could = "could not be compared, for values could not be read"
            return f"No difference was seen{runs}; {many(unread, 'dispatch')} {could}."
        same = "No result differs" if _results_equal(whole) else "No difference was seen"
        return f"{same}{runs}; {apart} have no counterpart and were not compared: the program is cut otherwise."
    if _apart(whole):
        return (
            f"The results differ, and no dispatch that both sides have: {apart} have no counterpart, since the program "
            "is cut otherwise. The same optimisation level and fusion flags on both sides cut it alike."
        )
    return "The results differ, and no traced dispatch does."


def _spread(whole: Whole, first: CallDifference, where: str) -> str:
    """Return the headline if the first difference comes from differences within the tolerance in the inputs."""
    assert whole.exact is not None
    source = f"{_where(whole, whole.exact.name)}{_call(whole.exact)}"
    makes = f"They come from {source}." if whole.exact.fate == "culprit" else f"{source} has them first."
    alone = whole.alone.differs if whole.alone is not None else None
    if alone is False:
        return f"{where} makes large differences of small ones in its inputs; with equal inputs it is equal. {makes}"
    if alone:
        return f"{where} is the first that differs, with equal inputs too."
    return f"{where} is the first that differs; its inputs differ too, within the tolerance. {makes}"


def _apart(whole: Whole) -> bool:
    return any(whole.compared.only)


def _results_equal(whole: Whole) -> bool:
    results = whole.compared.results
    return bool(results) and all(one is not None and not one.differs for one in results)


def nan_lines(whole: Whole) -> Iterator[str]:
    """Yield the first dispatch that made NaN from finite inputs, on each side."""
    for at, (side, trace) in enumerate(zip(whole.request.sides, whole.traces, strict=True)):
        bad = first_bad(trace, "nan")
        if bad is not None and bad.made and not bad.infinite:
            call = f", call {bad.ordinal + 1}," if bad.ordinal else ""
            yield (
                f"{_where(whole, bad.call.name, at)}{call} makes NaN on side {side.name} ({side.device}): "
                f"{bad.count:,} of {bad.size:,} elements of output {bad.output}, first at {list(bad.index)}. Its "
                "inputs are finite."
            )


def lines(whole: Whole) -> Iterator[str]:
    """Yield the full report."""
    request = whole.request
    a, b = (_label(whole, side) for side in request.sides)
    yield f"{request.module.name}: {request.function} on {a} against {b}"
    compared = whole.compared
    counts = f"{many(len(compared.calls), 'dispatch')} compared, {compared.counted('equal')} equal"
    inherited = compared.counted("inherited")
    counts += f", {inherited} with inputs that differ already" if inherited else ""
    uncompared = compared.counted("uncompared")
    yield counts + (f", {uncompared} not comparable (values that could not be read)" if uncompared else "")
    for side, names in zip(request.sides, compared.only, strict=True):
        if names:
            yield f"{many(len(names), 'dispatch')} of side {side.name} without a counterpart: {_named(names)}"
    if whole.program.sides[0] and not whole.program.known:
        yield "Paired by name: what the dispatches are made of could not be read on both sides."
    yield ""
    yield headline(whole)
    yield from nan_lines(whole)
    first = compared.first
    if first is not None and first.calls is not None:
        yield from _details(whole, first)
    elif compared.differs:
        yield from (f"  result {n}: {difference_told(one)}" for n, one in enumerate(compared.results))
    if whole.alone is not None:
        yield ""
        yield from _alone(whole.alone)
    yield ""
    yield f"Files: {request.folder}"


def _details(whole: Whole, first: CallDifference) -> Iterator[str]:
    for which, found, tensors in first.tensors():
        yield f"  {which} {tensors[0].type}{shape_text(tensors[0].shape)}: {difference_told(found)}"
        if found is not None and found.differs:
            for side, trace, saved in zip(whole.request.sides, whole.traces, tensors, strict=True):
                tensor = trace.tensor(saved)
                yield f"    {side.name}: {'no values' if tensor is None else numbers_told(statistics(tensor))}"
    for operation in whole.program.operations(first.name):
        yield f"  {operation.name} at {operation.file}:{operation.line}"


def _alone(alone: Alone) -> Iterator[str]:
    if alone.differs is None:
        yield f"It was not run alone: {alone.reason}."
        return
    if alone.differs:
        yield "Alone, with the same inputs, it differs too:"
    else:
        chance = "" if alone.runs == 1 else f" in {alone.runs} runs"
        yield f"Alone, with the same inputs, it does not differ{chance}: what comes before matters, or the timing."
    yield from (f"  output {number}: {difference_told(one)}" for number, one in enumerate(alone.outputs))
    yield f"  cd {shell_word(alone.folder)}"
    yield from (f"  {command}" for command in alone.commands)


def _named(names: Sequence[str]) -> str:
    each = [name.split("::")[0] for name in dict.fromkeys(names)]
    more = f" and {len(each) - _NAMED} more" if len(each) > _NAMED else ""
    return f"{', '.join(each[:_NAMED])}{more}"


def difference_told(found: Difference | None) -> str:
    """Return how two tensors differ; None means unreadable."""
    return "its values could not be read" if found is None else difference_text(found)


def _where(whole: Whole, name: str, side: int = 0) -> str:
    place = place_of(whole.program.operations(name, side), full=True)
    short = name.split("::", maxsplit=1)[0]
    return f"{short} ({place})" if place else short


def _call(first: CallDifference) -> str:
    return f", call {first.ordinal + 1}," if first.ordinal else ""


def _twice(whole: Whole) -> bool:
    return whole.request.sides[0].same(whole.request.sides[1])


def _label(whole: Whole, side: Side) -> str:
    one, other = whole.request.sides
    return label(side, other if side is one else one)


def as_json(whole: Whole) -> dict[str, object]:
    """Return the result as JSON data, schema `livedbg.diff-run/1`."""
    first, alone = whole.compared.first, whole.alone
    operations = whole.program.operations(first.name) if first is not None else ()
    return {
        "schema": "livedbg.diff-run/1",
        "module": str(whole.request.module),
        "function": whole.request.function,
        "sides": [
            {"name": side.name, "device": side.device, "flags": list(side.flags), "compiler": side.compiler,
             "failure": trace.failure, "open": trace.open.name if trace.open else None}
            for side, trace in zip(whole.request.sides, whole.traces, strict=True)
        ],
        "sentence": headline(whole),
        "nan": list(nan_lines(whole)),
        "dispatches": [{"name": one.name, "call": one.ordinal, "fate": one.fate} for one in whole.compared.calls],
        "only": [list(names) for names in whole.compared.only],
        "first": None if first is None else {
            "name": first.name,
            "call": first.ordinal,
            "fate": first.fate,
            "operations": [{"name": o.name, "file": o.file, "line": o.line} for o in operations],
            "inputs": [None if one is None else difference_json(one) for one in first.inputs],
            "outputs": [None if one is None else difference_json(one) for one in first.outputs],
            "spread_from": None if whole.exact is None else whole.exact.name,
        },
        "results": [None if one is None else difference_json(one) for one in whole.compared.results],
        "alone": None if alone is None else {
            "differs": alone.differs, "reason": alone.reason,
            "folder": str(alone.folder), "commands": list(alone.commands),
            "outputs": [None if one is None else difference_json(one) for one in alone.outputs],
        },
        "folder": str(whole.request.folder),
    }  # fmt: skip
