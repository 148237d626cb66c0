"""`livedbg repro`: extracts a script that reproduces an nvFuser failure."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import click

from livedbg.adapters.nvfuser.dumps.failures import Failure, parts_of
from livedbg.adapters.nvfuser.dumps.reproduction_sources import Cut, Material, gather
from livedbg.adapters.nvfuser.dumps.script_run import check, compare, run_script
from livedbg.adapters.nvfuser.dumps.segment_script import build_segment
from livedbg.adapters.nvfuser.dumps.segments import Group, SegmentedFusion
from livedbg.commands.output import TIME_LIMIT, warn, write
from livedbg.model.errors import SourceError

_FAILS = 11


@dataclass(slots=True)
class _Repro:
    """A script, its description, and the expected errors."""

    text: str
    what: str
    notes: list[str] = field(default_factory=list)
    errors: list[Failure] = field(default_factory=list)


@click.command("repro")
@click.argument("source", metavar="LOG|FOLDER|RECORDING", type=click.Path(path_type=Path))
@click.option("--segment", type=click.IntRange(0), metavar="N", help="Reduce the script to segmentation group N.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the script to FILE.")
@click.option("--run", "run_it", is_flag=True, help="Run the script and report whether it fails the same way.")
@click.option("--python", metavar="EXE", help="Python to run it with; it must have nvFuser.")
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Kill the run after SECONDS.",
)
def command(
    source: Path, segment: int | None, output: Path | None, run_it: bool, python: str | None, timeout: float
) -> int:
    """Extract a script that reproduces an nvFuser failure. The script is parsed, and run only with --run.

    The script comes from the error text (bindings up to 2025) or from the output of fd.repro_script_for(inputs).
    Without one, or with --segment, livedbg builds it from a dump of NVFUSER_DUMP=segmented_fusion or of
    python_definition_segments: the expressions of the segment, with inputs of its shapes, strides and types.
    """
    if not source.exists():
        raise SourceError(f"{source} does not exist.", "give a log, a folder of logs, or a recording", "missing")
    material = gather(source)
    for problem in material.problems:
        warn(problem)
    repro = _of_segment(material, segment, source) if segment is not None else _whole(material, source)
    wrong = check(repro.text)
    if wrong:
        raise SourceError(
            f"The script ({repro.what}) is not valid Python: {wrong}.",
            "it was truncated or mixed with other output",
            "cut",
        )
    for note in repro.notes:
        warn(note)
    if output is not None or not run_it:
        write(repro.text.rstrip("\n"), output)
    click.echo(f"livedbg: {repro.what}{f', written to {output}' if output is not None else ''}", err=True)
    return _run(repro, output, python or material.python, timeout) if run_it else 0


def _whole(material: Material, source: Path) -> _Repro:
    """Return the original script, or else one for the first failed segment."""
    failed = material.failed_groups()
    errors = [part for found in material.errors for part in parts_of(found.failure)]
    if not material.scripts:
        if failed and material.cut_with(failed[0]) is not None:
            return _of_segment(material, failed[0], source)
        raise SourceError(
            f"{source} contains no reproduction script and no dump of a failed segment.",
            "call print(fd.repro_script_for(inputs)) where the error is caught, or "
            "livedbg launch --recipe nvfuser-dump=segmented_fusion -- CMD",
            "no-script",
        )
    cut = next((found.cut for found in material.errors if found.cut is not None), None)
    script, where = material.scripts[-1]
    if cut is not None and cut.script is not None:
        script, where = next(((s, w) for s, w in material.scripts if s is cut.script), (script, where))
    repro = _Repro(script.text, f"the script of {where} ({script.generation})", errors=errors)
    if not script.complete:
        repro.notes.append("the script is incomplete: it creates no inputs, or was truncated")
    for group in failed:
        if material.cut_with(group) is not None:
            repro.notes.append(f"group {group} failed; --segment {group} reduces the script to it")
    return repro


def _of_segment(material: Material, number: int, source: Path) -> _Repro:
    cut = material.cut_with(number)
    if cut is None and number in material.definitions:
        group = Group(number, "scheduler unknown")
        script = material.scripts[-1][0] if material.scripts else None
        cut = Cut(SegmentedFusion({number: group}), source.name, script=script, definitions=material.definitions)
    if cut is None or number not in cut.fusion.groups:
        there = ", ".join(str(n) for one in material.cuts[-1:] for n in sorted(one.fusion.groups) if n >= 0)
        raise SourceError(
            f"{source} contains no dump of segmentation group {number}" + (f", only of {there}." if there else "."),
            "livedbg launch --recipe nvfuser-dump=segmented_fusion -- CMD   writes one",
            "no-segment",
        )
    built = build_segment(cut, number)
    if built.uncovered:
        raise SourceError(
            f"No script can be built for group {number}: {built.uncovered} is not supported.",
            "use the whole script (without --segment), or write that expression by hand",
            "uncovered",
        )
    parts = [part for found in material.errors for part in parts_of(found.failure)]
    errors = [part for part in parts if part.group == number] or [part for part in parts if part.group is None]
    scheduler = cut.fusion.groups[number].scheduler
    kind = "printed definition" if number in cut.definitions else "expressions"
    return _Repro(built.text, f"group {number} ({scheduler}) from its {kind} at {cut.where}", built.notes, errors)


def _run(repro: _Repro, output: Path | None, python: str | None, timeout_s: float) -> int:
    chosen = python or shutil.which("python3") or "python3"
    if not python:
        warn(f"it is unknown which Python has nvFuser; using {chosen}", "--python EXE")
    with tempfile.TemporaryDirectory(prefix="livedbg-repro-") as folder:
        script = output or Path(folder, "repro.py")
        if output is None:
            script.write_text(repro.text, encoding="utf-8")
        rerun = run_script(script, chosen, timeout_s)
    result, sentence = compare(repro.errors, rerun, timeout_s)
    click.echo(sentence)
    if result == "different":
        warn("check that this is the Python of the job, on a machine with the same GPU", "--python EXE")
    return {"passed": 0, "limit": TIME_LIMIT}.get(result, _FAILS)
