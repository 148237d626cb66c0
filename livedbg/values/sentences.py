"""The result of a comparison, and dependencies that a graph lacks, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from livedbg.graphs.declared import LostOrder
from livedbg.text.wording import many
from livedbg.values.compare import Difference, Tolerance, tolerance_of
from livedbg.values.divergence import Comparison, Divergence, TaskVerdict
from livedbg.values.dump import Dump, number, shape_text
from livedbg.values.program import GoldenMatch, ProgramComparison
from livedbg.values.statistics import number_text

_MISSING_WORDS_NAMED = 3


def missing_text(dump: Dump, missing: Sequence[LostOrder]) -> str:
    """Return ` deps.json lacks a dependency: r0t1 (INC) reads 1,024 bytes … that r0t0 (SLOW_ADD) wrote, …`, or ""."""
    if not missing:
        return ""
    parts = []
    for order in missing[:_MISSING_WORDS_NAMED]:
        does = "reads" if order.hazard == "read after write" else "overwrites"
        first, second = dump.task_name(order.first), dump.task_name(order.second)
        parts.append(f"{second} {does} {order.region}, which {first} wrote, and no path orders them")
    more = f"; and {len(missing) - _MISSING_WORDS_NAMED} more" if len(missing) > _MISSING_WORDS_NAMED else ""
    what = "a dependency" if len(missing) == 1 else f"{len(missing)} dependencies"
    return f" {dump.graph_name or 'The task graph'} beside the dump lacks {what}: {'; '.join(parts)}{more}."


def missing_json(dump: Dump, missing: Sequence[LostOrder]) -> list[dict[str, object]]:
    """Return the lacking dependencies as JSON values."""
    return [
        {
            "from": dump.short_name(order.first),
            "to": dump.short_name(order.second),
            "hazard": order.hazard,
            "offset": order.offset,
            "bytes": order.size,
            "cause": order.cause.value,
        }
        for order in missing
    ]


_NAMED = 8
_WORDS = {
    "culprit": "computes a different result",
    "order": "read other values than were written for it",
    "given": "was given different data",
    "inherited": "inputs already differ",
    "shape": "has different shapes",
    "equal": "equal",
    "uncompared": "not compared",
}
_PLURALS = {
    "culprit": "compute a different result",
    "order": "read other values than were written for them",
    "given": "were given different data",
    "inherited": "have inputs that already differ",
    "shape": "have different shapes",
    "equal": "equal",
}

Json = dict[str, object]


def difference_text(found: Difference) -> str:
    """Return `3 of 256 outside, first at [7]: 1.5, expected 2; largest difference 0.5 (25%)`."""
    if found.reason:
        return found.reason
    if not found.outside:
        return "equal" if found.compared == found.total else f"{found.compared} of {found.total} elements equal"
    where = f" at {shape_text(found.first)}" if found.first else ""
    values = f"{_value(found.actual)}, expected {_value(found.expected)}"
    text = f"{found.outside} of {found.compared} outside, first{where}: {values}"
    if found.largest:
        text += f"; largest difference {number_text(found.largest, 4)} ({found.relative:.2g} of the expected value)"
    return text + (f"; {found.nans} NaN in only one of them" if found.nans else "")


def _value(value: float | None) -> str:
    return "?" if value is None else number_text(value, 8)


def comparison_text(one: Comparison) -> str:
    """Return `arg 2 (after, output FLOAT32 [256]): …`."""
    entry = one.entry
    what = f"arg {entry.arg} ({entry.stage}, {entry.role} {entry.dtype} {shape_text(entry.shape)})"
    text = f"{what}: {one.skipped or difference_text(one.difference)}"
    return text if entry.dtype == one.other.dtype else f"{text}; it is {one.other.dtype} in the golden dump"


def _names(dump: Dump, tasks: Sequence[int]) -> str:
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    return ", ".join(dump.task_name(task) for task in tasks[:_NAMED]) + more


def headline(dump: Dump, found: TaskVerdict) -> str:
    """Return the first divergence as sentences."""
    name = dump.task_name(found.task)
    surely = "" if found.certain else ", as far as its arguments were compared"
    writers = _names(dump, found.producers)
    if found.verdict == "culprit":
        text = f"{name} computes a different result: its inputs are within tolerance{surely}, its outputs are not."
        if not found.inputs:
            text = (
                f"The outputs of {name} differ. Its inputs were not dumped, and no task before it is known to differ."
            )
    elif found.verdict == "order":
        text = f"{name} read other values, though {writers}, which writes them, wrote the same as in the golden run."
        if found.lost:
            text += f" In the golden run it waits for {_names(dump, found.lost)}: that dependency is lost."
        elif not found.missing:
            text += " It read too early or too late (a lost dependency, a race), or another write changed them."
    elif found.verdict == "given":
        text = f"{name} read other values, and no task is known to write them: the runs were given different data."
    elif found.verdict == "shape":
        text = f"{name} has arguments of another shape or type than in the golden run."
    else:
        text = f"{name} read other values. The outputs of {writers or 'the task before it'} can't be compared."
    text += missing_text(dump, [order for order in found.missing if order.first not in found.lost])
    for arg, here, there in found.redeclared:
        text += f" Arg {arg} is declared {here} here and {there} in the golden run."
    return text + (f" Also, {found.note}." if found.note else "")


def verdict_line(dump: Dump, found: TaskVerdict) -> str:
    """Return a task's verdict in one line."""
    behind = f" (from {_names(dump, found.producers)})" if found.verdict == "inherited" and found.producers else ""
    return f"{dump.task_name(found.task)}: {_WORDS[found.verdict]}{behind}"


