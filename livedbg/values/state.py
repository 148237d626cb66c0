"""Makes the state of dumps (livedbg.model.dumps) from dump files: lists, comparisons, and quick previews of tensors.

A preview is of a single tensor of any size, for a screen.

Invariants:
    preview.L1. Nothing is open between two previews; of the dump that was previewed last the manifest is kept.
    preview.L2. A first preview reads at most a sample of 2^21 elements; all of them are read afterwards, up to `WHOLE`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from livedbg.linux import target_files
from livedbg.model import ids
from livedbg.model.dumps import ROWS, TaskComparison, ValueComparison, ValueDump, ValuePreview, ValueRow, places
from livedbg.model.errors import LivedbgError, SourceError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.values.buffers import wiring_of
from livedbg.values.compare import Tolerance
from livedbg.values.divergence import Divergence, diverge
from livedbg.values.dump import Dump, Entry, row, title
from livedbg.values.program import ProgramComparison, compare_program
from livedbg.values.readers import GoldenFile, Readers
from livedbg.values.sentences import cause, comparison_text, conclusions, headline, program_lines, summary, verdict_line
from livedbg.values.statistics import (
    PLAIN_SHADES,
    heat_map,
    histogram,
    number_lines,
    number_text,
    statistic_pairs,
    statistics,
)
from livedbg.values.tensor import Sample, Stored, insisting

_TASKS: Final = 2_000
_DETAILED: Final = 200
_ARGUMENTS: Final = 16
_LINES: Final = 60
_SUSPECTS: Final = 200


def listed(readers: Readers, path: Path, name: str = "", also: Collection[str] = ()) -> ValueDump:
    """Return the contents of a dump.

    Args:
        name: of the dump in the state; its path by default.
        also: identifiers of tasks whose rows are wanted, besides the first `ROWS`.

    Raises:
        SourceError: it can't be read.
    """
    wanted = set(also)
    with readers.open(path) as dump:
        more = (entry for entry in dump.entries[ROWS:] if _task(dump, entry.task) in wanted) if wanted else ()
        rows = tuple(_row(dump, entry) for entry in (*dump.entries[:ROWS], *islice(more, ROWS)))
        problems = tuple(dump.problems[:_LINES])
        return ValueDump(path=name or clean_line(str(path)), count=len(dump.entries), rows=rows, problems=problems)


def compared(
    readers: Readers, path: Path, golden: Path, name: str = "", siblings: Sequence[Path] = ()
) -> ValueComparison:
    """Compare a dump with a second one, or with the golden data of its program; `problem` says why it can't be done.

    Its place in the run is known by `siblings`, the dumps of the same run.
    """
    name, other = name or clean_line(str(path)), clean_line(str(golden))
    try:
        own = siblings or (path,)
        if files := golden_meant(readers, golden, own):
            return _against_golden(readers, path, name, other, files)
        return _against_dump(readers, path, name, _like(readers, path, own, golden))
    except LivedbgError as error:
        return ValueComparison(path=name, golden=other, problem=f"{error.message} {error.remedy}".strip())
    except (OSError, MemoryError) as error:
        return ValueComparison(path=name, golden=other, problem=clean_line(f"{type(error).__name__}: {error}", 200))


def golden_meant(readers: Readers, golden: Path, own: Sequence[Path]) -> Sequence[GoldenFile]:
    """Return the golden data in a folder or in a run's folder; empty if the path means a dump.

    Raises:
        SourceError: it is a single tensor, or holds neither golden data nor a dump.
    """
    if readers.holds_one_tensor(golden):
        raise SourceError(
            f"{clean_line(golden.name)} is one tensor.",
            "give the folder that has in/ and out/, or compare it by livedbg values DUMP --task T --arg N --against it",
            "one-tensor",
        )
    files = readers.golden_files(golden)
    if files:
        return files
    data = readers.golden_of_run(golden)
    try:
        dumps = readers.find(golden)  # of a run's folder, the dump shows more than the golden data beside it
    except SourceError:
        if not data:
            raise
        return data
    return data if {dump.resolve() for dump in dumps} <= {dump.resolve() for dump in own} else []


def _like(readers: Readers, path: Path, siblings: Sequence[Path], golden: Path) -> Path:
    """Return the dump of another run to compare with: the only one, or that at the same place."""
    own = {sibling.resolve() for sibling in (path, *siblings)}
    others = [other for other in readers.find(golden) if other.resolve() not in own]
    if not others:
        others = [other for other in readers.find(golden) if other.resolve() != path.resolve()]
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


def _task(dump: Dump, task: int) -> str:
    return ids.task(dump.system, dump.short_name(task))


def _row(dump: Dump, entry: Entry) -> ValueRow:
    cells = row(dump, entry)
    return ValueRow(
        number=entry.number,
        task=_task(dump, entry.task),
        name=dump.short_name(entry.task),
        kernel=clean_line(cells[2], 200),
        stage=entry.stage,
        role=clean_line(entry.role, 20),
        arg=entry.arg,
        dtype=clean_line(entry.dtype, 40),
        shape=entry.shape,
        size_bytes=entry.bin_size,
        note=clean_line(cells[-1]),
        there=dump.tensor(entry) is not None,
    )


def _against_dump(readers: Readers, path: Path, name: str, golden: Path) -> ValueComparison:
    with ExitStack() as stack:
        dump, other = stack.enter_context(readers.open(path)), stack.enter_context(readers.open(golden))
        found = diverge(dump, other, wiring_of(dump), wiring_of(other))
        head = ValueComparison(path=name, golden=clean_line(str(golden)))
        if found.counted("uncompared") == len(found.verdicts):
            return replace(head, problem="the dumps have no common task with values. Dump both runs with level 2.")
        first, said = found.first, list(summary(dump, found, Tolerance()))
        differing = sum(one.verdict != "equal" for one in found.verdicts)
        if differing > _TASKS:
            said.append(f"The first {_TASKS} of {differing} tasks are listed.")
        return replace(
            head,
            first=_task(dump, first.task) if first is not None else None,
            headline=headline(dump, first) if first is not None else "No task differs.",
            summary=(*(clean_line(line, 400) for line in said), *(f"Golden: {line}" for line in other.problems[:8])),
            tasks=tuple(_differing(dump, found)),
        )


def _differing(dump: Dump, found: Divergence) -> Iterator[TaskComparison]:
    differing = (verdict for verdict in found.verdicts if verdict.verdict != "equal")
    for number, verdict in enumerate(islice(differing, _TASKS)):
        wrong = verdict.wrong[: _ARGUMENTS if number < _DETAILED else 1]
        yield TaskComparison(
            task=_task(dump, verdict.task),
            verdict=verdict.verdict,
            sentence=clean_line(verdict_line(dump, verdict), 400),
            arguments=tuple(clean_line(comparison_text(one), 400) for one in wrong),
        )


def _against_golden(
    readers: Readers, path: Path, name: str, golden: str, files: Sequence[GoldenFile]
) -> ValueComparison:
    with readers.open(path) as dump:
        found = compare_program(dump, wiring_of(dump), files, Tolerance(), readers.formats)
        lines = tuple(clean_line(line, 400) for line in program_lines(dump, found) if line)[:_LINES]
        if not any(match.by or match.differs for match in found.matches):
            why = next((match.note for match in found.matches if match.note), "")
            raise SourceError(f"no golden tensor could be matched: {clean_line(why, 400)}", "", "nothing-in-common")
        tasks = tuple(_suspects(dump, found))
        said = list(conclusions(dump, found))
        unread = sum(not match.by for match in found.matches)
        head = clean_line(said[0], 400) if said else "No golden tensor that could be compared differs."
        if unread and not said:
            head = f"No golden tensor differs, but {unread} of {len(found.matches)} were not compared."
        first = next((one.task for one in tasks if one.verdict == "culprit"), tasks[0].task if tasks else None)
        return ValueComparison(path=name, golden=golden, first=first, headline=head, summary=lines, tasks=tasks)


def _suspects(dump: Dump, found: ProgramComparison) -> Iterator[TaskComparison]:
    wrong = [match for match in found.matches if match.differs]
    if any(not match.file.output for match in wrong):  # given other data: that says nothing about kernels
        return
    seen: set[int] = set()
    for match in sorted(wrong, key=lambda match: not match.certain):
        for writer in match.writers:
            if writer not in seen and len(seen) < _SUSPECTS:
                seen.add(writer)
                yield TaskComparison(
                    task=_task(dump, writer),
                    verdict="culprit" if match.certain else "candidate",
                    sentence=clean_line(cause(dump, match), 400),
                )


WHOLE: Final = 1 << 27
"""Elements of the largest tensor that a screen reads all of."""

_SAMPLED: Final = 1 << 21
_NUMBER_LINES: Final = 60
_WIDE: Final = 400
_SHADE: Final = lazy_re(r"'.' ")
_LEVELS: Final = str.maketrans(PLAIN_SHADES, "0123456789")

_Signature = tuple[Path, tuple[int, int, int] | None, tuple[int, int, int] | None]


class Previewer:
    """Previews tensors, one after the other. Not thread-safe."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._dump: Dump | None = None
        self._signature: _Signature | None = None

    def forget(self) -> None:
        """Drop the kept manifest."""
        self._dump = self._signature = None

    def previews(self, path: Path, name: str, number: int) -> Iterator[ValuePreview]:
        """Yield previews of an entry, for a large one that of a sample first; `problem` says why there is none."""
        try:
            dump = self._opened(path)
            with dump:
                yield from _previews(dump, name, number)
        except SourceError as error:
            yield ValuePreview(path=name, number=number, problem=error.message)
        except MemoryError:
            yield ValuePreview(path=name, number=number, problem="Not enough memory to read it.")

    def _opened(self, path: Path) -> Dump:
        """Return the dump, with its payload open; read anew if one of its files has changed.

        A manifest is read to its end even where nobody wants this preview any more: the next one needs it as well.
        """
        if self._dump is not None and self._signature == _signature(path, self._dump):
            if self._dump.payload is not None:
                self._dump.payload.open()
            return self._dump
        self.forget()
        with insisting():
            dump = self._readers.open(path)
        self._dump, self._signature = dump, _signature(path, dump)
        return dump


