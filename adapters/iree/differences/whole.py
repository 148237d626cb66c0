"""The whole comparison: compile both sides, run both, find the first dispatch that differs, and run it alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field, structs

from livedbg.adapters.iree.differences.alone import Alone, isolate
from livedbg.adapters.iree.differences.dispatch_calls import Both, calls_of_both
from livedbg.adapters.iree.differences.first import CallDifference, Compared, differing_runs, small_differences
from livedbg.adapters.iree.differences.side import TRACE, Side, target_flags
from livedbg.adapters.iree.differences.toolchain import compile_module, hardware_of
from livedbg.adapters.iree.differences.trace import Trace, run_module
from livedbg.values.compare import Tolerance


class Request(Struct, frozen=True):
    """What to compare.

    Attributes:
        module: `.mlir` source, or a compiled `.vmfb` that was compiled with TRACE.
        function: of it.
        inputs: as `iree-run-module` takes them; none for random ones.
        sides: two; equal ones are the search for what is not deterministic.
        runs: how often each side runs the function.
        tolerance: what may differ.
        folder: for everything that is made.
        limit_s: for each compilation and each run.
        reduce: also run the first dispatch that differs alone.
        still_s: a run in which no dispatch begins or returns for so long is ended.
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


class Whole(Struct):
    """What was found.

    Attributes:
        request: what was compared.
        traces: of both sides.
        compared: the pair of runs that differ, else the first runs.
        program: the calls of both sides; empty for a compiled module.
        exact: where the first that differs has inputs that differ too, within the tolerance: the dispatch before it
            that made other bits of equal ones.
        alone: the first dispatch that differs, by itself; None if that was not tried.
    """

    request: Request
    traces: tuple[Trace, Trace]
    compared: Compared
    program: Both = field(default_factory=Both)
    exact: CallDifference | None = None
    alone: Alone | None = None

    @property
    def failed(self) -> list[tuple[Side, Trace]]:
        """The sides whose run did not end well."""
        return [(side, t) for side, t in zip(self.request.sides, self.traces, strict=True) if t.failure]


def compare_sides(request: Request, step: Callable[[str], None]) -> Whole:
    """Compare two sides.

    Args:
        request: what.
        step: called with a sentence at the beginning of each step.

    Raises:
        SourceError: a side does not compile, or has no device.
    """
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
        traces.append(
            run_module(
                side,
                module,
                folder,
                request.function,
                inputs,
                runs=request.runs,
                limit_s=request.limit_s,
                still_s=request.still_s,
            )
        )
    pair = (traces[0], traces[1])
    program = calls_of_both((sides[0].python, sides[1].python), (flows[0], flows[1])) if flows else Both()
    compared = differing_runs(*pair, request.tolerance, request.runs, program.mates)
    whole = Whole(request, pair, compared, program)
    first = compared.first
    whole.exact = small_differences(*pair, first, request.runs, program.mates)
    if request.reduce and first is not None and flows:
        step(f"running {first.name.split('::')[0]} alone on both sides")
        whole.alone = isolate(
            first,
            sides=request.sides,
            flows=(flows[0], flows[1]),
            expected=traces[1],
            folder=request.folder / "alone",
            tolerance=request.tolerance,
            runs=request.runs,
            limit_s=request.limit_s,
        )
    return whole


def _same_inputs(traces: Sequence[Trace]) -> tuple[str, ...]:
    """What the first side made, so that the other gets the same."""
    return tuple(f"@{traces[0].folder / one.file}" for one in traces[0].inputs) if traces else ()
