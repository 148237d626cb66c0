"""`livedbg values DUMP --against GOLDEN`: prints the result of a comparison. It imports numpy, as `tensors` does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from livedbg.cli.tensors import DIFFERS, show_difference
from livedbg.commands.output import warn
from livedbg.model.dumps import places
from livedbg.model.errors import SourceError, UsageError
from livedbg.session.filereaders import dump_readers
from livedbg.text.json_text import json_line
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many
from livedbg.values.buffers import wiring_of
from livedbg.values.compare import Tolerance, compare
from livedbg.values.divergence import Divergence, diverge
from livedbg.values.dump import Dump, Selection, title
from livedbg.values.program import compare_program
from livedbg.values.readers import GoldenFile
from livedbg.values.sentences import (
    comparison_text,
    divergence_json,
    headline,
    program_json,
    program_lines,
    summary,
    verdict_line,
)
from livedbg.values.tensor_files import load


def against(
    paths: Sequence[Path], golden: Path, select: Selection, tolerance: Tolerance, *, limit: int, as_json: bool
) -> int:
    """Compare dumps with golden ones, and print the outcome.

    Returns:
        The exit code: 12 if something diverges.

    Raises:
        SourceError: nothing can be compared.
        UsageError: the dump to compare is ambiguous.
    """
    readers = dump_readers()
    if readers.holds_one_tensor(golden):
        return _compare_one(paths, golden, select, tolerance, as_json=as_json)
    files = readers.golden_files(golden)
    others: list[Path] = []
    if not files:  # a run's folder: its dump tells more than the golden data beside it
        data = readers.golden_of_run(golden)
        try:
            others = readers.find(golden)
        except SourceError:
            if not data:
                raise
        files = data if not others or _same(others, paths) else []
    if files:
        if len(paths) != 1:
            raise UsageError("The folder holds several dumps.", "give one args_dump folder")
        return _compare_program(paths[0], files, tolerance, as_json=as_json)
    documents: list[dict[str, object]] = []
    differs = False
    for path, other in _pairs(paths, others):
        differs |= _compare(path, other, tolerance, limit, documents if as_json else None)
    if as_json:
        click.echo(json_line({"schema": "livedbg.values/1", "comparisons": documents}))
    return DIFFERS if differs else 0


def _same(some: Sequence[Path], others: Sequence[Path]) -> bool:
    return {path.resolve() for path in some} == {path.resolve() for path in others}


def _pairs(paths: Sequence[Path], others: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Pair the dumps to compare: one with one, or by their place in the run's folder."""
    if len(paths) == len(others) == 1:
        return [(paths[0], others[0])]
    here, there = places(paths), places(others)
    both = [(here[place], there[place]) for place in here if place in there]
    if not both:
        raise UsageError(
            f"{many(len(paths), 'dump')} can't be compared with {len(others)}: no two have the same relative path.",
            "give one args_dump folder on each side",
        )
    for place in here.keys() ^ there.keys():
        warn(f"{clean_line(place) or '.'} exists in only one of the runs.")
    return both


def _compare(
    path: Path, other: Path, tolerance: Tolerance, limit: int, documents: list[dict[str, object]] | None
) -> bool:
    readers = dump_readers()
    with ExitStack() as stack:
        dump, golden = stack.enter_context(readers.open(path)), stack.enter_context(readers.open(other))
        for whose, one in (("", dump), ("golden: ", golden)):
            for problem in one.problems:
                warn(whose + problem)
        found = diverge(dump, golden, wiring_of(dump), wiring_of(golden), tolerance)
        if found.counted("uncompared") == len(found.verdicts):
            raise SourceError(
                f"No task of {clean_line(str(path))} can be compared with {clean_line(str(other))}.",
                "dump both runs with level 2 (every task with its values)",
                "nothing-in-common",
            )
        if documents is not None:
            head: dict[str, object] = {"path": clean_line(str(path)), "golden": clean_line(str(other))}
            documents.append(head | divergence_json(dump, found, tolerance))
        else:
            _print(dump, other, found, tolerance, limit)
    return found.first is not None


def _print(dump: Dump, golden: Path, found: Divergence, tolerance: Tolerance, limit: int) -> None:
    click.echo(f"{clean_line(str(dump.path))} against {clean_line(str(golden))}")
    for line in summary(dump, found, tolerance):
        click.echo(line)
    first = found.first
    if first is None:
        click.echo("No task differs.")
        return
    click.echo(f"\nFIRST DIVERGENCE: {headline(dump, first)}")
    for one in first.wrong:
        click.echo(f"  {comparison_text(one)}")
    others = [one for one in found.verdicts if one.verdict not in {"equal", "uncompared"} and one is not first]
    if others:
        click.echo("\nOther tasks that differ:")
    for verdict in others[:limit]:
        click.echo(f"  {verdict_line(dump, verdict)}")
    if len(others) > limit:
        click.echo(f"  … and {len(others) - limit} more")


def _compare_program(path: Path, files: Sequence[GoldenFile], tolerance: Tolerance, *, as_json: bool) -> int:
    readers = dump_readers()
    with readers.open(path) as dump:
        for problem in dump.problems:
            warn(problem)
        found = compare_program(dump, wiring_of(dump), files, tolerance, readers.formats)
        if as_json:
            head: dict[str, object] = {"path": clean_line(str(path))}
            document = {"schema": "livedbg.values/1", "golden": head | program_json(dump, found)}
            click.echo(json_line(document))
        else:
            for line in program_lines(dump, found):
                click.echo(line)
        if not any(match.by or match.differs for match in found.matches):
            raise SourceError(
                "No golden tensor matches a tensor of the dump.",
                "dump with level 2, and save golden data of the same program",
                "nothing-in-common",
            )
    return DIFFERS if found.differs else 0


def _compare_one(paths: Sequence[Path], golden: Path, select: Selection, tolerance: Tolerance, *, as_json: bool) -> int:
    readers = dump_readers()
    expected = load(golden, readers.formats)
    with readers.open(paths[0]) as dump:
        for problem in dump.problems:
            warn(problem)
        there = [(entry, tensor) for entry in select.of(dump) if (tensor := dump.tensor(entry)) is not None]
        if len(there) != 1 or len(paths) != 1:
            raise UsageError(
                f"{golden.name} is one tensor, but {many(len(there), 'with values is', 'with values are')} selected.",
                "select one by --task, --stage, --arg",
            )
        found = compare(there[0][1], expected, tolerance)
        return show_difference(title(dump, there[0][0]), golden, found, as_json=as_json)