def _signature(path: Path, dump: Dump) -> _Signature:
    return path, _of_file(path), _of_file(dump.payload_path or path)


def _of_file(path: Path) -> tuple[int, int, int] | None:
    try:
        status = target_files.status(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _previews(dump: Dump, name: str, number: int) -> Iterator[ValuePreview]:
    at = bisect_left(dump.entries, number, key=lambda entry: entry.number)
    entry = dump.entries[at] if at < len(dump.entries) and dump.entries[at].number == number else None
    if entry is None:
        yield ValuePreview(path=name, number=number, problem="The dump has no such entry any more.")
        return
    state, tensor = dump.values(entry)
    head = clean_line(title(dump, entry), 400)
    if entry.scalar:
        yield ValuePreview(path=name, number=number, title=head, numbers=(clean_line(row(dump, entry)[-1], 200),))
        return
    if tensor is None:
        why = clean_line(row(dump, entry)[-1], 200) or "no values"
        if state == "no payload" and dump.payload is None and dump.payload_path is not None:
            why = f"no payload: {clean_line(dump.payload_path.name, 100)} can't be read"
        yield ValuePreview(path=name, number=number, title=head, problem=why)
        return
    head = f"{head}, {state}" if state else head
    if tensor.count > _SAMPLED:
        yield _preview(entry, tensor, name, head)
        if tensor.count > WHOLE:
            return
    yield _preview(entry, tensor, name, head, whole=True)


def _preview(entry: Entry, stored: Stored, name: str, head: str, *, whole: bool = False) -> ValuePreview:
    tensor = stored
    if not whole:
        tensor = Sample(stored.payload, stored.offset, stored.size, stored.shape, stored.element)
    known = statistics(tensor)
    bins = histogram(tensor, known)
    heat = heat_map(tensor, 40, 12, ascii_only=True)
    lines = list(number_lines(stored, 76))
    legend = _SHADE.sub("", heat.legend)
    sample = "" if whole else f"{known.count:,} of {stored.count:,} elements, in pieces that are spread evenly"
    goes_on = not whole and stored.count <= WHOLE
    if sample:
        legend = legend.replace("?: not there", "?: not read")
        sample += ": the others are being read." if goes_on else ". `livedbg values DUMP --stats` reads all."
    return ValuePreview(
        path=name,
        number=entry.number,
        title=head,
        sample=sample,
        goes_on=goes_on,
        statistics=tuple(statistic_pairs(known, stored.element)),
        edges=tuple(number_text(edge, 4) for edge in bins.edges) if bins is not None else (),
        counts=bins.counts if bins is not None else (),
        heat=tuple(line.translate(_LEVELS) for line in heat.lines),
        legend=legend,
        numbers=(*(line[:_WIDE] for line in lines[:_NUMBER_LINES]), *(["…"] if len(lines) > _NUMBER_LINES else [])),
    )
