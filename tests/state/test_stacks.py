"""Merging and grouping of stacks: the invariants of livedbg.state.stacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.model import Frame, Stack
from livedbg.state.stacks import group_stacks, merge_stacks

INTERPRETER = (
    "_PyEval_EvalFrameDefault",
    "_PyFunction_Vectorcall",
    "cfunction_call",
    "Py_RunMain",
    "pymain_run_python",
)
OWN = ("__read", "take_lock", "at::native::add", "PyThread_acquire_lock_timed", "main_loop")


def stack(*functions: str, language: str = "python", taken_ns: int = 10, thread: str = "thread:h/1/1") -> Stack:
    frames = tuple(Frame(function=name, language=language) for name in functions)
    layer = "python" if language == "python" else "native"
    return Stack(thread=thread, frames=frames, taken_mono_ns=taken_ns, source=layer, layer=layer)


def names(merged: Stack) -> list[str]:
    return [frame.function for frame in merged.frames]


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(name in rest for name in part)


@given(
    st.lists(st.integers(0, 30).map("py_{}".format), max_size=12),
    st.lists(st.sampled_from(INTERPRETER + OWN), min_size=1, max_size=25),
)
@pytest.mark.invariant("stacks.M1")
def test_M1_every_python_frame_and_every_own_native_frame_once_in_order(python: list[str], native: list[str]) -> None:
    merged = names(merge_stacks(stack(*python), stack(*native, language="native")))
    kept = [name for name in native if name in OWN]
    assert [name for name in merged if name.startswith("py_")] == python
    assert [name for name in merged if name in OWN] == kept
    assert len(merged) == len(python) + len(kept)


@pytest.mark.invariant("stacks.M1")
def test_M1_a_call_from_c_back_into_python_stands_between_its_callers() -> None:
    native = ("__read", "_PyEval_EvalFrameDefault", "callback", "_PyEval_EvalFrameDefault", "Py_RunMain", "_start")
    merged = names(merge_stacks(stack("inner", "outer", "module"), stack(*native, language="native")))
    assert merged == ["__read", "inner", "callback", "outer", "module"]


@pytest.mark.invariant("stacks.M2")
def test_M2_one_layer_alone_is_shown_as_it_is() -> None:
    python, native = stack("f"), stack("_PyEval_EvalFrameDefault", language="native")
    assert merge_stacks(python, None) is python
    assert merge_stacks(None, native) is native
    with pytest.raises(ValueError, match="no stack"):
        merge_stacks(None, None)


def test_layers_taken_apart_say_so() -> None:
    merged = merge_stacks(stack("f"), stack("g", language="native", taken_ns=3_000_000_011))
    assert merged.note == "Python and native frames were taken at different times"
    assert merged.taken_mono_ns == 3_000_000_011
    assert merge_stacks(stack("f"), stack("g", language="native")).note is None


def test_equal_stacks_are_grouped_largest_first() -> None:
    groups = group_stacks(
        [stack("a", thread="thread:h/1/3"), stack("b", thread="thread:h/1/2"), stack("b", thread="thread:h/1/1")]
    )
    assert [(group.threads, [frame.function for frame in group.frames]) for group in groups] == [
        (("thread:h/1/1", "thread:h/1/2"), ["b"]),
        (("thread:h/1/3",), ["a"]),
    ]
