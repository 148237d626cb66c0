"""A log that several chip processes share, while each of these is read from its own memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from livedbg.adapters.ascend.live.state import LiveTask
from livedbg.adapters.ascend.live.view import LiveView
from livedbg.adapters.ascend.waits import Suspicion
from livedbg.model import Diagnostic, Edge, EdgeKey

__all__ = ["SharedLog"]


class SharedLog(LiveView):
    """Stands for memory in the job of such a log: who holds a run up is said for each chip, not guessed from the log,
    where equal task ids can't be told apart."""

    @property
    def speaks(self) -> bool:
        """The chips are read."""
        return True

    @property
    def tasks(self) -> Mapping[int, LiveTask]:
        """None of its own."""
        return {}

    def suspicion(self) -> Suspicion:
        """Nobody."""
        return Suspicion((), True, "its chips are read one by one")

    def edges(self) -> tuple[Iterable[Edge], Iterable[EdgeKey]]:
        """None of its own."""
        return (), ()

    def queues(self) -> tuple[Iterable[Edge], Iterable[EdgeKey]]:
        """None of its own."""
        return (), ()

    def statements(self) -> Iterator[Diagnostic]:
        """Nothing of its own."""
        return iter(())
