"""The readers of files that systems declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livedbg.session.systems import declared
from livedbg.values.readers import Readers

if TYPE_CHECKING:
    from livedbg.graphs.readers import GraphReader

__all__ = ["dump_readers", "graph_readers"]


def dump_readers() -> Readers:
    """The readers of dumped tensors of all systems."""
    return Readers(tuple(reader for _, readers in declared(lambda system: system.dump_readers) for reader in readers))


def graph_readers() -> tuple[GraphReader, ...]:
    """The readers of task graphs of all systems."""
    return tuple(reader for _, readers in declared(lambda system: system.graph_readers) for reader in readers)
