"""Orders that a deps.json lacks: against an oracle that looks at every byte, and what is meant to be no alarm."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livedbg.adapters.ascend.dumps.graphs import next_of, parse_graph, why_of
from livedbg.graphs.buffers import Region, covers, region_of, shared
from livedbg.graphs.declared import Cause, LostOrder, TaskGraph
from livedbg.graphs.lost import grouped, lost_orders

_MODES = ("INPUT", "INOUT", "OUTPUT_EXISTING")


def arg(
    mode: str, *, tensor: int = 1, start: int = 0, shape: Sequence[int] = (8,), strides: Sequence[int] = (1,)
) -> Any:
    """One argument of a task."""
    place = {"start_offset": str(start), "shape": list(shape), "strides": list(strides)}
    return {"type": mode, "tensor_id": str(tensor), "dtype": "FLOAT32", **place}


def task(raw: int, *arguments: Any, scope: str = "auto", kernel: int | None = None) -> Any:
    """One task; each has a kernel of its own unless told otherwise."""
    args = [{"idx": index, **argument} for index, argument in enumerate(arguments)]
    kernels = [-1, raw & 0xFFFF if kernel is None else kernel, -1]
    return {"task_id": str(raw), "scope": scope, "kernel_ids": kernels, "block_num": 1, "args": args}


def edge(pred: int, succ: int, source: str = "explicit", **more: Any) -> Any:
    """One edge."""
    return {"pred": str(pred), "succ": str(succ), "arg": -1, "source": source, **more}


def graph(tasks: Sequence[Any], edges: Sequence[Any] = (), addresses: dict[int, int] | None = None) -> TaskGraph:
    """A graph from the text of a deps.json, in which tensor N begins at N << 20."""
    named = {int(a["tensor_id"]) for t in tasks for a in t["args"] if "tensor_id" in a}
    known = {tensor: tensor << 20 for tensor in named} | (addresses or {})
    tensors = [
        {"tensor_id": str(number), "buffer_addr": str(place), "version": 0, "dtype": "FLOAT32", "buffer_numel": "256"}
        for number, place in known.items()
    ]
    return parse_graph(json.dumps({"tasks": tasks, "tensors": tensors, "edges": edges}).encode())


def lost(tasks: Sequence[Any], edges: Sequence[Any] = (), addresses: dict[int, int] | None = None) -> list[LostOrder]:
    """The lost orders that count."""
    return list(lost_orders(graph(tasks, edges, addresses)).sure)


def _bytes(access: Any, unit: int = 4) -> set[int]:
    found: set[int] = set()
    for at in itertools.product(*map(range, access["shape"])):
        first = int(access["start_offset"]) + sum(
            index * step for index, step in zip(at, access["strides"], strict=True)
        )
        found.update(range(first * unit, first * unit + unit))
    return found


@st.composite
def _accesses(draw: st.DrawFn) -> Any:
    rank = draw(st.integers(1, 3))
    return arg(
        draw(st.sampled_from(_MODES)),
        tensor=draw(st.integers(1, 2)),
        start=draw(st.integers(0, 10)),
        shape=draw(st.lists(st.integers(0 if draw(st.booleans()) else 1, 4), min_size=rank, max_size=rank)),
        strides=draw(st.lists(st.sampled_from([1, 2, 3, 4, 8, 12, 16]), min_size=rank, max_size=rank)),
    )


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    count = draw(st.integers(2, 8))
    tasks = [task(raw, *draw(st.lists(_accesses(), min_size=1, max_size=3))) for raw in range(count)]
    pairs = [(pred, succ) for succ in range(count) for pred in range(succ)]
    kept = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=len(pairs)))
    return tasks, [edge(pred, succ) for pred, succ in kept]


def _oracle(tasks: list[Any], edges: list[Any]) -> dict[tuple[int, int], set[tuple[str, int]]]:
    """Byte by byte: pairs of the last writer and what touches the byte after, without a path."""
    before: list[set[int]] = []
    for raw in range(len(tasks)):
        direct = {int(e["pred"]) for e in edges if int(e["succ"]) == raw}
        before.append(direct.union(*(before[pred] for pred in direct)))
    writer: dict[tuple[str, int], int] = {}
    found: dict[tuple[int, int], set[tuple[str, int]]] = {}
    for raw, each in enumerate(tasks):
        for access in each["args"]:
            for place in _bytes(access):
                last = writer.get((access["tensor_id"], place))
                if last is not None and last not in before[raw]:
                    found.setdefault((last, raw), set()).add((access["tensor_id"], place))
        for access in each["args"]:
            if access["type"] != "INPUT":
                writer.update({(access["tensor_id"], place): raw for place in _bytes(access)})
    return found


@settings(max_examples=100, deadline=None)
@given(_graphs())
@pytest.mark.invariant("hazards.H1")
def test_H1_exactly_the_hazards_without_a_path(made: tuple[list[Any], list[Any]]) -> None:
    tasks, edges = made
    found = lost_orders(graph(tasks, edges))
    expected = _oracle(tasks, edges)
    assert {(one.first, one.second) for one in found.sure} == set(expected)
    assert not found.perhaps and not found.skipped and not found.circular
    for one in found.sure:
        hazard = expected[one.first, one.second]
        assert 0 < one.size <= len(hazard)
        assert (str(one.tensor), one.offset) in hazard


@settings(max_examples=100, deadline=None)
@given(_accesses(), _accesses(), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
@pytest.mark.invariant("graphs_buffers.G2")
def test_G2_shared_bytes_are_exact(one: Any, other: Any, unit: int, its: int) -> None:
    mine, others = _bytes(one, unit), _bytes(other, its)
    a = region_of(int(one["start_offset"]), one["shape"], one["strides"], unit)
    b = region_of(int(other["start_offset"]), other["shape"], other["strides"], its)
    assert (a is None) == (not mine) and (b is None) == (not others)
    if a is not None and b is not None:
        assert (a.start, a.end) == (min(mine), max(mine) + 1)
        assert shared(a, b) == shared(b, a) == len(mine & others)
        assert covers(a, b) == (others <= mine)


@pytest.mark.invariant("graphs_buffers.G1")
def test_G1_equal_sets_of_bytes_have_equal_regions() -> None:
    """All views of up to three axes whose outer axes step over what lies in their inner ones."""
    made: dict[frozenset[int], set[Region]] = {}
    views = 0
    for unit, shape in itertools.product([1, 2, 4], itertools.product([1, 2, 3, 4], repeat=3)):
        for strides in itertools.product([1, 2, 3, 4, 6, 8, 12], repeat=3):
            inner = itertools.accumulate(reversed(list(zip(shape, strides, strict=True))), _extent, initial=1)
            if not all(step >= extent for step, extent in zip(reversed(strides), inner, strict=False)):
                continue
            region = region_of(0, shape, strides, unit)
            assert region is not None
            made.setdefault(frozenset(_bytes(arg("INPUT", shape=shape, strides=strides), unit)), set()).add(region)
            views += 1
    assert views > 5 * len(made) > 500
    assert [regions for regions in made.values() if len(regions) > 1] == []
    assert len(set().union(*made.values())) == len(made)


def _extent(below: int, axis: tuple[int, int]) -> int:
    """From the first to the last element of an axis."""
    count, step = axis
    return (count - 1) * step + below


def test_read_after_write() -> None:
    (one,) = lost([task(0, arg("OUTPUT_EXISTING", shape=[64])), task(1, arg("INPUT", start=32, shape=[64]))])
    assert (one.first, one.second, one.hazard, one.cause) == (0, 1, "read after write", Cause.UNTRACKED)
    assert (one.offset, one.size, one.region) == (128, 128, "128 bytes from offset 128, 32 FLOAT32")
    assert "manual_dep" in why_of(one)


def test_add_output_where_add_inout_is_meant() -> None:
    tasks = [task(0, arg("INOUT")), task(1, arg("OUTPUT_EXISTING"))]
    (one,) = lost(tasks)
    assert (one.hazard, one.cause) == ("write after write", Cause.OUTPUT)
    assert "add_inout()" in next_of(one)[0]
    assert not lost(tasks, [edge(0, 1)])


def test_only_an_edge_that_waits_orders() -> None:
    tasks = [task(0, arg("INOUT")), task(1, arg("INPUT"))]
    assert not lost(tasks, [edge(0, 1, flags=["wait", "retain"])])
    assert not lost(tasks, [edge(0, 1, flags=["wait"])])
    assert lost(tasks, [edge(0, 1, flags=["retain"])])


def test_tiles_side_by_side_and_a_path_through_others() -> None:
    tile = {"shape": [4, 4], "strides": [16, 1]}
    assert not lost([task(0, arg("INOUT", **tile)), task(1, arg("INOUT", start=4, **tile))])
    assert lost([task(0, arg("INOUT", **tile)), task(1, arg("INOUT", start=3, **tile))])
    three = [task(0, arg("INOUT")), task(1), task(2, arg("INPUT"))]
    assert not lost(three, [edge(0, 1), edge(1, 2)])


def test_what_was_overwritten_is_owed_to_the_last_writer_only() -> None:
    tasks = [task(0, arg("INOUT")), task(1, arg("INOUT", shape=[4])), task(2, arg("INOUT", start=4, shape=[4]))]
    tasks.append(task(3, arg("INPUT")))
    edges = [edge(1, 3), edge(2, 3)]
    assert {(one.first, one.second) for one in lost(tasks, edges)} == {(0, 1), (0, 2)}


def test_scopes() -> None:
    write, read = arg("INOUT"), arg("INPUT")
    (one,) = lost([task(0, write, scope="manual"), task(1, read)])
    assert one.cause is Cause.MANUAL_WRITER and "set_dependencies" in next_of(one)[0]
    (one,) = lost([task(0, write), task(1, read, scope="manual")])
    assert one.cause is Cause.MANUAL_READER
    both = [task(0, write, scope="manual"), task(1, read, scope="manual")]
    assert lost(both) and not lost(both, [edge(0, 1)])
    adders = lost_orders(graph([task(0, write, scope="manual"), task(1, write, scope="manual")]))
    assert not adders.sure and len(adders.perhaps) == 1  # wired by hand, e.g. for an atomic add


def test_one_kernel_that_fills_a_tensor_whose_tracking_is_off() -> None:
    fill = [task(raw, arg("INOUT"), kernel=7) for raw in range(4)]
    found = lost_orders(graph(fill))
    assert not found.sure and len(found.perhaps) == 3
    assert lost([*fill, task(4, arg("INPUT"))])  # who reads all of it must wait


@pytest.mark.invariant("hazards.H2")
def test_reads_that_are_overwritten_are_no_hazard() -> None:
    assert not lost([task(0, arg("INPUT")), task(1, arg("OUTPUT_EXISTING"))])
    assert not lost([task(0, arg("NO_DEP")), task(1, arg("UNKNOWN")), task(2, arg("INOUT"))])


def test_memory_of_two_addresses() -> None:
    tasks = [task(0, arg("INOUT", tensor=1, shape=[64])), task(1, arg("INPUT", tensor=2, shape=[64]))]
    assert not lost(tasks, addresses={1: 4096, 2: 4096 + 1024})
    (one,) = lost(tasks, addresses={1: 4096, 2: 4096 + 128})
    assert (one.cause, one.offset, one.size) == (Cause.ALIAS, 128, 128)


def test_other_element_types_and_versions_of_one_buffer() -> None:
    first, second = task(0, arg("INOUT", shape=[64])), task(1, arg("INPUT", tensor=2, shape=[256]))
    second["args"][0]["dtype"] = "INT8"
    (one,) = lost([first, second], addresses={1: 4096, 2: 4096})
    assert (one.size, one.dtype) == (256, "INT8")


OUTPUT = {"type": "OUTPUT"}


@pytest.mark.invariant("graphs_buffers.B2")
def test_B2_memory_that_is_used_again_is_not_one_tensor() -> None:
    """Two tensors of the runtime's own at the same address, one after the other."""
    tasks = [
        task(0, OUTPUT),
        task(1, arg("INOUT")),
        task(2, OUTPUT),
        task(3, arg("INPUT")),
    ]
    first, again = edge(0, 1, "creator", tensor_id="1"), edge(2, 3, "creator", tensor_id="1")
    first["arg"] = again["arg"] = 0
    assert not lost(tasks, [first, again])
    kept = {**again, "pred": "0"}
    assert [(one.first, one.second) for one in lost(tasks, [first, kept])] == [(1, 3)]


