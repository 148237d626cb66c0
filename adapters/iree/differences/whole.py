"""The whole comparison: compile and run both sides, find the first dispatch that differs, and run it alone.

To run a dispatch alone, a module with only that call is compiled and run on both sides with the saved inputs.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct, field, structs

from livedbg.adapters.iree.differences.first import CallDifference, Compared, differing_runs, small_differences
from livedbg.adapters.iree.differences.toolchain import (
    TRACE,
    Both,
    Side,
    calls_in,
    calls_of_both,
    compile_module,
    hardware_of,
    read_flow,
    target_flags,
)
from livedbg.adapters.iree.differences.trace import Call, Trace, run_module
from livedbg.model.errors import SourceError
from livedbg.text.shell import shell_word
from livedbg.values.compare import Difference, Tolerance

_BITS: Final = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
}
"""Types that numpy's files have not: they are saved as their bits, and IREE takes them as raw values."""


def extract(side: Side, flow: Path, call: str, source: Path) -> str:
    """Write a module with one call of a dispatch; return why that failed, or "".

    Args:
        side: its Python has IREE's parser.
        flow: the whole module in the flow phase.
        call: `EXECUTABLE::FUNCTION`.
        source: the file to write.
    """
    read_flow(side.python, flow, (call, source))
    if source.exists():
        return ""
    reasons = [one.reason for one in calls_in(side.python, flow) if one.call == call]
    return next(filter(None, reasons), "IREE's parser did not find the call")


def _command(side: Side, source: Path) -> list[str]:
    flags = [flag for flag in side.flags if flag != TRACE]
    return [side.compiler, "--compile-from=flow", str(source), "-o", str(source.with_suffix(".vmfb")), *flags]


def compile_alone(side: Side, source: Path, limit_s: float) -> Path:
    """Compile such a module; raise SourceError on failure."""
    compile_module(_command(side, source), limit_s)
    return source.with_suffix(".vmfb")


def save_inputs(trace: Trace, call: Call, folder: Path) -> tuple[str, ...]:
    """Copy the inputs of a call into a folder; return them as words of `--input`, relative to it."""
    words = []
    for number, saved in enumerate(call.inputs):
        kind, name = _BITS.get(saved.type), f"input{number}"
        if kind is None:
            shutil.copyfile(trace.folder / saved.file, folder / f"{name}.npy")
            words.append(f"@{name}.npy")
        else:
            np.load(trace.folder / saved.file, allow_pickle=False).tofile(folder / f"{name}.bin")
            words.append(f"{''.join(f'{size}x' for size in saved.shape)}{kind}=@{name}.bin")
    return tuple(words)


def words_for(inputs: tuple[str, ...], folder: Path) -> list[str]:
    """Return the same inputs with absolute paths."""
    return [word.replace("@", f"@{folder}/", 1) for word in inputs]


def by_hand(side: Side, source: Path, inputs: tuple[str, ...]) -> tuple[str, str]:
    """Return the commands that compile and run such a module, in its folder."""
    run = ["iree-run-module", f"--module={source.stem}.vmfb", f"--device={side.device}", "--function=main"]
    run += [f"--input={word}" for word in inputs]
    compiling = _command(side, Path(source.name))
    return " ".join(map(shell_word, compiling)), " ".join(map(shell_word, run))


class Alone(Struct):
    """Result of the dispatch run alone.

    Attributes:
        differs: None if it could not be run alone.
        reason: why not.
        outputs: how its outputs differ.
        folder: of the modules and the inputs.
        commands: compile and run them by hand, in the folder.
        runs: how often each side made the call.
    """

    differs: bool | None = None
    reason: str = ""
    outputs: tuple[Difference | None, ...] = ()
    folder: Path = Path()
    commands: tuple[str, ...] = ()
    runs: int = 1


def isolate(culprit: CallDifference, request: Request, flows: tuple[Path, Path], expected: Trace) -> Alone:
    """Run a dispatch alone on both sides of a request, with its inputs from the second side.

    Args:
        flows: the modules of both sides in the flow phase.
        expected: the second side's trace, with the inputs.
    """
    folder = request.folder / "alone"
    folder.mkdir(parents=True)
    if culprit.calls is None or any(not saved.file for saved in culprit.calls[1].inputs):
        return Alone(reason="the values of its inputs could not be read")
    inputs = save_inputs(expected, culprit.calls[1], folder)
    traces: list[Trace] = []
    commands: list[str] = []
    for side, flow, call in zip(request.sides, flows, culprit.calls, strict=True):
        source = folder / f"alone-{side.name}.mlir"
        reason = extract(side, flow, call.name, source)
        if reason:
            return Alone(reason=reason)
        try:
            binary = compile_alone(side, source, request.limit_s)
        except SourceError as error:
            return Alone(reason=f"it does not compile alone on side {side.name}: {error}")
        trace = request.run(side, binary, folder / side.name, words_for(inputs, folder), "main")
        if trace.failure:
            return Alone(reason=f"alone it fails on side {side.name}: {trace.failure}")
        traces.append(trace)
        commands += by_hand(side, source, inputs)
    found = differing_runs(traces[0], traces[1], request.tolerance, request.runs)
    known = bool(found.results) and all(one is not None for one in found.results)
    return Alone(
        differs=any(one is not None and one.differs for one in found.results) if known else None,
        reason="" if known else "the values of its outputs could not be read",
        outputs=tuple(found.results),
        folder=folder,
        commands=tuple(commands),
        runs=request.runs,
    )


