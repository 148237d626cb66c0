"""A deps.json whose numbers no runtime would write: an answer, no exception, no endless work."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from livedbg.adapters.ascend.dumps.graphs import parse_graph
from livedbg.adapters.ascend.names import task_name
from livedbg.graphs.ashtml import to_html
from livedbg.graphs.declared import Terms
from livedbg.graphs.drawing import to_dot, to_json, to_text
from livedbg.graphs.fromdeclared import compared, drawing_of
from livedbg.graphs.lost import lost_orders
from tests.graphs.dot import read_dot

_ODD = st.sampled_from([-(1 << 63), -7, -1, 0, 1, 2, 3, 64, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, 10**30])
_WORD = st.sampled_from(["INPUT", "INOUT", "OUTPUT_EXISTING", "OUTPUT", "NO_DEP", "", "\x1b]0;x\x07", '"><script>'])
_ARGS = st.fixed_dictionaries(
    {"type": _WORD},
    optional={
        "idx": _ODD,
        "tensor_id": st.sampled_from(["1", 2, None]),
        "dtype": st.sampled_from(["FLOAT32", "INT8", "", "\x00</b>"]),
        "shape": st.lists(_ODD, max_size=4),
        "start_offset": _ODD.map(str),
        "strides": st.lists(_ODD, max_size=4),
    },
)
_TASKS = st.fixed_dictionaries(
    {"task_id": _ODD.map(str)},
    optional={
        "scope": st.sampled_from(["auto", "manual", "\u202e"]),
        "kernel_ids": st.lists(_ODD, max_size=4),
        "block_num": _ODD,
        "args": st.lists(_ARGS, max_size=3),
    },
)
_EDGES = st.fixed_dictionaries(
    {"pred": _ODD.map(str), "succ": _ODD.map(str)},
    optional={"arg": _ODD, "source": _WORD, "flags": st.lists(_WORD, max_size=2), "tensor_id": st.sampled_from(["1"])},
)
_TENSORS = st.fixed_dictionaries(
    {"tensor_id": st.sampled_from(["1", "2"])},
    optional={"buffer_addr": _ODD.map(str), "buffer_numel": _ODD.map(str), "dtype": _WORD, "version": _ODD},
)
_FILES = st.fixed_dictionaries(
    {
        "tasks": st.lists(_TASKS, min_size=1, max_size=6),
        "tensors": st.lists(_TENSORS, max_size=2),
        "edges": st.lists(_EDGES, max_size=6),
    }
)


@settings(max_examples=150, deadline=None)
@given(_FILES, _FILES)
def test_all_that_is_done_with_a_graph(one: Any, other: Any) -> None:
    here, there = (parse_graph(json.dumps(file).encode()) for file in (one, other))
    terms = Terms(kernels={0: "</script>"}, task_name=task_name)
    drawing = drawing_of(here, lost_orders(here), "x", terms, war=True)
    drawing = compared(drawing, here, there, terms, "y")
    for text in (to_text(drawing, 5), to_html(drawing), to_json(drawing), to_dot(drawing)):
        assert "\x1b" not in text and "\x00" not in text and "\u202e" not in text
    nodes, edges = read_dot(to_dot(drawing))
    assert len(nodes) == len(drawing.nodes) and len(edges) == len(drawing.arrows)
    assert json.loads(to_json(drawing))["schema"] == "livedbg.graph/1"
