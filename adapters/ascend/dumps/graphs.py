"""Ascend's reader of task graphs: `deps.json`, and the kernels' names from `name_map*.json` beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from livedbg.adapters.ascend.dumps.depsfile import read_graph
from livedbg.adapters.ascend.dumps.terms import terms_beside
from livedbg.adapters.ascend.names import task_name
from livedbg.graphs.declared import TaskGraph
from livedbg.graphs.readers import GraphReader
from livedbg.graphs.terms import Terms

__all__ = ["READERS", "DepsReader"]


class DepsReader:
    """Reads `deps.json`."""

    names: Sequence[str] = ("deps.json",)

    def read(self, path: Path) -> TaskGraph:
        """The graph of a file, or what is there of it."""
        return read_graph(path)

    def task_name(self, raw: int) -> str:
        """The name of a task: `r1t2`."""
        return task_name(raw)

    def terms(self, path: Path) -> Terms:
        """The words in which the graph of a file is described."""
        return terms_beside(path)


READERS: Final[tuple[GraphReader, ...]] = (DepsReader(),)
