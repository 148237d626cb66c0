"""The dispatches that a compiled module calls, in order: operations, source lines, what they compute.

Invariants:
    iree_calls.K1. Two dispatches are the same only if their code is, or if types, arithmetic and source places all are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from livedbg.adapters.iree.differences.toolchain import read_flow
from livedbg.text.typed import ready

_LINES: Final = 4


class Operation(Struct, frozen=True):
    """An operation of a dispatch, and where it is in the user's source."""

    name: str = ""
    file: str = ""
    line: int = 0
    column: int = 0


class DispatchCall(Struct, frozen=True):
    """One call of a dispatch in the program.

    Attributes:
        call: `EXECUTABLE::FUNCTION`.
        function: that makes the call; "" for an initializer.
        operations: that the dispatch is made of.
        reason: why it can't stand alone, or "".
        body: a digest of its code without names.
        made_of: its types, arithmetic and source places as text; "" where no place is known.
    """

    call: str = ""
    function: str = ""
    operations: tuple[Operation, ...] = ()
    reason: str = ""
    body: str = ""
    made_of: str = ""

    def same(self, other: DispatchCall) -> bool:
        """Whether both compute the same (K1)."""
        return bool(self.body) and (self.body == other.body or ("" != self.made_of == other.made_of))


def calls_in(python: str, flow: Path) -> list[DispatchCall]:
    """The calls of a module in the flow phase; none where IREE's parser is not there.

    Args:
        python: with `iree.compiler`.
        flow: the module's text.
    """
    decoder = msgspec.json.Decoder(ready(DispatchCall))
    return [decoder.decode(line) for line in read_flow(python, flow)]


def place_of(operations: Sequence[Operation], *, full: bool = False) -> str:
    """`linalg.generic at m.mlir:14, :20`: the first operation, and the lines of all that were fused; "" if unknown.

    Args:
        operations: of a dispatch.
        full: with the file's whole path.
    """
    placed = [one for one in operations if one.file]
    if not placed:
        return ""
    first = placed[0]
    lines = dict.fromkeys(one.line for one in placed[1:] if one.file == first.file and one.line != first.line)
    more = "".join(f", :{line}" for line in [*lines][:_LINES])
    return f"{first.name} at {first.file if full else Path(first.file).name}:{first.line}{more}"


class Both(Struct, frozen=True):
    """The calls of two sides.

    Attributes:
        sides: the calls of each.
        mates: see counterparts; None if a side's could not be read, or the sides are of one module: then equal names
            are all that is known.
    """

    sides: tuple[tuple[DispatchCall, ...], tuple[DispatchCall, ...]] = ((), ())
    mates: Mapping[str, str] | None = None

    @property
    def known(self) -> bool:
        """Whether both sides could be read."""
        return all(self.sides)

    def operations(self, name: str, side: int = 0) -> tuple[Operation, ...]:
        """What a dispatch of a side is made of."""
        return next((one.operations for one in self.sides[side] if one.call == name), ())


def calls_of_both(pythons: tuple[str, str], flows: tuple[Path, Path]) -> Both:
    """Read the modules of two sides in the flow phase; only one where they are equal.

    Args:
        pythons: with `iree.compiler`, of each side.
        flows: the modules' texts.
    """
    one = tuple(calls_in(pythons[0], flows[0]))
    same = flows[0].read_bytes() == flows[1].read_bytes()
    other = one if same else tuple(calls_in(pythons[1], flows[1]))
    return Both((one, other), counterparts(one, other) if one and other else None)


def counterparts(one: Sequence[DispatchCall], other: Sequence[DispatchCall]) -> Mapping[str, str]:
    """For each dispatch of a side the one of the other that computes the same, by name; none is there twice."""
    here, there = {call.call: call for call in one}, {call.call: call for call in other}
    found = {name: name for name, call in here.items() if name in there and call.same(there[name])}
    left = [call for name, call in there.items() if name not in found]
    for name, call in here.items():
        mate = None if name in found else next((each for each in left if call.same(each)), None)
        if mate is not None:
            found[name] = mate.call
            left.remove(mate)
    return found
