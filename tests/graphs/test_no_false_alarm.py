"""Programs that the runtime wires by itself lack nothing: a model of it writes their deps.json.

The model does what simpler's pto_dep_compute.h and dep_gen_replay.cpp do: an edge to the creator of each argument
(written once a pair of tasks, and not where an explicit one is), an edge to each registered writer that it overlaps,
`INOUT` takes a writer that it covers out of the map; memory of a scope that has ended is given out again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from livedbg.adapters.ascend.dumps.graphs import parse_graph
from livedbg.graphs.buffers import Region, covers, region_of, shared
from livedbg.graphs.lost import lost_orders

_HEAP, _EXTERNAL, _SIZE = 1 << 40, 1 << 20, 64


@dataclass(eq=False)
class _Tensor:
    """A tensor that a program holds; `owner` is None for one of the host's."""

    address: int
    owner: int | None = None
    writers: list[tuple[int, Region]] = field(default_factory=list)


@dataclass
class _Machine:
    """What the runtime knows, and the file that it writes."""

    tasks: list[Any] = field(default_factory=list)
    edges: list[Any] = field(default_factory=list)
    tensors: dict[int, Any] = field(default_factory=dict)
    number: int = 0
    live: int = 0

    def allocate(self, owner: int) -> _Tensor:
        self.live += 1
        return _Tensor(_HEAP + 4 * _SIZE * self.live, owner)

    def alloc_tensors(self) -> _Tensor:
        """Takes a number and no entry."""
        made = self.allocate(self.number)
        self.number += 1
        return made

    def submit(self, args: list[tuple[str, _Tensor, int, int]], outputs: int, after: list[int]) -> list[_Tensor]:
        raw = self.number
        self.number += 1
        known = set()
        for pred in after:
            known.add(pred)
            self.edges.append({"pred": str(pred), "succ": str(raw), "arg": -1, "source": "explicit"})
        entries = []
        for index, (mode, tensor, start, size) in enumerate(args):
            name = str(tensor.address)
            place = {"shape": [size], "start_offset": str(start), "strides": [1], "dtype": "FLOAT32"}
            self.tensors[tensor.address] = {"tensor_id": name, "buffer_addr": name, "buffer_numel": str(_SIZE)}
            entries.append({"idx": index, "type": mode, "tensor_id": name, **place})
            edge = {"succ": str(raw), "arg": index, "tensor_id": name}
            if tensor.owner is not None and tensor.owner not in known:
                known.add(tensor.owner)
                self.edges.append({**edge, "pred": str(tensor.owner), "source": "creator", "flags": ["wait", "retain"]})
            region = region_of(start, [size], [1], 4)
            assert region is not None
            for writer, wrote in list(tensor.writers):
                if shared(region, wrote):
                    known.add(writer)
                    self.edges.append({**edge, "pred": str(writer), "source": "tensormap", "flags": ["wait"]})
                    if mode == "INOUT" and covers(region, wrote):
                        tensor.writers.remove((writer, wrote))
        for mode, tensor, start, size in args:
            if mode == "INOUT":
                region = region_of(start, [size], [1], 4)
                assert region is not None
                tensor.writers.append((raw, region))
        entries += [{"idx": len(args) + number, "type": "OUTPUT"} for number in range(outputs)]
        self.tasks.append({"task_id": str(raw), "scope": "auto", "kernel_ids": [-1, raw % 3, -1], "args": entries})
        return [self.allocate(raw) for _ in range(outputs)]

    def text(self) -> bytes:
        whole = {"tasks": self.tasks, "tensors": list(self.tensors.values()), "edges": self.edges}
        return json.dumps(whole).encode()


@st.composite
def _programs(draw: st.DrawFn) -> _Machine:
    machine = _Machine()
    external = [_Tensor(_EXTERNAL * (1 + number)) for number in range(2)]
    held: list[_Tensor] = []
    for _ in range(draw(st.integers(2, 14))):
        step = draw(st.sampled_from(["task", "task", "task", "alloc", "end of scope"]))
        if step == "alloc":
            held.append(machine.alloc_tensors())
        elif step == "end of scope":
            held, machine.live = [], 0
        else:
            chosen = draw(st.lists(st.sampled_from([*external, *held]), max_size=3, unique=True))
            args = [
                (draw(st.sampled_from(["INPUT", "INOUT"])), tensor, draw(st.integers(0, 4)), draw(st.integers(1, 8)))
                for tensor in chosen
            ]
            after = draw(st.lists(st.integers(0, max(0, machine.number - 1)), max_size=2, unique=True))
            done = {int(task["task_id"]) for task in machine.tasks}
            held += machine.submit(args, draw(st.integers(0, 2)), [pred for pred in after if pred in done])
    return machine


@settings(max_examples=120, deadline=None)
@given(_programs())
def test_what_the_runtime_wired_lacks_nothing(machine: _Machine) -> None:
    found = lost_orders(parse_graph(machine.text()))
    assert not found.sure and not found.perhaps


@settings(max_examples=60, deadline=None)
@given(_programs(), st.data())
def test_what_a_manual_scope_takes_away_is_owed_by_that_task_alone(machine: _Machine, data: st.DataObject) -> None:
    if not machine.tasks:
        return
    chosen = data.draw(st.sampled_from(machine.tasks))
    chosen["scope"], raw = "manual", chosen["task_id"]
    machine.edges = [edge for edge in machine.edges if edge["source"] == "explicit" or edge["succ"] != raw]
    assert {str(lost.second) for lost in lost_orders(parse_graph(machine.text())).sure} <= {raw}