def summary(dump: Dump, found: Divergence, tolerance: Tolerance) -> Iterator[str]:
    """Yield how many tasks were compared, in which order, how exactly; and which were not."""
    order = f"in the order of {dump.graph_name}" if found.ordered else "in the order in which their values were written"
    counts = ", ".join(many(count, _WORDS[word], _PLURALS[word]) for word in _PLURALS if (count := found.counted(word)))
    compared = len(found.verdicts) - found.counted("uncompared")
    yield f"{many(compared, 'task')} compared {order}: {counts or 'none'}."
    if not found.ordered:
        yield f"{found.order_problem}: the dependencies are unknown."
    elif found.order_problem:
        yield f"{found.order_problem}: the order is that of the golden run where needed."
    yield f"Tolerance: {tolerance_of(found.elements, tolerance) or 'nothing was compared'}."
    uncompared = [one for one in found.verdicts if one.verdict == "uncompared"]
    if uncompared:
        reasons = sorted(
            {one.skipped for verdict in uncompared for one in (*verdict.inputs, *verdict.outputs) if one.skipped}
        )
        why = f" ({'; '.join(reasons[:3])})" if reasons else ""
        yield f"{many(len(uncompared), 'task')} not compared{why}: {_names(dump, [one.task for one in uncompared])}."
    skipped = [one for verdict in found.verdicts for one in (*verdict.inputs, *verdict.outputs) if one.skipped]
    if skipped and len(skipped) > sum(len(one.inputs) + len(one.outputs) for one in uncompared):
        names = ", ".join(
            f"{dump.short_name(one.entry.task)} arg {one.entry.arg} ({one.skipped})" for one in skipped[:_NAMED]
        )
        yield f"{many(len(skipped), 'argument')} not compared: {names}{' …' if len(skipped) > _NAMED else ''}."
    if found.only_here:
        tasks = many(len(found.only_here), "task is", "tasks are")
        yield f"{tasks} not in the golden dump: {_names(dump, found.only_here)}."
    if found.only_golden:
        tasks = many(len(found.only_golden), "task is", "tasks are")
        yield f"{tasks} in the golden dump only: {_names(dump, found.only_golden)}."


def difference_json(found: Difference) -> Json:
    values = {name: getattr(found, name) for name in found.__slots__}
    return {name: number(value) if isinstance(value, float | int) else value for name, value in values.items()}


def _comparison_json(one: Comparison) -> Json:
    return {
        "arg": one.entry.arg,
        "role": one.entry.role,
        "stage": one.entry.stage,
        "number": one.entry.number,
        "golden_number": one.other.number,
        "skipped": one.skipped,
        "difference": difference_json(one.difference),
    }


