"""IREE's dispatch graph: the DOT file that `--iree-flow-dump-dispatch-graph` writes.

    v9 [shape = box, label = "%3 = flow.dispatch[]\\n@EXECUTABLE::@FUNCTION(%0, %2)\\n…\\ntensor<16x32xf32>"];
    v6 -> v9 [style = solid, label = "0"];

Nodes that are no dispatch (arguments, imports, exports, slices) stand between dispatches: what depends on one depends
on the dispatches before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from livedbg.graphs.declared import DeclaredTask, Dependency, TaskGraph
from livedbg.graphs.readers import GraphReader
from livedbg.graphs.terms import Terms
from livedbg.linux import target_files
from livedbg.model.errors import SourceError
from livedbg.text.sanitize import clean_line

_NODE: Final = re.compile(r"^\s*v(\d+) \[.*?label = \"(.*)\"")
_DISPATCH: Final = re.compile(r"flow\.dispatch.{0,400}?@[^:\s@]{1,400}::@([^(\s\\\"]{1,400})")
_EDGE: Final = re.compile(r"^\s*v(\d+) -> v(\d+) \[")
_MOST: Final = 64 << 20


class DispatchGraphReader:
    """Reads the dispatch graph of a module."""

    names: Sequence[str] = ("dispatches.dot", "dispatch.dot", "dispatch_graph.dot")

    def read(self, path: Path) -> TaskGraph:
        """The graph of a file."""
        functions, edges = _read(path)
        kernels = {name: number for number, name in enumerate(dict.fromkeys(functions.values()))}
        tasks = [DeclaredTask(task_id=node, kernel_ids=(kernels[name],)) for node, name in functions.items()]
        return TaskGraph.of(tasks, _dependencies(functions, edges))

    def task_name(self, raw: int) -> str:
        """The name of a node in the file."""
        return f"v{raw}"

    def terms(self, path: Path) -> Terms:
        """The words in which the graph of a file is described."""
        names = dict(enumerate(dict.fromkeys(_read(path)[0].values())))
        return Terms(kernels=names, task_name=self.task_name)


def _read(path: Path) -> tuple[dict[int, str], dict[int, list[int]]]:
    """The dispatches by node, and for each node those that it needs."""
    functions: dict[int, str] = {}
    needs: dict[int, list[int]] = {}
    try:
        with target_files.open_binary(path) as file:
            text = file.read(_MOST).decode("utf-8", "replace")
    except OSError as error:
        raise SourceError(f"{path.name} can't be read: {error.strerror}.", "", "no-graph") from None
    for line in text.splitlines():
        edge = _EDGE.match(line)
        if edge is not None:
            needs.setdefault(int(edge[2]), []).append(int(edge[1]))
        elif (node := _NODE.match(line)) is not None and (found := _DISPATCH.search(node[2])) is not None:
            functions[int(node[1])] = clean_line(found[1])
    if not functions:
        raise SourceError(f"{path.name} has no dispatch.", "compile with --iree-flow-dump-dispatch-graph", "no-graph")
    return functions, needs


def _dependencies(functions: dict[int, str], needs: dict[int, list[int]]) -> Iterator[Dependency]:
    for node in functions:
        todo, seen = list(needs.get(node, ())), set[int]()
        while todo:
            other = todo.pop()
            if other in seen:
                continue
            seen.add(other)
            if other in functions:
                yield Dependency(pred=other, succ=node, source="operand")
            else:
                todo += needs.get(other, ())


READERS: Final[tuple[GraphReader, ...]] = (DispatchGraphReader(),)
