"""How `livedbg values` prints the tensors of a dump: as a list, as views of their values, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from livedbg.cli.tensor_export import export_entries
from livedbg.commands.messages import warn
from livedbg.session.filereaders import dump_readers, tensor_formats
from livedbg.text.json_text import json_line
from livedbg.text.quantities import byte_size
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.wording import many

if TYPE_CHECKING:  # numpy is imported when values are read
    from livedbg.values.dump import Dump, Selection
    from livedbg.values.entries import Entry
    from livedbg.values.tensor import Tensor

__all__ = ["WantedTensors", "show", "show_raw"]


@dataclass(frozen=True, slots=True)
class WantedTensors:
    """What is to be shown."""

    select: Selection
    views: frozenset[str]
    limit: int
    export: Path | None
    form: str
    as_json: bool


def show(paths: Sequence[Path], want: WantedTensors) -> int:
    """Show or export the wanted entries of dumps; the exit code.

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
    from livedbg.values.listing import entry_json, tensor_json

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
    from livedbg.values.listing import row, table, title

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
    from livedbg.values.numbers import number_lines, statistic_pairs
    from livedbg.values.pictures import heat_map, histogram_lines
    from livedbg.values.statistics import histogram, statistics

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
    """Show or export a payload that is read as a given type; the exit code."""
    from livedbg.values.listing import shape_text, tensor_json
    from livedbg.values.tensor_files import export

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