class Request(Struct, frozen=True):
    """A request for a comparison.

    Attributes:
        module: `.mlir` source, or a `.vmfb` compiled with TRACE.
        inputs: as for `iree-run-module`; none for random ones.
        sides: two; equal ones search for nondeterminism.
        runs: how often each side runs the function.
        folder: for all files.
        limit_s: for each compilation and each run.
        reduce: also run the first dispatch that differs alone.
        still_s: time limit of a run without a dispatch beginning or returning.
    """

    module: Path
    function: str
    inputs: tuple[str, ...]
    sides: tuple[Side, Side]
    runs: int
    tolerance: Tolerance
    folder: Path
    limit_s: float
    reduce: bool = True
    still_s: float = math.inf

    def run(self, side: Side, module: Path, folder: Path, inputs: Sequence[str], function: str = "") -> Trace:
        """Run a compiled module on a side; by default the function of the request."""
        return run_module(
            side,
            module,
            folder,
            function or self.function,
            inputs,
            runs=self.runs,
            limit_s=self.limit_s,
            still_s=self.still_s,
        )


class Whole(Struct):
    """Result of a comparison.

    Attributes:
        compared: the pair of runs that differ, else the first runs.
        program: the calls of both sides; empty for a compiled module.
        exact: the earlier dispatch that made different bits from equal ones, if the first that differs has inputs that
            differ within the tolerance.
        alone: the first dispatch that differs, run alone; None if not tried.
    """

    request: Request
    traces: tuple[Trace, Trace]
    compared: Compared
    program: Both = field(default_factory=Both)
    exact: CallDifference | None = None
    alone: Alone | None = None

    @property
    def failed(self) -> list[tuple[Side, Trace]]:
        """Return the sides whose run failed."""
        return [(side, t) for side, t in zip(self.request.sides, self.traces, strict=True) if t.failure]


def compare_sides(request: Request, step: Callable[[str], None]) -> Whole:
    """Compare two sides; `step` gets a sentence before each step; raise SourceError if one does not compile."""
    compiled = request.module.suffix == ".vmfb"
    modules: list[Path] = []
    flows: list[Path] = []
    sides: list[Side] = []
    for side in request.sides:
        if compiled:
            modules.append(request.module)
            sides.append(side)
            continue
        step(f"compiling for side {side.name}")
        targets = target_flags(side.device, hardware_of(side.python, side.device), side.flags)
        complete = structs.replace(side, flags=(*targets, *side.flags))
        binary, flow = request.folder / f"{side.name}.vmfb", request.folder / f"{side.name}.flow.mlir"
        command = [side.compiler, str(request.module), *complete.flags]
        compile_module([*command, TRACE, "-o", str(binary)], request.limit_s)
        compile_module([*command, "--compile-to=flow", "--mlir-print-debuginfo", "-o", str(flow)], request.limit_s)
        modules.append(binary)
        flows.append(flow)
        sides.append(side)
    traces: list[Trace] = []
    for side, module in zip(sides, modules, strict=True):
        step(f"running side {side.name} on {side.device}")
        folder = request.folder / f"{side.name}.trace"
        inputs = request.inputs or _same_inputs(traces)
        traces.append(request.run(side, module, folder, inputs))
    pair = (traces[0], traces[1])
    program = calls_of_both((sides[0].python, sides[1].python), (flows[0], flows[1])) if flows else Both()
    compared = differing_runs(*pair, request.tolerance, request.runs, program.mates)
    whole = Whole(request, pair, compared, program)
    first = compared.first
    whole.exact = small_differences(*pair, first, request.runs, program.mates)
    if request.reduce and first is not None and flows:
        step(f"running {first.name.split('::')[0]} alone on both sides")
        whole.alone = isolate(first, request, (flows[0], flows[1]), traces[1])
    return whole


def _same_inputs(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Return the first side's inputs, so that the other gets the same."""
    return tuple(f"@{traces[0].folder / one.file}" for one in traces[0].inputs) if traces else ()
