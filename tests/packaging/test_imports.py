"""Import circles, and what front ends import.

The layers are contracts of import-linter (pyproject.toml, `make lint`).
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from pathlib import Path

import pytest
import rustworkx

ROOT = Path(__file__).parents[2] / "livedbg"
ACTING = {"adapters", "cpython", "gdbmi", "linux", "probes", "touch", "unwind"}
"""Packages that read or act on processes."""


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for types and imports in functions count too."""
    modules = _modules()
    graph: rustworkx.PyDiGraph[str, None] = rustworkx.PyDiGraph()
    nodes = {name: graph.add_node(name) for name in sorted(modules)}
    for name, path in modules.items():
        graph.add_edges_from_no_data([(nodes[name], nodes[other]) for other in _imports(path, modules)])
    circles = [sorted(graph[node] for node in part) for part in rustworkx.strongly_connected_components(graph)]
    assert [circle for circle in circles if len(circle) > 1] == []


@pytest.mark.invariant("view.V3")
def test_V3_front_ends_use_nothing_that_acts_on_targets() -> None:
    modules = _modules()
    fronts = {name: path for name, path in modules.items() if name.startswith(("livedbg.app.", "livedbg.panels."))}
    assert len(fronts) > 30
    used = {(name, other) for name, path in fronts.items() for other in _imports(path, modules)}
    assert [pair for pair in sorted(used) if pair[1].split(".")[1] in ACTING] == []
    calls = {
        (name, node.attr)
        for name, path in fronts.items()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"kill", "killpg", "pidfd_send_signal", "Popen"}
    }
    assert calls == set()


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
