"""Import circles. The layers are contracts of import-linter (pyproject.toml, `make lint`)."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from pathlib import Path

import rustworkx

ROOT = Path(__file__).parents[2] / "livedbg"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for types and imports in functions count too."""
    modules = _modules()
    graph: rustworkx.PyDiGraph[str, None] = rustworkx.PyDiGraph()
    nodes = {name: graph.add_node(name) for name in sorted(modules)}
    for name, path in modules.items():
        graph.add_edges_from_no_data([(nodes[name], nodes[other]) for other in _imports(path, modules)])
    circles = [sorted(graph[node] for node in part) for part in rustworkx.strongly_connected_components(graph)]
    assert [circle for circle in circles if len(circle) > 1] == []


def _modules() -> dict[str, Path]:
    """All modules of the package by name, those behind its links too."""
    folders = [ROOT, *(entry for entry in ROOT.iterdir() if entry.is_symlink())]
    files = {file for folder in folders for file in folder.rglob("*.py")}
    names = {file: ".".join(("livedbg", *file.relative_to(ROOT).with_suffix("").parts)) for file in files}
    return {name.removesuffix(".__init__"): file for file, name in names.items()}


def _imports(path: Path, modules: Container[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: name livedbg's modules in full"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in modules:
                    yield whole
                elif node.module in modules:
                    yield str(node.module)
