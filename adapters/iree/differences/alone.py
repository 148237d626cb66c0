"""One dispatch by itself: a module that makes this call only, compiled and run on both sides with the saved inputs."""

from __future__ import annotations

import math
from pathlib import Path

from msgspec import Struct

from livedbg.adapters.iree.differences.extracted import by_hand, compile_alone, extract, save_inputs, words_for
from livedbg.adapters.iree.differences.first import CallDifference, differing_runs
from livedbg.adapters.iree.differences.side import Side
from livedbg.adapters.iree.differences.trace import Trace, run_module
from livedbg.model.errors import SourceError
from livedbg.values.compare import Difference, Tolerance


class Alone(Struct):
    """What the dispatch does by itself.

    Attributes:
        differs: None if it could not be run alone.
        reason: why not.
        outputs: how its outputs differ.
        modules: the `.mlir` of each side.
        folder: of these, and of the inputs.
        commands: what compiles and runs them by hand, in the folder.
        runs: how often each side made the call.
    """

    differs: bool | None = None
    reason: str = ""
    outputs: tuple[Difference | None, ...] = ()
    modules: tuple[Path, ...] = ()
    folder: Path = Path()
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
    inputs = save_inputs(expected, culprit.calls[1], folder)
    traces: list[Trace] = []
    modules: list[Path] = []
    commands: list[str] = []
    for side, flow, call in zip(sides, flows, culprit.calls, strict=True):
        source = folder / f"alone-{side.name}.mlir"
        reason = extract(side, flow, call.name, source)
        if reason:
            return Alone(reason=reason)
        try:
            binary = compile_alone(side, source, limit_s)
        except SourceError as error:
            return Alone(reason=f"it does not compile alone on side {side.name}: {error}")
        words, made_in = words_for(inputs, folder), folder / side.name
        trace = run_module(side, binary, made_in, "main", words, runs=runs, limit_s=limit_s, still_s=still_s)
        if trace.failure:
            return Alone(reason=f"alone it fails on side {side.name}: {trace.failure}", modules=tuple(modules))
        traces.append(trace)
        modules.append(source)
        commands += by_hand(side, source, inputs)
    found = differing_runs(traces[0], traces[1], tolerance, runs)
    known = all(one is not None for one in found.results)
    return Alone(
        differs=any(one is not None and one.differs for one in found.results) if known and found.results else None,
        reason="" if known and found.results else "the values of its outputs could not be read",
        outputs=tuple(found.results),
        modules=tuple(modules),
        folder=folder,
        commands=tuple(commands),
        runs=runs,
    )
