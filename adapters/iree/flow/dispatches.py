"""The dispatches of the module in the order of its program, with the source lines that they come from."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from livedbg.adapters.iree.differences.dispatch_calls import calls_in, place_of
from livedbg.adapters.iree.differences.side import Side
from livedbg.adapters.iree.differences.toolchain import compile_module
from livedbg.adapters.iree.flow.ground import COMPILE_S, Ground


class Dispatch(Struct, frozen=True):
    """One call in the program.

    Attributes:
        name: `EXECUTABLE::FUNCTION`.
        place: `linalg.matmul at m.mlir:12`, or "".
        reason: why it can't stand alone, or "".
    """

    name: str
    place: str = ""
    reason: str = ""


class Dispatches(Struct, frozen=True):
    """The calls of a function.

    Attributes:
        flow: the module's text in the flow phase.
        function: that makes them: torch's functions have their code in `NAME$async`.
    """

    flow: Path
    function: str = ""
    calls: tuple[Dispatch, ...] = ()

    def shown(self, name: str) -> str:
        """A dispatch with its source."""
        found = next((one for one in self.calls if one.name == name and one.place), None)
        short = name.split("::", maxsplit=1)[0]
        return f"{short} ({found.place})" if found is not None else short

    def position(self, name: str) -> int | None:
        """The number of its call in the function, as the compiler counts; None if it is called in several places."""
        found = [at for at, one in enumerate(self.calls) if one.name == name]
        return found[0] if len(found) == 1 else None


def make_flow(ground: Ground, side: Side, function: str) -> Dispatches:
    """Compile the source up to the flow phase, and read its dispatches.

    Raises:
        SourceError: it does not compile.
    """
    flow = ground.folder / f"{side.name}.flow.mlir"
    if not flow.exists():
        command = [side.compiler, str(ground.source), *side.flags]
        compile_module([*command, "--compile-to=flow", "--mlir-print-debuginfo", "-o", str(flow)], COMPILE_S)
    found = calls_in(side.python, flow)
    made_by = {one.function for one in found}
    function = function if function in made_by or f"{function}$async" not in made_by else f"{function}$async"
    calls = [Dispatch(one.call, place_of(one.operations), one.reason) for one in found if one.function == function]
    return Dispatches(flow, function, tuple(calls))
