"""`livedbg diff-run`: finds the first dispatch of an IREE module that differs between two sides."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

import click

from livedbg.commands.output import warn
from livedbg.model.errors import SourceError, UsageError
from livedbg.text.json_text import json_line
from livedbg.text.sanitize import clean_line

_DIFFERS = 12
_FAILS = 11
_HANGS = 10


@click.command("diff-run")
@click.argument("module", metavar="MODULE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--function", default="main", show_default=True, metavar="NAME", help="Function to run.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SPEC",
    help="As for iree-run-module (4x8xf32=0.5, @FILE.npy, 4x8xf32=@FILE.bin); without a value, and by default: random.",
)
@click.option("--parameters", multiple=True, metavar="[SCOPE=]FILE", help="A file of parameters, as iree-run-module's.")
@click.option("--load", "before", multiple=True, metavar="VMFB", help="A compiled module to load before MODULE.")
@click.option("--device", "devices", multiple=True, metavar="DEVICE", help="Of each side: local-task, vulkan, …")
@click.option("--flags", "flags", multiple=True, metavar="FLAGS", help="Compiler flags of each side, quoted.")
@click.option("--compiler", "compilers", multiple=True, metavar="EXE", help="iree-compile of each side.")
@click.option("--python", "pythons", multiple=True, metavar="EXE", help="Python with iree.runtime, of each side.")
@click.option("--runs", type=click.IntRange(1, 1000), default=1, show_default=True, metavar="N", help="Runs of a side.")
@click.option("--rtol", type=click.FloatRange(0), metavar="X", help="Relative tolerance; default: by type.")
@click.option("--atol", type=click.FloatRange(0), metavar="X", help="Absolute tolerance; default: by type.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Folder for all files.")
@click.option("--no-reduce", is_flag=True, help="Do not run the first dispatch that differs alone.")
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Limit of each compilation and run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    module: Path,
    function: str,
    inputs: tuple[str, ...],
    parameters: tuple[str, ...],
    before: tuple[str, ...],
    devices: tuple[str, ...],
    flags: tuple[str, ...],
    compilers: tuple[str, ...],
    pythons: tuple[str, ...],
    runs: int,
    rtol: float | None,
    atol: float | None,
    keep: Path | None,
    no_reduce: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Compile and run an IREE module on two sides, and find the first dispatch that differs.

    Options that are given once hold for both sides. Two sides that are the same are compared bit by bit, with two
    runs or more: what is not deterministic shows so. The first dispatch that differs is run alone with its inputs.
    """
    from livedbg.adapters.iree.differences.sentences import as_json as document
    from livedbg.adapters.iree.differences.sentences import lines
    from livedbg.adapters.iree.differences.toolchain import Side, absolute, find_compiler, find_python
    from livedbg.adapters.iree.differences.whole import Request, compare_sides
    from livedbg.values.compare import Tolerance

    if not module.exists():
        raise SourceError(
            f"{clean_line(str(module))} does not exist.", "give a .mlir, or a .vmfb with traces", "missing"
        )
    if module.suffix == ".vmfb" and (flags or compilers):
        raise UsageError("A compiled module takes no compiler flags.", "give the .mlir", "compiled")
    device, flag, compiler, python = (
        _both(name, given) for name, given in
        (("--device", devices), ("--flags", flags), ("--compiler", compilers), ("--python", pythons))
    )  # fmt: skip
    compiled = module.suffix == ".vmfb"
    sides = [
        Side(
            name,
            "" if compiled else find_compiler(compiler[at]),
            find_python(python[at]),
            device[at] or "local-task",
            tuple(shlex.split(flag[at] or "")),
            parameters=parameters,
            before=before,
        )
        for at, name in enumerate("AB")
    ]
    same = sides[0].same(sides[1])
    exact = same and rtol is None and atol is None
    folder = keep or Path(tempfile.mkdtemp(prefix="livedbg-diff-run-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UsageError(f"{clean_line(str(folder))} is not empty.", "--keep a new folder", "not-empty")
    request = Request(
        module,
        function,
        tuple(map(absolute, inputs)),
        (sides[0], sides[1]),
        max(runs, 2) if same else runs,
        Tolerance(0.0, 0.0) if exact else Tolerance(rtol, atol),
        folder.resolve(),
        timeout,
        not no_reduce,
    )
    whole = compare_sides(request, warn)
    if as_json:
        click.echo(json_line(document(whole)))
    else:
        for line in lines(whole):
            click.echo(clean_line(line))
    if whole.failed:
        return _HANGS if any("no end" in trace.failure for _side, trace in whole.failed) else _FAILS
    if not whole.traces[0].calls:
        raise SourceError("No dispatch was traced.", "give the .mlir, or compile with the tracing flag", "no-trace")
    return _DIFFERS if whole.compared.differs else 0


def _both(name: str, given: tuple[str, ...]) -> tuple[str | None, str | None]:
    if len(given) > 2:
        raise UsageError(f"{name} is given {len(given)} times, and there are two sides.", f"{name} X {name} Y", "usage")
    return (given[0], given[-1]) if given else (None, None)
