"""Shows, exports and compares tensors for `livedbg values`. Imported when values are read, since it imports numpy."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import click

from livedbg.commands.output import warn
from livedbg.model.dumps import places
from livedbg.model.errors import SourceError, UsageError
from livedbg.session.filereaders import dump_readers, tensor_formats, tensor_suffixes
from livedbg.text.json_text import json_line
from livedbg.text.quantities import byte_size
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.wording import many
from livedbg.values.buffers import wiring_of
from livedbg.values.compare import Difference, Tolerance, compare
from livedbg.values.divergence import Divergence, diverge
from livedbg.values.dump import Dump, Entry, Selection, entry_json, row, shape_text, table, tensor_json, title
from livedbg.values.program import compare_program
from livedbg.values.readers import GoldenFile, Readers
from livedbg.values.sentences import (
    comparison_text,
    difference_json,
    difference_text,
    divergence_json,
    headline,
    program_json,
    program_lines,
    summary,
    verdict_line,
)
from livedbg.values.state import golden_meant
from livedbg.values.statistics import heat_map, histogram, histogram_lines, number_lines, statistic_pairs, statistics
from livedbg.values.tensor import Payload, Stored, Tensor, element_type, known_types
from livedbg.values.tensor_files import export, load


@dataclass(frozen=True, slots=True)
class WantedTensors:
    select: Selection
    views: frozenset[str]
    limit: int
    export: Path | None
    form: str
    as_json: bool


def show(paths: Sequence[Path], want: WantedTensors) -> int:
    """Show or export the wanted entries of dumps; return the exit code.

    Raises:
        UsageError: several tensors are to be written into one file.
        SourceError: a dump can't be read, or a file can't be written.
    """
    documents = []
    for path in paths:
        with _opened(path) as dump:
            if dump.orphan and not want.as_json:
                warn(
                    "Parts of it can still be read as a given type.",
                    f"livedbg values {shell_word(path)} --as float32 --shape 16,16 --offset 0",
                )
            chosen = list(islice(want.select.of(dump), want.limit + 1))
            if dump.entries and not chosen:
                warn(f"No entry of {clean_line(str(path))} matches.", f"livedbg values {shell_word(path)}")
            if want.export is not None:
                export_entries(dump, chosen, want.export, want.form, want.limit, several=len(paths) > 1)
            elif want.as_json:
                documents.append(_document(dump, chosen[: want.limit], want))
            else:
                for line in _lines(dump, chosen, want):
                    click.echo(line)
    if documents:
        _print_json("dumps", documents)
    return 0


@contextmanager
def _opened(path: Path, whose: str = "") -> Iterator[Dump]:
    """Open a dump, and print what it lacks."""
    with dump_readers().open(path) as dump:
        for problem in dump.problems:
            warn(whose + problem)
        yield dump


def _print_json(name: str, value: object) -> None:
    click.echo(json_line({"schema": "livedbg.values/1", name: value}))


def _document(dump: Dump, chosen: Sequence[Entry], want: WantedTensors) -> dict[str, object]:
    entries = []
    for entry in chosen:
        tensor = dump.tensor(entry)
        entries.append(entry_json(dump, entry) | (tensor_json(tensor, want.views) if tensor is not None else {}))
    return {
        "path": clean_line(str(dump.path)),
        "layout": dump.layout,
        "level": dump.level,
        "count": len(dump.entries),
        "problems": dump.problems,
        "entries": entries,
    }


def _lines(dump: Dump, chosen: Sequence[Entry], want: WantedTensors) -> Iterator[str]:
    tasks = len({entry.task for entry in dump.entries})
    size = dump.payload.size if dump.payload is not None else 0
    entries = f"{many(len(dump.entries), 'entry', 'entries')} of {many(tasks, 'task')}"
    yield f"{clean_line(str(dump.path))}: {entries}, {byte_size(size)} of values"
    shown = chosen[: want.limit]
    if not want.views:
        if shown:
            yield from table(row(dump, entry) for entry in shown)
    else:
        for entry in shown:
            yield ""
            yield title(dump, entry) + (f", {dump.state(entry)}" if dump.state(entry) else "")
            tensor = dump.tensor(entry)
            if tensor is not None:
                yield from (f"  {line}" for line in _views(tensor, want.views))
            elif entry.scalar:
                yield f"  {row(dump, entry)[-1]}"
    if len(chosen) > want.limit:
        yield "… and more: raise --limit, or filter by --task, --kernel, --stage, --role, --arg"


def _views(tensor: Tensor, views: frozenset[str]) -> Iterator[str]:
    plain = (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"
    known = statistics(tensor) if views & {"stats", "histogram"} else None
    if known is not None and "stats" in views:
        yield "  ".join(f"{name} {text}" for name, text in statistic_pairs(known, tensor.element))
    if "numbers" in views:
        yield from number_lines(tensor)
    if known is not None and "histogram" in views:
        found = histogram(tensor, known)
        yield from histogram_lines(found, ascii_only=plain) if found else ("no finite value",)
    if "heatmap" in views:
        picture = heat_map(tensor, ascii_only=plain)
        yield from (f"|{line}|" for line in picture.lines)
        yield picture.legend


def show_raw(path: Path, tensor: Tensor, want: WantedTensors) -> int:
    """Show or export a payload that is read as a given type; return the exit code."""
    what = f"{clean_line(str(path))} as {tensor.element.name} {shape_text(tensor.shape)}"
    if tensor.count < tensor.total:
        warn(f"{tensor.count:,} of {many(tensor.total, 'element is', 'elements are')} in the file.")
    if want.export is not None:
        export(tensor, want.export, {"tensor": what}, tensor_formats())
        click.echo(str(want.export))
    elif want.as_json:
        views = want.views or frozenset({"stats"})
        head: dict[str, object] = {
            "path": clean_line(str(path)),
            "dtype": tensor.element.name,
            "shape": list(tensor.shape),
            "count": tensor.count,
        }
        _print_json("raw", head | tensor_json(tensor, views))
    else:
        click.echo(what)
        for line in _views(tensor, want.views or frozenset({"stats", "numbers"})):
            click.echo(f"  {line}")
    return 0


def compare_file(readers: Readers, path: Path, other: Path, tolerance: Tolerance, *, as_json: bool) -> int:
    """Compare the tensors of two files; return the exit code, 12 if they differ.

    Raises:
        UsageError: the other is no such file.
    """
    if not readers.holds_one_tensor(other):
        raise UsageError(
            f"{clean_line(path.name)} is one tensor, and {clean_line(other.name)} is no file with one.",
            f"--against OTHER{path.suffix}",
        )
    found = compare(load(path, readers.formats), load(other, readers.formats), tolerance)
    return show_difference(clean_line(str(path)), other, found, as_json=as_json)


def export_entries(dump: Dump, chosen: Sequence[Entry], path: Path, form: str, limit: int, *, several: bool) -> None:
    """Write tensors of a dump.

    Args:
        path: of a file of one tensor, or of a folder.
        form: of the files in a folder, by their suffix.
        limit: at most so many files.
        several: this dump is one of several.

    Raises:
        UsageError: several tensors, and one file.
        SourceError: it can't be written.
    """
    there = [(entry, tensor) for entry in chosen if (tensor := dump.tensor(entry)) is not None]
    if path.suffix.removeprefix(".") in tensor_suffixes():
        if len(there) != 1 or several:
            raise UsageError(
                f"{path} holds one tensor, but {many(len(there), 'tensor is', 'tensors are')} selected.",
                "select one by --task, --stage, --arg, or give a folder",
            )
        export(there[0][1], path, {"tensor": title(dump, there[0][0])}, tensor_formats())
        click.echo(str(path))
        return
    if several:
        raise UsageError("The folder holds several dumps.", "give one args_dump folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        folder = clean_line(str(path))
        raise SourceError(f"{folder} can't be created: {error.strerror}.", "choose another path") from None
    for entry, tensor in there[:limit]:
        name = f"{dump.short_name(entry.task)}_{entry.stage}_{entry.role}{entry.arg}.{form}"
        try:
            export(tensor, path / name, {"tensor": title(dump, entry)}, tensor_formats())
        except SourceError as error:
            warn(error.message, error.remedy)
        else:
            click.echo(str(path / name))
    if len(there) > limit:
        warn(f"More than {limit} tensors are selected; only the first {limit} are written.", "--limit N")


def raw_tensor(path: Path, dtype: str, shape: str | None, offset: int) -> Tensor:
    """Return a part of a payload, read as the given type and shape.

    Raises:
        UsageError: no such type or shape, or the folder has several payloads.
        SourceError: it can't be read.
    """
    element = element_type(dtype)
    if element is None:
        raise UsageError(f"{dtype} is not an element type.", ", ".join(known_types()))
    if path.is_dir():
        bins = [found for found in dump_readers().find(path) if found.suffix == ".bin"]
        if len(bins) != 1:
            raise UsageError(f"--as reads one .bin, but {path} is a folder.", f"livedbg values {shell_word(path)}")
        path = bins[0]
    payload = Payload(path)
    there = max(0, payload.size - offset)
    try:
        dims = tuple(int(word) for word in shape.split(",")) if shape else (element.elements_in(there),)
    except ValueError:
        raise UsageError(f"{shape} is not a shape.", "--shape 16,16") from None
    if min(dims) < 0 or len(dims) > 8 or math.prod(dims) > 1 << 62:
        raise UsageError(f"{shape} is not a shape.", "--shape 16,16")
    return Stored(payload, offset, there, dims, element)


DIFFERS: Final = 12
"""The exit code where values differ."""


def show_difference(name: str, golden: Path, found: Difference, *, as_json: bool) -> int:
    """Print the difference of a tensor from a golden file; return the exit code."""
    if as_json:
        head: dict[str, object] = {
            "tensor": name,
            "golden": clean_line(str(golden)),
            "difference": difference_json(found),
        }
        _print_json("tensor", head)
    else:
        click.echo(f"{name}: {difference_text(found)}")
    return DIFFERS if found.differs else 0


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
    files = golden_meant(readers, golden, paths)
    if files:
        if len(paths) != 1:
            raise UsageError("The folder holds several dumps.", "give one args_dump folder")
        return _compare_program(paths[0], files, tolerance, as_json=as_json)
    documents: list[dict[str, object]] = []
    differs = False
    for path, other in _pairs(paths, readers.find(golden)):
        differs |= _compare(path, other, tolerance, limit, documents if as_json else None)
    if as_json:
        _print_json("comparisons", documents)
    return DIFFERS if differs else 0


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
    with _opened(path) as dump, _opened(other, "golden: ") as golden:
        found = diverge(dump, golden, wiring_of(dump), wiring_of(golden), tolerance)
        if found.counted("uncompared") == len(found.verdicts):
            raise SourceError(
                f"No task of {clean_line(str(path))} can be compared with {clean_line(str(other))}.",
                "dump both runs with level 2 (every task with its values)",
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
    with _opened(path) as dump:
        found = compare_program(dump, wiring_of(dump), files, tolerance, tensor_formats())
        if as_json:
            head: dict[str, object] = {"path": clean_line(str(path))}
            _print_json("golden", head | program_json(dump, found))
        else:
            for line in program_lines(dump, found):
                click.echo(line)
        if not any(match.by or match.differs for match in found.matches):
            raise SourceError(
                "No golden tensor matches a tensor of the dump.",
                "dump with level 2, and save golden data of the same program",
            )
    return DIFFERS if found.differs else 0


def _compare_one(paths: Sequence[Path], golden: Path, select: Selection, tolerance: Tolerance, *, as_json: bool) -> int:
    expected = load(golden, tensor_formats())
    with _opened(paths[0]) as dump:
        there = [(entry, tensor) for entry in select.of(dump) if (tensor := dump.tensor(entry)) is not None]
        if len(there) != 1 or len(paths) != 1:
            raise UsageError(
                f"{golden.name} is one tensor, but {many(len(there), 'with values is', 'with values are')} selected.",
                "select one by --task, --stage, --arg",
            )
        found = compare(there[0][1], expected, tolerance)
        return show_difference(title(dump, there[0][0]), golden, found, as_json=as_json)
