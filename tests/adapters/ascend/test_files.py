"""deps.json and name_map*.json: both shapes, cut, growing, huge, and the regions of tensors."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from livedbg.adapters.ascend import adapter
from livedbg.adapters.ascend.adapter import FileWatch, folders_of, named_in
from livedbg.adapters.ascend.dumps.graphs import parse_graph
from livedbg.model import EdgeKind, EdgeState
from tests.adapters.ascend.replay import Replay, replay_folder


def test_a_file_that_is_being_written(recorded: Path, tmp_path: Path) -> None:
    whole = (recorded / "01_healthy_trb/dfx/deps.json").read_bytes()
    path = tmp_path / "sub" / "deps.json"
    path.parent.mkdir()
    path.write_bytes(whole[: len(whole) // 2])
    watch = FileWatch()
    assert watch.scan([tmp_path]) == []
    assert watch.problems[path].passing
    path.write_bytes(whole)
    (file,) = watch.scan([tmp_path])
    assert file.graph is not None and len(file.graph.dependencies) == 6
    assert not watch.problems
    assert watch.scan([tmp_path]) == []


def test_a_costly_file_that_changes_all_the_time(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it takes so long that it is left alone for some time; the last look reads it all the same."""
    path = tmp_path / "deps.json"
    path.write_bytes((recorded / "01_healthy_trb/dfx/deps.json").read_bytes())
    used = iter(float(number) for number in range(100))  # each reading takes a second
    monkeypatch.setattr(adapter.time, "thread_time", lambda: next(used))
    watch = FileWatch()
    assert len(watch.scan([tmp_path])) == 1
    path.write_bytes(path.read_bytes() + b" ")
    assert watch.scan([tmp_path]) == []
    assert len(watch.scan([tmp_path], last=True)) == 1


@pytest.mark.parametrize(("age_s", "taken"), [(-60, True), (0, True), (3600, False)])
@pytest.mark.parametrize("files_first", [False, True])
def test_a_graph_that_was_written_before_the_run_is_another_run_s(
    recorded: Path, tmp_path: Path, age_s: int, taken: bool, files_first: bool
) -> None:
    log = (recorded / "02_hang_kernel/timeout_debug/err.txt").read_bytes()
    (tmp_path / "err.txt").write_bytes(log)
    began = re.search(rb"wall_ns=(\d+)", log)
    assert began is not None
    older = tmp_path / "build_output" / "_jit_model_20260821_101112" / "dfx_outputs" / "deps.json"
    older.parent.mkdir(parents=True)
    older.write_bytes((recorded / "01_healthy_trb/dfx/deps.json").read_bytes())
    os.utime(older, ns=(int(began[1]) - age_s * 10**9,) * 2)
    edges = replay_folder(tmp_path, files_first=files_first).edges.values()
    assert any("deps.json" in edge.evidence for edge in edges) is taken


def test_a_graph_without_any_log_shows_nobody_waiting(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "deps.json").write_bytes((recorded / "01_healthy_trb/dfx/deps.json").read_bytes())
    edges = replay_folder(tmp_path).edges.values()
    assert edges and {edge.state for edge in edges if edge.kind is EdgeKind.DEPENDS_ON} == {EdgeState.SATISFIED}


def test_a_graph_beside_the_log_of_something_else_is_of_nobody(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "deps.json").write_bytes((recorded / "09_dep_lost/dfx/deps.json").read_bytes())
    replay = Replay()
    replay.read(tmp_path / "run.log", b"step 1\ndone")
    replay.files(tmp_path)
    assert not replay.flush().diagnostics
    replay.model.named = named_in([str(tmp_path)])
    assert "missing-edge" in {said.code for said in replay.flush().diagnostics.values()}


def test_what_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    given = [str(tmp_path / name) for name in ("a.log", "deps.json", "*.log")]
    assert named_in(given) == (tmp_path / "deps.json", tmp_path)
    assert named_in(given[:1]) == ()
    assert named_in([str(tmp_path)]) == (tmp_path,)


def test_names(tmp_path: Path) -> None:
    names = {"level": 2, "orchestrator_name": "o", "callable_id_to_name": {"2": "M\x1b[31mUL", "x": "no"}}
    (tmp_path / "name_map_case.json").write_text(json.dumps(names))
    (file,) = FileWatch().scan([tmp_path])
    assert file.names == {2: "M\x1b[31mUL"}  # cleaned where it enters the model


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "SIZE_LIMIT", 1 << 20)
    with (tmp_path / "deps.json").open("wb") as file:
        file.truncate((1 << 20) + 1)
    watch = FileWatch()
    assert watch.scan([tmp_path]) == []
    problem = watch.problems[tmp_path / "deps.json"]
    assert not problem.passing and "larger than 1 MiB" in problem.sentence


def test_folders_of_arguments(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    assert folders_of([str(tmp_path), str(tmp_path / "a.log"), str(tmp_path / "*.log")]) == [tmp_path]
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)  # as /tmp: what lies there is not of the log beside it
    assert folders_of([str(shared / "a.log")]) == [] and folders_of([str(shared)]) == [shared]


def test_june_shape_has_no_kernels(recorded: Path) -> None:
    graph = parse_graph((recorded / "12_june2026_v0_era/healthy_debug/dfx/deps.json").read_bytes())
    assert len(graph.tasks) == 5
    assert graph.tasks[0].kernels == ()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"tasks":7}', '{"tasks":[{"task_id":"x"}],"edges":[]}'])
def test_not_a_graph(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_graph(text.encode())
