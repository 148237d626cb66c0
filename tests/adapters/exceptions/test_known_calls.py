"""Runtimes that fail in C: a library with names of IREE's and CUDA's functions, and assert; by both ways to listen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.adapters.exceptions.calls import known_calls
from livedbg.model.catchpoints import CatchpointState, Moment
from livedbg.session.catch_options import presets
from tests.adapters.exceptions.catching import Tracing, functions, tell
from tests.conftest import Target


@pytest.fixture
def failing(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    """A program that fails by calling a stripped library."""
    library = build_target("statuses", "-DLIBRARY", "-shared", "-fPIC", "-s", output="libstatuses.so")
    linked = (str(library), f"-Wl,-rpath,{library.parent}")
    return spawn([build_target("statuses", *linked, output="statuses")])


@pytest.fixture
def tracing(failing: Target) -> Iterator[Tracing]:
    made = Tracing(failing.pid)
    yield made
    made.stop()


def test_statuses_of_iree(engine: str, failing: Target, tracing: Tracing) -> None:
    tracing.catch("iree")
    (point,) = tracing.points.values()
    assert (point.state, point.engine) == (CatchpointState.ARMED, engine)
    tell(failing, "cuda 2")
    tell(failing, "iree 8 tensor of 64 GiB does not fit on the device")
    tracing.hits_after(1)
    tell(failing, "ireef 13 transfer")
    first, second = sorted(tracing.hits_after(2), key=lambda hit: hit.type)
    assert first.type == "iree_status_allocate"
    assert (
        first.message == "RESOURCE_EXHAUSTED: tensor of 64 GiB does not fit on the device (runtime/src/device.c:1234)"
    )
    assert second.type == "iree_status_allocate_f"
    assert second.message == "INTERNAL: %s of %d bytes (runtime/src/device.c:77)"
    assert functions(first)[:2] == ["iree_status_allocate", "main"]


def test_errors_of_cuda(engine: str, failing: Target, tracing: Tracing) -> None:
    tracing.catch("cuda")
    (point,) = tracing.points.values()
    assert (point.state, point.engine) == (CatchpointState.ARMED, engine)
    for number, command in enumerate(("cuda 2", "cu 700", "cuda 12345"), 1):
        tell(failing, command)
        tracing.hits_after(number)
    assert {(hit.type, hit.message) for hit in tracing.hits} == {
        ("cudaGetErrorString", "2 (out of memory)"),
        ("cuGetErrorString", "700 (illegal address)"),
        ("cudaGetErrorString", "12345"),
    }


def test_a_failed_assert_in_a_child(engine: str, failing: Target, tracing: Tracing) -> None:
    tracing.catch("abort", follow=True)
    tell(failing, "assert 7")
    hits = {hit.type: hit for hit in tracing.hits_after(1 if engine == "registers" else 2)}
    said = hits["__assert_fail"].message
    if engine == "probes":
        assert said.startswith("wanted < 0 (/") and said.endswith(":38, fail_in_a_child)")
        assert "/statuses.c:" in said or "…:" in said  # the child may be gone when the rest is read
    else:
        assert "38" in said  # the rest stood in the memory of a child that may be gone
    assert "abort" not in hits or hits["abort"].message == ""  # it has no arguments: registers would mean nothing


def test_what_is_not_known_is_left_to_the_registers() -> None:
    known = known_calls()
    assert "malloc" not in known
    assert known["iree_status_allocate"]((31, 0, 7, 0), ("", "f", "", "m")) == "31: m (f:7)"
    assert known["iree_status_allocate_f"]((5, 0, 7, 0), ("", "", "", "")) == "NOT_FOUND (line 7)"
    assert known["__assert_fail"]((0, 0, 7, 0), ("", "", "", "")) == "line 7"
    assert known["cudaGetErrorName"]((2**32 + 2, 0, 0, 0), ("", "", "", "")) == "2 (out of memory)"


@pytest.mark.parametrize("preset", ["iree", "cuda"])
def test_every_function_of_a_preset_has_its_words(preset: str) -> None:
    assert presets()[preset].moment is Moment.CALL
    assert all(known_calls()[name]((1, 0, 0, 0), ("a", "b", "c", "d")) for name in presets()[preset].patterns)
