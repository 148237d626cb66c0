"""`livedbg values`: shows the tensors of a dump or a file, and compares them with a golden run or another file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from click.core import ParameterSource

from livedbg.cli.target_options import PATH
from livedbg.model.errors import UsageError
from livedbg.session.filereaders import dump_readers, tensor_suffixes
from livedbg.text.sanitize import clean_line

_BESIDE_SCREEN = frozenset({"dump", "against", "screen"})
_VIEWS = ("stats", "numbers", "histogram", "heatmap")


@click.command("values")
@click.argument("dump", type=PATH)
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
    type=PATH,
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
@click.option("--against", type=PATH, metavar="GOLDEN", help="Compare with another dump or with golden data.")
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
            raise UsageError(f"--screen and {used} exclude each other.", "filter with / on the screen")
        return _browse(dump, against)
    from livedbg.cli import tensors  # it imports numpy
    from livedbg.values.compare import Tolerance
    from livedbg.values.dump import Selection
    from livedbg.values.tensor_files import load

    readers = dump_readers()
    select = Selection(
        frozenset(map(readers.task, tasks)), stage or "", frozenset(roles), frozenset(args), frozenset(kernels)
    )
    want = tensors.WantedTensors(
        select, frozenset(name for name in _VIEWS if views[name]), limit, export, form, as_json
    )
    if dtype is not None:
        return tensors.show_raw(dump, tensors.raw_tensor(dump, dtype, shape, offset), want)
    if shape is not None or offset:
        raise UsageError("--shape and --offset need --as.", "--as float32")
    single = readers.holds_one_tensor(dump)
    if single and select != Selection():
        raise UsageError(f"{clean_line(dump.name)} is one tensor: nothing is selected in it.", "leave it out")
    if against is not None:
        tolerance = Tolerance(rtol, atol)
        if single:
            return tensors.compare_file(readers, dump, against, tolerance, as_json=as_json)
        return tensors.against(readers.find(dump), against, select, tolerance, limit=limit, as_json=as_json)
    if rtol is not None or atol is not None:
        raise UsageError("--rtol and --atol need --against.", "--against GOLDEN")
    return (
        tensors.show_raw(dump, load(dump, readers.formats), want) if single else tensors.show(readers.find(dump), want)
    )


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
