"""What the state says of dumps (livedbg.model.dumps), made from the dumps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from livedbg.model import ids
from livedbg.model.dump_places import places
from livedbg.model.dumps import ROWS, TaskComparison, ValueComparison, ValueDump, ValueRow
from livedbg.model.errors import LivedbgError, SourceError
from livedbg.text.sanitize import clean_line
from livedbg.values.compare import Tolerance
from livedbg.values.divergence import Divergence, diverge
from livedbg.values.dump import Dump, open_dump, task_name
from livedbg.values.finding import find_dumps
from livedbg.values.golden import GoldenFile, golden_files
from livedbg.values.listing import row, stage_word
from livedbg.values.manifest import Entry
from livedbg.values.sentences import comparison_text, headline, summary, verdict_line
from livedbg.values.state_golden import against_golden
from livedbg.values.wiring import wiring_of

__all__ = ["compared", "listed"]

_TASKS: Final = 2_000
_DETAILED: Final = 200
_ARGUMENTS: Final = 16
_LINES: Final = 60


def listed(path: Path, name: str = "", also: Collection[str] = ()) -> ValueDump:
    """What a dump has.

    Args:
        path: of the dump.
        name: of the dump, as the state is to know it; its path by default.
        also: identifiers of tasks whose rows are wanted, wherever they stand.

    Raises:
        SourceError: it can't be read.
    """
    wanted = set(also)
    with open_dump(path) as dump:
        more = (entry for entry in dump.entries[ROWS:] if _task(entry.task) in wanted) if wanted else ()
        rows = tuple(_row(dump, entry) for entry in (*dump.entries[:ROWS], *islice(more, ROWS)))
        problems = tuple(dump.problems[:_LINES])
        return ValueDump(path=name or clean_line(str(path)), count=len(dump.entries), rows=rows, problems=problems)


def compared(path: Path, golden: Path, name: str = "", siblings: Sequence[Path] = ()) -> ValueComparison:
    """A dump against a second one, or against the golden data of its program; why not stands in it.

    Args:
        path: of the dump.
        golden: of what it is compared with.
        name: of the dump, as the state knows it.
        siblings: the dumps of the same run, by which its place in the run is known.
    """
    name, other = name or clean_line(str(path)), clean_line(str(golden))
    try:
        own = siblings or (path,)
        if files := _files(golden, own):
            return against_golden(path, name, other, files)
        return _against_dump(path, name, _like(path, own, golden))
    except LivedbgError as error:
        return ValueComparison(path=name, golden=other, problem=f"{error.message} {error.remedy}".strip())
    except (OSError, MemoryError) as error:
        return ValueComparison(path=name, golden=other, problem=clean_line(f"{type(error).__name__}: {error}", 200))


def _files(golden: Path, own: Sequence[Path]) -> list[GoldenFile]:
    """Golden data, where that is what is meant."""
    if golden.is_file() and golden.suffix in {".pt", ".npy"}:
        raise SourceError(
            f"{clean_line(golden.name)} is one tensor.",
            "give the folder that has in/ and out/, or compare it by livedbg values DUMP --task T --arg N --against it",
            "one-tensor",
        )
    files = golden_files(golden)
    if files:
        return files
    data = golden_files(golden / "data")
    try:
        dumps = find_dumps(golden)  # of a run's folder, the dump tells more than the golden data beside it
    except SourceError:
        if not data:
            raise
        return data
    return data if {dump.resolve() for dump in dumps} <= {dump.resolve() for dump in own} else []


def _like(path: Path, siblings: Sequence[Path], golden: Path) -> Path:
    """The dump of another run that a dump is to be compared with: the only one, or that at the same place."""
    own = {sibling.resolve() for sibling in (path, *siblings)}
    others = [other for other in find_dumps(golden) if other.resolve() not in own]
    if not others:
        others = [other for other in find_dumps(golden) if other.resolve() != path.resolve()]
    if len(others) == 1:
        return others[0]
    place = next((place for place, sibling in places(siblings).items() if sibling == path), "")
    like = places(others).get(place) if others else None
    if like is None:
        where = f", and none at the place {place or 'of this one'}" if others else ""
        raise SourceError(
            f"{clean_line(str(golden))} holds {len(others) or 'no'} other dumps{where}.",
            "give the args_dump folder of one",
            "several",
        )
    return like


def _task(task: int) -> str:
    return ids.task("ascend", task_name(task))


def _row(dump: Dump, entry: Entry) -> ValueRow:
    cells = row(dump, entry)
    return ValueRow(
        number=entry.number,
        task=_task(entry.task),
        name=task_name(entry.task),
        kernel=clean_line(cells[2], 200),
        stage=stage_word(entry),
        role=clean_line(entry.role, 20),
        arg=entry.arg,
        dtype=clean_line(entry.dtype, 40),
        shape=entry.shape,
        size_bytes=entry.bin_size,
        note=clean_line(cells[-1]),
        there=dump.tensor(entry) is not None,
    )


def _against_dump(path: Path, name: str, golden: Path) -> ValueComparison:
    with ExitStack() as stack:
        dump, other = stack.enter_context(open_dump(path)), stack.enter_context(open_dump(golden))
        found = diverge(dump, other, wiring_of(dump), wiring_of(other))
        head = ValueComparison(path=name, golden=clean_line(str(golden)))
        if found.counted("uncompared") == len(found.verdicts):
            return replace(
                head, problem="the two have no task in common of which both hold values. Dump both runs with level 2."
            )
        first, said = found.first, list(summary(dump, found, Tolerance()))
        differing = sum(one.verdict != "equal" for one in found.verdicts)
        if differing > _TASKS:
            said.append(f"The first {_TASKS} of {differing} tasks are listed.")
        return replace(
            head,
            first=_task(first.task) if first is not None else None,
            headline=headline(dump, first) if first is not None else "No task differs.",
            summary=(*(clean_line(line, 400) for line in said), *(f"Golden: {line}" for line in other.problems[:8])),
            tasks=tuple(_differing(dump, found)),
        )


def _differing(dump: Dump, found: Divergence) -> Iterator[TaskComparison]:
    differing = (verdict for verdict in found.verdicts if verdict.verdict != "equal")
    for number, verdict in enumerate(islice(differing, _TASKS)):
        wrong = verdict.wrong[: _ARGUMENTS if number < _DETAILED else 1]
        yield TaskComparison(
            task=_task(verdict.task),
            verdict=verdict.verdict,
            sentence=clean_line(verdict_line(dump, verdict), 400),
            arguments=tuple(clean_line(comparison_text(one), 400) for one in wrong),
        )
