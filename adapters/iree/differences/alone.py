"""One dispatch by itself: a module that makes this call only, compiled and run on both sides with the saved inputs."""

from __future__ import annotations

import math
from pathlib import Path

from msgspec import Struct

from livedbg.adapters.iree.differences.dispatch_calls import calls_in
from livedbg.adapters.iree.differences.first import CallDifference, differing_runs
from livedbg.adapters.iree.differences.side import TRACE, Side
from livedbg.adapters.iree.differences.toolchain import compile_module, read_flow
from livedbg.adapters.iree.differences.trace import Trace, run_module
from livedbg.model.errors import SourceError
from livedbg.values.compare import Difference, Tolerance

__all__ = ["Alone", "isolate"]


class Alone(Struct):
    """What the dispatch does by itself.

    Attributes:
        differs: None if it could not be run alone.
        reason: why not.
        outputs: how its outputs differ.
        modules: the `.mlir` of each side.
        commands: what compiles and runs them by hand.
        runs: how often each side made the call.
    """

    differs: bool | None = None
    reason: str = ""
    outputs: tuple[Difference | None, ...] = ()
    modules: tuple[Path, ...] = ()
    commands: tuple[str, ...] = ()
    runs: int = 1


def isolate(
    culprit: CallDifference,
    *,
    sides: tuple[Side, Side],
    flows: tuple[Path, Path],
    expected: Trace,
    folder: Path,
    tolerance: Tolerance,
    runs: int,
    limit_s: float,
    still_s: float = math.inf,
) -> Alone:
    """Run a dispatch alone on both sides, with the inputs that it had on the second.

    Args:
        culprit: the dispatch.
        sides: how to compile and run.
        flows: the modules of both sides in the flow phase.
        expected: the second side's trace, whose inputs are taken.
        folder: for the modules; made here.
        tolerance: as for the whole.
        runs: how often each side makes the call.
        limit_s: for each step.
        still_s: as for the whole.
    """
    folder.mkdir(parents=True)
    if culprit.calls is None or any(not saved.file for saved in culprit.calls[1].inputs):
        return Alone(reason="the values of its inputs could not be read")
    inputs = [f"@{expected.folder / saved.file}" for saved in culprit.calls[1].inputs]
    traces: list[Trace] = []
    modules: list[Path] = []
    commands: list[str] = []
    for side, flow, call in zip(sides, flows, culprit.calls, strict=True):
        source = folder / f"alone-{side.name}.mlir"
        read_flow(side.python, flow, (call.name, source))
        if not source.exists():
            reasons = [one.reason for one in calls_in(side.python, flow) if one.call == call.name]
            return Alone(reason=next(filter(None, reasons), "IREE's parser did not find the call"))
        binary = source.with_suffix(".vmfb")
        command = [side.compiler, "--compile-from=flow", str(source), "-o", str(binary), *side.flags]
        try:
            compile_module([one for one in command if one != TRACE], limit_s)
        except SourceError as error:
            return Alone(reason=f"it does not compile alone on side {side.name}: {error}")
        made_in = folder / side.name
        trace = run_module(side, binary, made_in, "main", inputs, runs=runs, limit_s=limit_s, still_s=still_s)
        if trace.failure:
            return Alone(reason=f"alone it fails on side {side.name}: {trace.failure}", modules=tuple(modules))
        traces.append(trace)
        modules.append(source)
        given = " ".join(f"--input={one}" for one in inputs)
        commands += [
            f"{' '.join(command)}",
            f"iree-run-module --module={binary} --device={side.device} --function=main {given}",
        ]
    found = differing_runs(traces[0], traces[1], tolerance, runs)
    known = all(one is not None for one in found.results)
    return Alone(
        differs=any(one is not None and one.differs for one in found.results) if known and found.results else None,
        reason="" if known and found.results else "the values of its outputs could not be read",
        outputs=tuple(found.results),
        modules=tuple(modules),
        commands=tuple(commands),
        runs=runs,
    )