@pytest.mark.parametrize("scope", ["auto", "manual"])
@pytest.mark.invariant("graphs_buffers.B2")
def test_B2_an_allocation_between_two_tasks_leaves_it_open(scope: str) -> None:
    """alloc_tensors() takes a task number and no entry."""
    begin = [task(0, OUTPUT), task(1, arg("INOUT"), scope="manual")]
    assert lost([*begin, task(2, arg("INPUT"), scope="manual")])
    assert not lost([*begin, task(3, arg("INPUT"), scope="manual")])
    assert not lost([*begin, task(2, OUTPUT, scope=scope), task(3, arg("INPUT"), scope="manual")])


@pytest.mark.invariant("graphs_buffers.B1")
def test_B1_named_before_anything_was_allocated() -> None:
    tasks = [task(0, arg("INOUT")), task(1, OUTPUT), task(2, OUTPUT), task(3, arg("INPUT"), scope="manual")]
    assert [(one.first, one.second) for one in lost(tasks)] == [(0, 3)]


@pytest.mark.invariant("hazards.H3")
def test_H3_what_lies_in_too_many_pieces_is_counted() -> None:
    """20,000 single elements, one in three."""
    scattered = {"shape": [20_000], "strides": [3]}
    found = lost_orders(graph([task(0, arg("INOUT", **scattered)), task(1, arg("INPUT", **scattered))]))
    assert not found.sure and found.skipped == 1


def test_edges_that_close_a_circle() -> None:
    three = [task(0, arg("INOUT")), task(1, arg("INPUT")), task(2, arg("INPUT"))]
    found = lost_orders(graph(three, [edge(0, 1), edge(1, 0)]))
    assert found.circular and not found.sure


def test_an_order_that_is_not_the_submission_s() -> None:
    tasks = [task(0, arg("INOUT")), task(1, arg("INPUT")), task(2)]
    assert not lost(tasks, [edge(0, 2), edge(2, 1)])


def test_alike_ones_are_one_group() -> None:
    loop = [task(raw, arg("OUTPUT_EXISTING"), kernel=3) for raw in range(6)]
    made = graph([task(6, arg("INOUT"), kernel=1), *loop])
    groups = grouped(lost_orders(made).sure, made)
    assert [(group.example.first, group.count) for group in groups] == [(6, 1), (0, 5)]
