"""`livedbg values`: shows the tensors of a dump or a file, and compares them with a golden run or another file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from livedbg.cli.tensor_export import raw_tensor, show_difference
from livedbg.model.errors import UsageError
from livedbg.session.filereaders import dump_readers, tensor_suffixes
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:  # numpy is imported when values are read
    from livedbg.values.compare import Tolerance
    from livedbg.values.readers import Readers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from livedbg.cli.tensor_export import export_entries
from livedbg.commands.output import warn
from livedbg.session.filereaders import tensor_formats
from livedbg.text.json_text import json_line
from livedbg.text.quantities import byte_size
from livedbg.text.shell import shell_word
from livedbg.text.wording import many

if TYPE_CHECKING:  # numpy is imported when values are read
    from livedbg.values.dump import Dump, Entry, Selection
    from livedbg.values.tensor import Tensor


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
    from livedbg.values.dump import entry_json, tensor_json

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
    from livedbg.values.dump import row, table, title

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
    from livedbg.values.statistics import (
        heat_map,
        histogram,
        histogram_lines,
        number_lines,
        statistic_pairs,
        statistics,
    )

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
    from livedbg.values.dump import shape_text, tensor_json
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


def show_file(readers: Readers, path: Path, want: WantedTensors) -> int:
    """Show or export the tensor of a file; return the exit code."""
    from livedbg.values.tensor_files import load

    return show_raw(path, load(path, readers.formats), want)


def compare_file(readers: Readers, path: Path, other: Path, tolerance: Tolerance, *, as_json: bool) -> int:
    """Compare the tensors of two files; return the exit code, 12 if they differ.

    Raises:
        UsageError: the other is no such file.
    """
    from livedbg.values.compare import compare
    from livedbg.values.tensor_files import load

    if not readers.holds_one_tensor(other):
        raise UsageError(
            f"{clean_line(path.name)} is one tensor, and {clean_line(other.name)} is no file with one.",
            f"--against OTHER{path.suffix}",
            "several",
        )
    found = compare(load(path, readers.formats), load(other, readers.formats), tolerance)
    return show_difference(clean_line(str(path)), other, found, as_json=as_json)


_BESIDE_SCREEN = frozenset({"dump", "against", "screen"})
_VIEWS = ("stats", "numbers", "histogram", "heatmap")


@click.command("values")
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Task, as r1t2 or by its id; repeatable.")
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Kernel name or func id; repeatable.")
@click.option("--stage", type=click.Choice(["before", "after"]), help="Values before or after the task ran.")
@click.option(
    "--role", "roles", multiple=True, type=click.Choice(["input", "output", "inout"]), help="Role of the argument."
)
@click.option("--arg", "args", multiple=True, type=click.IntRange(0), metavar="N", help="Index of the argument.")
@click.option("--stats", is_flag=True, help="Show minimum, maximum, mean, zeros, NaN, Inf, denormals.")
@click.option("--numbers", is_flag=True, help="Show the values; of large tensors only the edges.")
@click.option("--histogram", is_flag=True, help="Show a histogram of the values.")
@click.option("--heatmap", is_flag=True, help="Show a heat map of the magnitudes.")
@click.option(
    "--limit", type=click.IntRange(1), default=200, show_default=True, metavar="N", help="Show at most N entries."
)
@click.option(
    "--export",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help=f"Write to {', '.join(f'FILE.{form}' for form in tensor_suffixes())}, or into a folder.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(tensor_suffixes()),
    default="npy",
    show_default=True,
    help="File format in a folder.",
)
@click.option("--as", "dtype", metavar="TYPE", help="Read a .bin without manifest as elements of TYPE.")
@click.option("--shape", metavar="N,N", help="With --as: shape of the tensor.  [default: all elements]")
@click.option("--offset", type=click.IntRange(0), default=0, metavar="BYTES", help="With --as: start offset.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="GOLDEN",
    help="Compare with another dump or with golden data.",
)
@click.option("--rtol", type=click.FloatRange(0), metavar="X", help="Relative tolerance.  [default: by type]")
@click.option("--atol", type=click.FloatRange(0), metavar="X", help="Absolute tolerance.  [default: by type]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, schema livedbg.values/1.")
@click.option("--screen", is_flag=True, help="Open the dump in the terminal app.")
def command(
    dump: Path,
    tasks: tuple[str, ...],
    kernels: tuple[str, ...],
    stage: str | None,
    roles: tuple[str, ...],
    args: tuple[int, ...],
    limit: int,
    export: Path | None,
    form: str,
    dtype: str | None,
    shape: str | None,
    offset: int,
    against: Path | None,
    rtol: float | None,
    atol: float | None,
    as_json: bool,
    screen: bool,
    **views: bool,
) -> int:
    """List, show, export or compare the tensors that a run dumped.

    DUMP is args_dump.json, tensor_dump.json, their .bin, the folder of a run, or a file with one tensor (.npy, .pt).
    GOLDEN is a second dump, a folder with golden data (in/*.pt and out/*.pt), or a second file; with --against, the
    first task that diverges is reported.
    """
    if screen:
        if used := _used(_BESIDE_SCREEN):
            raise UsageError(f"--screen and {used} exclude each other.", "filter with / on the screen", "usage")
        return _browse(dump, against)
    from livedbg.values.dump import Selection

    readers = dump_readers()
    select = Selection(
        frozenset(map(readers.task, tasks)), stage or "", frozenset(roles), frozenset(args), frozenset(kernels)
    )
    want = WantedTensors(select, frozenset(name for name in _VIEWS if views[name]), limit, export, form, as_json)
    if dtype is not None:
        return show_raw(dump, raw_tensor(dump, dtype, shape, offset), want)
    if shape is not None or offset:
        raise UsageError("--shape and --offset need --as.", "--as float32", "usage")
    single = readers.holds_one_tensor(dump)
    if single and select != Selection():
        raise UsageError(f"{clean_line(dump.name)} is one tensor: nothing is selected in it.", "leave it out", "usage")
    if against is not None:
        from livedbg.cli.against import against as compared
        from livedbg.values.compare import Tolerance

        if single:
            return compare_file(readers, dump, against, Tolerance(rtol, atol), as_json=as_json)
        return compared(readers.find(dump), against, select, Tolerance(rtol, atol), limit=limit, as_json=as_json)
    if rtol is not None or atol is not None:
        raise UsageError("--rtol and --atol need --against.", "--against GOLDEN", "usage")
    return show_file(readers, dump, want) if single else show(readers.find(dump), want)


def _used(allowed: frozenset[str]) -> str:
    """Return the first option that was given and is none of these, as it is typed; or ""."""
    context = click.get_current_context()
    given = (
        option
        for option in context.command.params
        if option.name is not None
        and option.name not in allowed
        and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    )
    return next((option.opts[0] for option in given), "")


def _browse(dump: Path, against: Path | None) -> int:
    from livedbg.app import run
    from livedbg.app.options import AppOptions, check_terminal
    from livedbg.model.intents import VALUES_DUMP, VALUES_GOLDEN
    from livedbg.session.adapter import Request
    from livedbg.session.hostinfo import host_name
    from livedbg.session.live import LiveView

    check_terminal(os.environ, is_terminal=sys.stdin.isatty() and sys.stdout.isatty())
    found = dump_readers().find(dump)
    folder = dump.absolute() if dump.is_dir() else dump.absolute().parent
    options = {VALUES_GOLDEN: str(against.absolute())} if against is not None else {}
    if not dump.is_dir():
        options[VALUES_DUMP] = str(found[0].absolute())
    view = LiveView(Request(host=host_name(), logs=(str(folder),), options=options), title=clean_line(str(dump)))
    return run(view, AppOptions(start="values"))
