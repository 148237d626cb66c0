"""Which dispatch of an operation has run since when, where workgroups are not counted: by the stacks that found it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from msgspec import Struct

from livedbg.adapters.iree.live.running import OnStack

__all__ = ["Turn", "Turns"]

Operation: TypeAlias = tuple[int, int]


class Turn(Struct, frozen=True):
    """The dispatch that runs.

    Attributes:
        since_ns: CLOCK_MONOTONIC of the first stack since which no other one was seen.
        before: name of the one that was seen before it; "" if none was.
    """

    index: int
    name: str
    since_ns: int
    before: str = ""


class Turns:
    """The operations of one process."""

    def __init__(self) -> None:
        self._known: dict[Operation, Turn] = {}

    def keep(self, operations: Collection[Operation]) -> None:
        """Forget those that are no more."""
        self._known = {at: turn for at, turn in self._known.items() if at in operations}

    def seen(self, operation: Operation, index: int, name: str, running: Sequence[OnStack], since_ns: int) -> Turn:
        """An operation runs one of its commands.

        Args:
            operation: its address and when it was first seen.
            index: number of the command.
            name: of its dispatch.
            running: the stacks that say so; none where it is the only command.
            since_ns: the first look at the operation.
        """
        turn = self._known.get(operation)
        if turn is None or turn.index != index:
            begun_ns = max(since_ns, min((on.taken_mono_ns for on in running), default=since_ns))
            before = turn.name if turn is not None else next((on.before for on in running if on.before), "")
            turn = self._known[operation] = Turn(index, name, begun_ns, before)
        return turn
