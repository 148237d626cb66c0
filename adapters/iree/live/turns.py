"""Which dispatch of an operation has run since when, where workgroups are not counted: by the stacks that found it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from msgspec import Struct

from livedbg.adapters.iree.live.running import OnStack

__all__ = ["Turn", "Turns"]


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
        self._known: dict[Hashable, Turn] = {}

    def keep(self, operations: Collection[Hashable]) -> None:
        """Forget those that are no more."""
        self._known = {at: turn for at, turn in self._known.items() if at in operations}

    def seen(self, operation: Hashable, index: int, name: str, running: Sequence[OnStack], since_ns: int) -> Turn:
        """An operation runs one of its commands.

        Args:
            operation: what tells it from others.
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
