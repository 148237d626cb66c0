r"""The dispatch graph and dumped sources next to a session's logs; used to find what waits for a running dispatch.

The compiler writes the graph (`--iree-flow-dump-dispatch-graph`, recipe `iree-graph`) as `dispatches.dot`:

    v9 [shape = box, label = "%3 = flow.dispatch[]\n@EXECUTABLE::@FUNCTION(%0, %2)\n…\ntensor<16x32xf32>"];
    v6 -> v9 [style = solid, label = "0"];

Other nodes (arguments, imports, exports, slices) may be between dispatches: they pass dependencies on.

Dumped sources of dispatches (`--iree-hal-dump-executable-files-to`, recipe `iree-executables`) show the place of each,
and the backend that it was compiled for:

    hal.executable.variant public @embedded_elf_x86_64 target(<"llvm-cpu", "embedded-elf-x86_64", …
    hal.executable.export public @main_dispatch_1_reduction_16x32_f32 ordinal(0) …
      func.func @main_dispatch_1_reduction_16x32_f32() …

Invariants:
    iree_dispatch_graph.N1. A dispatch is joined to a node only if it is unambiguous: one node has its name, or the
        index of the call among those of its name is known.
    iree_dispatch_graph.E1. A name in two files is ignored: they are of two modules, or of two compilations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.adapters.iree.facts import iree_task
from livedbg.graphs.declared import DeclaredTask, Dependency, GraphReader, TaskGraph, Terms, graph_files
from livedbg.linux import target_files
from livedbg.linux.target_files import is_folder, is_regular
from livedbg.model import Edge, EdgeKind, Task, TaskState, ids
from livedbg.model.errors import SourceError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_NODE: Final = lazy_re(r"^\s*v(\d+) \[.*?label = \"(.*)\"")
_DISPATCH: Final = lazy_re(r"flow\.dispatch.{0,400}?@[^:\s@]{1,400}::@([^(\s\\\"]{1,400})")
_EDGE: Final = lazy_re(r"^\s*v(\d+) -> v(\d+) \[")
_LARGEST_GRAPH: Final = 64 << 20


class DispatchGraphReader:
    """Reads the dispatch graph of a module."""

    names: Sequence[str] = ("dispatches.dot", "dispatch.dot", "dispatch_graph.dot")

    def read(self, path: Path) -> TaskGraph:
        functions, edges = _read(path)
        kernels = {name: number for number, name in enumerate(dict.fromkeys(functions.values()))}
        tasks = [DeclaredTask(raw=node, kernels=(kernels[name],)) for node, name in functions.items()]
        return TaskGraph.of(tasks, _dependencies(functions, edges))

    def task_name(self, raw: int) -> str:
        """Return the name of a node in the file."""
        return f"v{raw}"

    def terms(self, path: Path) -> Terms:
        """Return the terms for describing a file's graph."""
        names = dict(enumerate(dict.fromkeys(_read(path)[0].values())))
        return Terms(kernels=names, task_name=self.task_name)


def _read(path: Path) -> tuple[dict[int, str], dict[int, list[int]]]:
    """Return the dispatches by node, and the needed nodes of each node."""
    functions: dict[int, str] = {}
    needs: dict[int, list[int]] = {}
    try:
        with target_files.open_binary(path) as file:
            text = file.read(_LARGEST_GRAPH).decode("utf-8", "replace")
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


_MOST: Final = 2000
_EVIDENCE: Final = "dispatches.dot: it takes the result as an operand"


class DispatchGraph(Struct, frozen=True):
    """A dispatch graph: each node's dispatch, in program order, and the nodes whose results it takes."""

    names: dict[int, str]
    needs: dict[int, frozenset[int]]

    def node(self, name: str, ordinal: int | None) -> int | None:
        """Return the node of the n-th call of a name, from 0; None if not known (N1)."""
        nodes = [node for node, one in self.names.items() if one == name]
        if len(nodes) == 1:
            return nodes[0]
        return nodes[ordinal % len(nodes)] if nodes and ordinal is not None else None

    def after(self, node: int) -> list[int]:
        """Return the nodes that need its result, directly or indirectly, in program order."""
        found = {node}
        for other in self.names:
            if self.needs.get(other, frozenset()) & found:
                found.add(other)
        return [one for one in self.names if one in found and one != node]


class Behind(NamedTuple):
    """The waiters of a running dispatch."""

    tasks: tuple[Task, ...] = ()
    edges: tuple[Edge, ...] = ()


