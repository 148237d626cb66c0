"""The readers of files that systems declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livedbg.session.systems import declared

if TYPE_CHECKING:
    from livedbg.graphs.readers import GraphReader

__all__ = ["graph_readers"]


def graph_readers() -> tuple[GraphReader, ...]:
    """The readers of task graphs of all systems."""
    return tuple(reader for _, readers in declared(lambda system: system.graph_readers) for reader in readers)
