"""Shows, exports and compares tensors for `livedbg values`. Imported when values are read, since it imports numpy."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import click

from livedbg.commands.output import warn
from livedbg.model.errors import SourceError, UsageError
from livedbg.session.filereaders import dump_readers, tensor_formats, tensor_suffixes
from livedbg.text.json_text import json_line
from livedbg.text.quantities import byte_size
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.wording import many
from livedbg.values.compare import Difference, Tolerance, compare
from livedbg.values.dump import Dump, Entry, Selection, entry_json, row, shape_text, table, tensor_json, title
from livedbg.values.readers import Readers
from livedbg.values.sentences import difference_json, difference_text
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
    readers = dump_readers()
    documents = []
    for path in paths:
        with readers.open(path) as dump:
            for problem in dump.problems:
                warn(problem)
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
        click.echo(json_line({"schema": "livedbg.values/1", "dumps": documents}))
    return 0


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
        click.echo(json_line({"schema": "livedbg.values/1", "raw": head | tensor_json(tensor, views)}))
    else:
        click.echo(what)
        for line in _views(tensor, want.views or frozenset({"stats", "numbers"})):
            click.echo(f"  {line}")
    return 0


def show_file(readers: Readers, path: Path, want: WantedTensors) -> int:
    """Show or export the tensor of a file; return the exit code."""
    return show_raw(path, load(path, readers.formats), want)


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
        raise SourceError(
            f"{folder} can't be created: {error.strerror}.", "choose another path", "unwritable"
        ) from None
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
        click.echo(json_line({"schema": "livedbg.values/1", "tensor": head}))
    else:
        click.echo(f"{name}: {difference_text(found)}")
    return DIFFERS if found.differs else 0