def graph_beside(logs: Iterable[Path]) -> DispatchGraph | None:
    """Return the graph next to some logs, or in folders of logs, if there is exactly one."""
    files: set[Path] = set()
    for log in logs:
        if is_folder(log):
            files.update(path.absolute() for path, _ in graph_files(log, READERS))
        else:
            near = (log.with_name(name) for reader in READERS for name in reader.names)
            files.update(path.absolute() for path in near if is_regular(path))
    if len(files) != 1:
        return None
    reader, path = READERS[0], files.pop()
    try:
        graph, terms = reader.read(path), reader.terms(path)
    except SourceError:
        return None
    needs: dict[int, set[int]] = {}
    for dependency in graph.dependencies:
        needs.setdefault(dependency.succ, set()).add(dependency.pred)
    names = {node: terms.kernel(task) for node, task in graph.tasks.items()}
    return DispatchGraph(names, {node: frozenset(found) for node, found in needs.items()})


def behind(graph: DispatchGraph, running: Task, name: str, ordinal: int | None, known: Mapping[str, str]) -> Behind:
    """Return the waiters of a running dispatch.

    Args:
        running: its task.
        name: of the dispatch.
        ordinal: index among the calls of that name, from 0; None if not known.
        known: already queued tasks, by dispatch, for dispatches that are called once.
    """
    node = graph.node(name, ordinal)
    if node is None:
        return Behind()
    nodes = graph.after(node)[:_MOST]
    counts = list(graph.names.values())
    named = {node: running.id}
    tasks: list[Task] = []
    for one in nodes:
        dispatch = graph.names[one]
        queued = known.get(dispatch) if counts.count(dispatch) == 1 else None
        named[one] = queued or ids.task("iree", "graph", f"{dispatch}@v{one}")
        if queued is None:
            known_of = {"since_mono_ns": running.since_mono_ns, "owner": running.owner}
            told = {"declared": "dispatches.dot"}
            tasks.append(iree_task(named[one], dispatch, TaskState.SUBMITTED, attributes=told, **known_of))
    edges = [
        Edge(kind=EdgeKind.DEPENDS_ON, source=named[one], target=named[other], evidence=_EVIDENCE)
        for one in nodes
        for other in sorted(graph.needs.get(one, frozenset()) & named.keys())
    ]
    return Behind(tuple(tasks), tuple(edges))


_NAMES: Final = "configured_*.mlir"
_FOLDER: Final = "executables"
_TARGET: Final = lazy_re(r"hal\.executable\.variant \S+ \S+ target\(<\"([\w-]{1,40})\"")
_FUNCTION: Final = lazy_re(r"^\s{0,100}func\.func @([\w.$-]{1,500})\(", re.MULTILINE)
_EXPORT: Final = lazy_re(r"hal\.executable\.export public @([\w.$-]{1,500}) ")
_MOST_FILES: Final = 4096
_MOST_BYTES: Final = 1 << 20


class Dumped(Struct, frozen=True):
    """The source of one dispatch.

    Attributes:
        place: `FILE:LINE` of its function.
        backend: e.g. `llvm-cpu`, `vulkan-spirv`; "" if the file does not give it.
    """

    place: str
    backend: str = ""


def dumped_beside(logs: Iterable[Path]) -> dict[str, Dumped]:
    """Return the dumped sources next to some logs, or in folders of logs, by dispatch name."""
    found: dict[str, Dumped] = {}
    twice = set[str]()
    for path in islice(dict.fromkeys(_files(logs)), _MOST_FILES):
        for name, dumped in _read_source(path):
            if name in found:
                twice.add(name)
            found[name] = dumped
    return {name: dumped for name, dumped in found.items() if name not in twice}


def _files(logs: Iterable[Path]) -> Iterator[Path]:
    for log in logs:
        if target_files.is_folder(log):
            below = (Path(root, name) for root, _, names in target_files.walk(log) for name in names)
            yield from sorted(path for path in below if fnmatch(path.name, _NAMES))
        else:
            for folder in (log.parent, log.parent / _FOLDER):
                yield from target_files.matching(folder, _NAMES)


def _read_source(path: Path) -> Iterator[tuple[str, Dumped]]:
    try:
        with target_files.open_binary(path) as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    target = _TARGET.search(text)
    exports = {match[1] for match in _EXPORT.finditer(text)}
    for match in _FUNCTION.finditer(text):
        if match[1] in exports:
            line = text.count("\n", 0, match.start(1)) + 1
            yield clean_line(match[1]), Dumped(clean_line(f"{path.name}:{line}"), target[1] if target else "")