def _verdict_json(dump: Dump, found: TaskVerdict) -> Json:
    return {
        "task": dump.short_name(found.task),
        "task_id": found.task,
        "kernel": dump.kernel(dump.kernels_of(found.task)),
        "verdict": found.verdict,
        "certain": found.certain,
        "producers": [dump.short_name(task) for task in found.producers],
        "lost": [dump.short_name(task) for task in found.lost],
        "missing": missing_json(dump, found.missing),
        "redeclared": [{"arg": arg, "here": here, "golden": there} for arg, here, there in found.redeclared],
        "note": found.note,
        "arguments": [
            _comparison_json(one) for one in (*found.inputs, *found.outputs) if one.difference.differs or one.skipped
        ],
    }


def divergence_json(dump: Dump, found: Divergence, tolerance: Tolerance) -> Json:
    """Return the divergence as JSON values; equal tasks by name only."""
    first = found.first
    return {
        "first": None if first is None else _verdict_json(dump, first),
        "sentence": "" if first is None else headline(dump, first),
        "ordered": found.ordered,
        "tolerance": {element.name: tolerance.of(element) for element in found.elements},
        "equal": [dump.short_name(one.task) for one in found.verdicts if one.verdict == "equal"],
        "others": [_verdict_json(dump, one) for one in found.verdicts if one.verdict != "equal"],
        "only_here": [dump.short_name(task) for task in found.only_here],
        "only_golden": [dump.short_name(task) for task in found.only_golden],
    }


def program_lines(dump: Dump, found: ProgramComparison) -> Iterator[str]:
    """Yield a line for each golden tensor, then the conclusions."""
    matched = sum(bool(match.by) for match in found.matches)
    yield f"{matched} of {many(len(found.matches), 'golden tensor')} matched with what the tasks dumped."
    if not found.ordered:
        yield f"There is no {dump.graph_name} beside the dump, so views of one buffer can't be combined."
    width = max((len(match.file.label) for match in found.matches), default=0)
    for match in found.matches:
        yield f"  {match.file.label:{width}}  {_line(match)}"
    said = list(conclusions(dump, found))
    if said:
        yield ""
        yield from said
    else:
        yield "No golden tensor differs." if matched else "Nothing was compared."


def conclusions(dump: Dump, found: ProgramComparison) -> Iterator[str]:
    """Yield the conclusions from the golden tensors that differ."""
    wrong = [match for match in found.matches if match.differs]
    given = [match for match in wrong if not match.file.output]
    if given:
        names = ", ".join(match.file.label for match in given)
        yield f"FIRST DIVERGENCE: the program was given other data than {names}: its outputs prove no kernel wrong."
    for match in [] if given else wrong:
        yield cause(dump, match)


def _line(match: GoldenMatch) -> str:
    if not match.by:
        return f"not matched: {match.note}"
    what = difference_text(match.difference)
    if not match.difference.outside and match.difference.compared < match.difference.total:
        what += ", the others are not in any dumped tensor"
    return f"by {match.by}: {what}" + (f" ({match.note})" if match.note else "")


def cause(dump: Dump, match: GoldenMatch) -> str:
    """Return a sentence on the tasks that may have computed a differing golden tensor."""
    label, writers = match.file.label, match.writers
    names = _names(dump, writers)
    if match.certain:
        return (
            f"FIRST DIVERGENCE: {names} computes a different result: its inputs match the golden run, {label} doesn't."
        )
    text = (
        f"{label}: candidates are {names}, which wrote what differs" if writers else f"{label}: no candidate is known"
    )
    if match.behind:
        text += f", and the {many(match.behind, 'task')} before"
    if match.later:
        text += f" ({many(match.later, 'task')} after them had it too and left that as it was)"
    if match.missing:
        return f"{text}.{missing_text(dump, match.missing)} That alone can make the result wrong: fix it first."
    return f"{text}. Golden data have no values in between: compare with the dump of a passing run to name the task."


def program_json(dump: Dump, found: ProgramComparison) -> dict[str, object]:
    return {
        "ordered": found.ordered,
        "matches": [
            {
                "name": match.file.name,
                "side": "out" if match.file.output else "in",
                "matched_by": match.by,
                "differs": match.differs,
                "difference": difference_json(match.difference),
                "candidates": [dump.short_name(task) for task in match.writers],
                "certain": match.certain,
                "missing": missing_json(dump, match.missing),
                "note": match.note,
            }
            for match in found.matches
        ],
    }
