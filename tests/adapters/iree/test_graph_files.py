"""The dispatch graph that the compiler writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from livedbg.adapters.iree.dispatch_graph import Behind, DispatchGraphReader, behind, graph_beside
from livedbg.model import Task, TaskState
from livedbg.model.errors import SourceError
from tests.adapters.iree.conftest import SOURCES, Compile

TEXT = r"""digraph G {
  v1 [shape = box, label = "arg0"];
  v2 [shape = ellipse, label = "%0 = hal.tensor.import\ntensor<4xf32>"];
  v3 [shape = box, label = "%1 = flow.dispatch[]\n@main_dispatch_0::@main_dispatch_0_exp(%0)\ntensor<4xf32>"];
  v4 [shape = ellipse, label = "%2 = flow.tensor.slice\ntensor<2xf32>"];
  v5 [shape = box, label = "%3 = flow.dispatch[]\n@main_dispatch_1::@main_dispatch_1_sum(%2, %1)\ntensor<f32>"];
  v6 [shape = box, label = "%4 = flow.dispatch[]\n@main_dispatch_0::@main_dispatch_0_exp(%2)\ntensor<4xf32>"];
  v1 -> v2 [style = solid, label = ""];
  v2 -> v3 [style = solid, label = ""];
  v3 -> v4 [style = solid, label = ""];
  v4 -> v5 [style = solid, label = "0"];
  v3 -> v5 [style = solid, label = "1"];
  v4 -> v6 [style = solid, label = ""];
}
"""


def test_what_stands_between_two_dispatches_is_passed_through(tmp_path: Path) -> None:
    path = tmp_path / "dispatches.dot"
    path.write_text(TEXT)
    reader = DispatchGraphReader()
    graph, terms = reader.read(path), reader.terms(path)
    assert {raw: terms.kernel(task) for raw, task in graph.tasks.items()} == {
        3: "main_dispatch_0_exp",
        5: "main_dispatch_1_sum",
        6: "main_dispatch_0_exp",
    }
    assert graph.predecessors == {5: [3], 6: [3]}


def test_what_waits_for_a_result_is_known_through_others(tmp_path: Path) -> None:
    (tmp_path / "dispatches.dot").write_text(TEXT + "}\n")
    graph = graph_beside([tmp_path / "run.err", tmp_path])
    assert graph is not None and graph.after(3) == [5, 6] and graph.after(5) == []
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "dispatches.dot").write_text(TEXT)
    assert graph_beside([tmp_path]) is None  # two modules: which one?


@pytest.mark.invariant("iree_dispatch_graph.N1")
def test_N1_a_call_of_a_name_that_several_have_is_joined_by_its_number_only(tmp_path: Path) -> None:
    (tmp_path / "dispatches.dot").write_text(TEXT)
    graph = graph_beside([tmp_path])
    assert graph is not None
    assert graph.node("main_dispatch_1_sum", None) == 5 and graph.node("main_dispatch_0_exp", None) is None
    assert [graph.node("main_dispatch_0_exp", number) for number in range(3)] == [3, 6, 3]
    assert graph.node("another", 0) is None
    running = Task(id="task:iree/a#0", system="iree", name="a#0", kernel="main_dispatch_0_exp", state=TaskState.RUNNING)
    assert behind(graph, running, "main_dispatch_0_exp", None, {}) == Behind()
    found = behind(graph, running, "main_dispatch_0_exp", 0, {"main_dispatch_1_sum": "task:iree/sum#0"})
    assert [task.kernel for task in found.tasks] == ["main_dispatch_0_exp"]
    assert {(edge.source, edge.target) for edge in found.edges} == {
        ("task:iree/sum#0", running.id),
        (found.tasks[0].id, running.id),
    }


@pytest.mark.parametrize("text", ["", "digraph G {\n}\n", '  v1 [label = "arg0"];\n'])
def test_a_file_without_a_dispatch_is_no_graph(text: str, tmp_path: Path) -> None:
    path = tmp_path / "dispatches.dot"
    path.write_text(text)
    with pytest.raises(SourceError, match="has no dispatch"):
        DispatchGraphReader().read(path)


@pytest.mark.iree
def test_the_graph_of_a_real_module(compiled: Compile, tmp_path: Path) -> None:
    path = tmp_path / "dispatches.dot"
    flags = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
    dump = ("--iree-flow-dump-dispatch-graph", f"--iree-flow-dump-dispatch-graph-output-file={path}")
    compiler = Path(sys.executable).with_name("iree-compile")
    line = [str(compiler), "gated.mlir", *flags, *dump, "--compile-to=flow", "-o", str(tmp_path / "flow.mlir")]
    subprocess.run(line, check=True, cwd=SOURCES, timeout=200)
    graph = DispatchGraphReader().read(path)
    assert len(graph.tasks) == 3 and [len(found) for found in graph.predecessors.values()] == [1, 1]
