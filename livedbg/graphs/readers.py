"""How the files of a system become task graphs: the contract of a reader, and the search for its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from livedbg.graphs.declared import TaskGraph
from livedbg.graphs.terms import Terms
from livedbg.linux import target_files

_DEPTH: Final = 6  # folders below a given one that are searched
_ENTRIES: Final = 20_000  # directory entries that one search may visit


class GraphReader(Protocol):
    """Reads the task graphs that one system writes."""

    @property
    def names(self) -> Sequence[str]:
        """Names of its files."""

    def read(self, path: Path) -> TaskGraph:
        """The graph of a file, or what is there of it: then its `cut` says what is missing.

        Raises:
            SourceError: it can't be read, or holds no task (code `no-graph`).
        """

    def task_name(self, raw: int) -> str:
        """The name of a task by its 64-bit id."""

    def terms(self, path: Path) -> Terms:
        """The words in which the graph of a file is described."""


def graph_files(folder: Path, readers: Iterable[GraphReader]) -> Iterator[tuple[Path, GraphReader]]:
    """The graphs in a folder and below it, by path."""
    known = [(name, reader) for reader in readers for name in reader.names]
    visited = 0
    for root, directories, files in target_files.walk(folder):
        deep = len(Path(root).relative_to(folder).parts) >= _DEPTH
        directories[:] = [] if deep else sorted(name for name in directories if not name.startswith("."))
        visited += len(directories) + len(files)
        if visited > _ENTRIES:
            return
        yield from ((Path(root, name), reader) for name, reader in known if name in files)


def reader_of(path: Path, readers: Iterable[GraphReader]) -> GraphReader | None:
    """The reader whose files have this name."""
    return next((reader for reader in readers if path.name in reader.names), None)
