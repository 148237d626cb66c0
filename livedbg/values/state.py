"""What the state says of dumps (livedbg.valuedump), made from the dumps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from livedbg import ids
from livedbg.errors import LivedbgError, SourceError
from livedbg.sanitize import clean_line
from livedbg.valuedump import ROWS, TaskComparison, ValueComparison, ValueDump, ValueLook, ValueRow
from livedbg.values.compare import Tolerance
from livedbg.values.divergence import Divergence, diverge
from livedbg.values.dump import Dump, open_dump, task_name
from livedbg.values.finding import find_dumps
from livedbg.values.golden import golden_files
from livedbg.values.listing import row, stage_word, title
from livedbg.values.manifest import Entry
from livedbg.values.numbers import number_lines, number_text, statistic_pairs
from livedbg.values.pictures import PLAIN_SHADES, heat_map
from livedbg.values.program import compare_program
from livedbg.values.program_text import program_lines
from livedbg.values.sentences import comparison_text, headline, summary, verdict_line
from livedbg.values.statistics import histogram, statistics
from livedbg.values.wiring import wiring_of

__all__ = ["compared", "listed", "looked_at"]

_TASKS: Final = 2_000
_ARGUMENTS: Final = 16
_LINES: Final = 60
_SHADE: Final = re.compile(r"'.' ")
_LEVELS: Final = str.maketrans(PLAIN_SHADES, "0123456789")


def listed(path: Path) -> ValueDump:
    """What a dump has.

    Raises:
        SourceError: it can't be read.
    """
    with open_dump(path) as dump:
        rows = tuple(_row(dump, entry) for entry in dump.entries[:ROWS])
        return ValueDump(path=str(path), count=len(dump.entries), rows=rows, problems=tuple(dump.problems))


def looked_at(path: Path, number: int) -> ValueLook:
    """What one tensor of a dump is like; why not stands in it."""
    try:
        with open_dump(path) as dump:
            entry = next((one for one in dump.entries if one.number == number), None)
            if entry is None:
                return ValueLook(path=str(path), number=number, problem="The dump has no such entry any more.")
            return _look(dump, entry)
    except LivedbgError as error:
        return ValueLook(path=str(path), number=number, problem=error.message)


def compared(path: Path, golden: Path) -> ValueComparison:
    """A dump against a second one, or against the golden data of its program; why not stands in it."""
    try:
        return _compared(path, golden)
    except LivedbgError as error:
        problem = f"{error.message} {error.remedy}".strip()
        return ValueComparison(path=str(path), golden=str(golden), problem=problem)


def _task(task: int) -> str:
    return ids.task("ascend", task_name(task))


def _row(dump: Dump, entry: Entry) -> ValueRow:
    cells = row(dump, entry)
    return ValueRow(
        number=entry.number,
        task=_task(entry.task),
        name=task_name(entry.task),
        kernel=cells[2],
        stage=stage_word(entry),
        role=clean_line(entry.role, 20),
        arg=entry.arg,
        dtype=clean_line(entry.dtype, 40),
        shape=entry.shape,
        size_bytes=entry.bin_size,
        note=clean_line(cells[-1]),
        there=dump.tensor(entry) is not None,
    )


def _look(dump: Dump, entry: Entry) -> ValueLook:
    tensor = dump.tensor(entry)
    name = clean_line(title(dump, entry))
    if tensor is None:
        why = clean_line(row(dump, entry)[-1]) or "no values"
        return ValueLook(path=str(dump.path), number=entry.number, title=name, problem=why)
    known = statistics(tensor)
    bins = histogram(tensor, known)
    heat = heat_map(tensor, 48, 12, ascii_only=True)
    lines = list(number_lines(tensor, 76))
    state = dump.state(entry)
    return ValueLook(
        path=str(dump.path),
        number=entry.number,
        title=f"{name}, {state}" if state else name,
        statistics=tuple(statistic_pairs(known, tensor.element)),
        edges=tuple(number_text(edge, 4) for edge in bins.edges) if bins is not None else (),
        counts=bins.counts if bins is not None else (),
        heat=tuple(line.translate(_LEVELS) for line in heat.lines),
        legend=_SHADE.sub("", heat.legend),
        numbers=(*lines[:_LINES], *(["…"] if len(lines) > _LINES else [])),
    )


def _compared(path: Path, golden: Path) -> ValueComparison:
    files = golden_files(golden)
    if files:
        with open_dump(path) as dump:
            found = compare_program(dump, wiring_of(dump), files, Tolerance())
            lines = [clean_line(line, 400) for line in program_lines(dump, found)]
        first = next((line for line in lines if line.strip()), "")
        head = first if found.differs else "No golden tensor differs."
        return ValueComparison(path=str(path), golden=str(golden), headline=head, summary=tuple(lines[:_LINES]))
    others = [other for other in find_dumps(golden) if other.resolve() != path.resolve()]
    if len(others) != 1:
        raise SourceError(
            f"{clean_line(str(golden))} holds {len(others)} other dumps.", "give the args_dump folder of one", "several"
        )
    with ExitStack() as stack:
        dump, other = stack.enter_context(open_dump(path)), stack.enter_context(open_dump(others[0]))
        diverged = diverge(dump, other, wiring_of(dump), wiring_of(other))
        first_task = diverged.first
        return ValueComparison(
            path=str(path),
            golden=str(others[0]),
            first=_task(first_task.task) if first_task is not None else None,
            headline=headline(dump, first_task) if first_task is not None else "No task differs.",
            summary=tuple(summary(dump, diverged, Tolerance())),
            tasks=tuple(_differing(dump, diverged)),
        )


def _differing(dump: Dump, found: Divergence) -> Iterator[TaskComparison]:
    given = 0
    for verdict in found.verdicts:
        if verdict.verdict == "equal" or given == _TASKS:
            continue
        given += 1
        yield TaskComparison(
            task=_task(verdict.task),
            verdict=verdict.verdict,
            sentence=clean_line(verdict_line(dump, verdict), 400),
            arguments=tuple(clean_line(comparison_text(one), 400) for one in verdict.wrong[:_ARGUMENTS]),
        )
