"""deps.json and name_map*.json: both shapes, cut, growing, huge, and the regions of tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.ascend import files
from livedbg.adapters.ascend.files import FileWatch, folders_of
from livedbg.adapters.ascend.graph import parse_graph
from livedbg.adapters.ascend.regions import Region


def test_a_file_that_is_being_written(recorded: Path, tmp_path: Path) -> None:
    whole = (recorded / "01_healthy_trb/dfx/deps.json").read_bytes()
    path = tmp_path / "sub" / "deps.json"
    path.parent.mkdir()
    path.write_bytes(whole[: len(whole) // 2])
    watch = FileWatch()
    assert watch.look([tmp_path]) == []
    assert watch.problems[path].passing
    path.write_bytes(whole)
    (file,) = watch.look([tmp_path])
    assert file.graph is not None and len(file.graph.dependencies) == 6
    assert not watch.problems
    assert watch.look([tmp_path]) == []


def test_names(tmp_path: Path) -> None:
    names = {"level": 2, "orchestrator_name": "o", "callable_id_to_name": {"2": "M\x1b[31mUL", "x": "no"}}
    (tmp_path / "name_map_case.json").write_text(json.dumps(names))
    (file,) = FileWatch().look([tmp_path])
    assert file.names == {2: "M\x1b[31mUL"}  # cleaned where it enters the model


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SIZE_LIMIT", 1 << 30)
    with (tmp_path / "deps.json").open("wb") as file:
        file.truncate((1 << 30) + 1)
    watch = FileWatch()
    assert watch.look([tmp_path]) == []
    assert not watch.problems[tmp_path / "deps.json"].passing


def test_folders_of_arguments(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    assert folders_of([str(tmp_path), str(tmp_path / "a.log"), str(tmp_path / "*.log")]) == [tmp_path]


def test_june_shape_has_no_kernels(recorded: Path) -> None:
    graph = parse_graph((recorded / "12_june2026_v0_era/healthy_debug/dfx/deps.json").read_bytes())
    assert len(graph.tasks) == 5
    assert graph.tasks[0].kernels == ()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"tasks":7}', '{"tasks":[{"task_id":"x"}],"edges":[]}'])
def test_not_a_graph(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_graph(text.encode())


def _graph(*writers: tuple[int, int, int], edges: tuple[tuple[int, int], ...] = (), scope: str = "auto") -> Any:
    def arg(start: int, size: int) -> dict[str, Any]:
        return {
            "idx": 0,
            "type": "INOUT",
            "tensor_id": "5",
            "shape": [size],
            "start_offset": str(start),
            "strides": [1],
        }

    tasks = [{"task_id": str(raw), "scope": scope, "args": [arg(start, size)]} for raw, start, size in writers]
    pairs = [{"pred": str(a), "succ": str(b), "source": "explicit"} for a, b in edges]
    return parse_graph(json.dumps({"tasks": tasks, "edges": pairs}).encode())


def test_lost_orders() -> None:
    pair = [(lost.first, lost.second) for lost in _graph((0, 0, 8), (1, 4, 8)).lost_orders()]
    assert pair == [(0, 1)]
    assert not list(_graph((0, 0, 4), (1, 4, 4)).lost_orders())
    assert not list(_graph((0, 0, 8), (1, 0, 8), edges=((0, 1),)).lost_orders())
    assert not list(_graph((0, 0, 8), (2, 0, 8), edges=((0, 1), (1, 2))).lost_orders())
    assert not list(_graph((0, 0, 8), (1, 0, 8), scope="manual").lost_orders())
    tiles = [(lost.first, lost.second) for lost in _graph((0, 0, 4), (1, 4, 4), (2, 0, 4)).lost_orders()]
    assert tiles == [(0, 2)]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (Region(0, (4, 4), (16, 1)), Region(4, (4, 4), (16, 1)), False),  # tiles side by side
        (Region(0, (4, 4), (16, 1)), Region(3, (4, 4), (16, 1)), True),
        (Region(0, (4, 4), (16, 1)), Region(64, (4, 4), (16, 1)), False),
        (Region(0, (4, 16), (16, 1)), Region(16, (16,), (1,)), True),
        (Region(0, (0,), (1,)), Region(0, (4,), (1,)), False),
        (Region(7, (1,), (1,)), Region(7, (1,), (1,)), True),
    ],
)
def test_regions(one: Region, other: Region, shared: bool) -> None:
    assert one.overlaps(other) is shared
    assert other.overlaps(one) is shared
