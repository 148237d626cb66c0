"""Where two traces differ first, what only follows from it, and how a side is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from livedbg.adapters.iree.differences.first import compare_traces, differing_runs, small_differences
from livedbg.adapters.iree.differences.sentences import headline
from livedbg.adapters.iree.differences.toolchain import DispatchCall, Side, counterparts, label, target_flags
from livedbg.adapters.iree.differences.trace import Trace, read_trace
from livedbg.adapters.iree.differences.whole import Alone, Request, Whole
from livedbg.values.compare import Tolerance

EXACT = Tolerance(0.0, 0.0)
SIDE = Side("A", "iree-compile", "python", "local-task")


class _Writer:
    """A trace's folder, as the worker writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lines, self.files = folder, [], 0
        folder.mkdir()

    def save(self, value: float) -> dict[str, object]:
        name = f"{self.files}.npy"
        self.files += 1
        np.save(self.folder / name, np.full(4, value, np.float32))
        return {"file": name, "shape": [4], "type": "float32"}

    def call(self, name: str, given: float, gives: float | None, run: int = 0) -> _Writer:
        self.lines.append({"call": name, "io": "inputs", "run": run, "tensors": [self.save(given)]})
        if gives is not None:
            self.lines.append({"call": name, "io": "outputs", "run": run, "tensors": [self.save(gives)]})
        return self

    def returned(self, value: float, run: int = 0) -> _Writer:
        self.lines.append({"returned": run, "tensors": [self.save(value)]})
        return self

    def read(self, cut: int = 0) -> Trace:
        text = "".join(json.dumps(line) + "\n" for line in self.lines)
        (self.folder / "calls.jsonl").write_text(text[: len(text) - cut])
        return read_trace(self.folder, "")


def _fates(one: Trace, other: Trace) -> list[tuple[str, int, str]]:
    return [(call.name, call.ordinal, call.fate) for call in compare_traces(one, other, EXACT).calls]


def test_the_culprit_has_equal_inputs_and_what_follows_has_not(tmp_path: Path) -> None:
    one = _Writer(tmp_path / "a").call("x", 1, 1).call("y", 1, 2).call("y", 2, 4).call("z", 4, 5).read()
    other = _Writer(tmp_path / "b").call("x", 1, 1).call("y", 1, 2).call("y", 2, 3).call("z", 3, 5.5).read()
    assert _fates(one, other) == [("x", 0, "equal"), ("y", 0, "equal"), ("y", 1, "culprit"), ("z", 0, "inherited")]
    first = compare_traces(one, other, EXACT).first
    assert first is not None and (first.name, first.ordinal) == ("y", 1)
    assert compare_traces(one, other, Tolerance(0.0, 10.0)).first is None


def test_other_inputs_and_equal_outputs_are_no_difference(tmp_path: Path) -> None:
    one, other = _Writer(tmp_path / "a").call("x", 1, 1).read(), _Writer(tmp_path / "b").call("x", 2, 1).read()
    assert _fates(one, other) == [("x", 0, "equal")]


def test_a_dispatch_that_did_not_return_is_open_and_not_compared(tmp_path: Path) -> None:
    one = _Writer(tmp_path / "a").call("x", 1, 1).call("y", 1, None).read()
    other = _Writer(tmp_path / "b").call("x", 1, 1).call("y", 1, 2).read()
    assert one.open is not None and one.open.name == "y"
    assert other.open is None
    assert _fates(one, other) == [("x", 0, "equal"), ("y", 0, "uncompared")]
    cut = _Writer(tmp_path / "c").call("x", 1, 1).call("y", 1, 2).read(cut=9)  # killed while it wrote
    assert cut.open is not None and cut.open.name == "y"


def test_dispatches_of_one_side_only_are_named(tmp_path: Path) -> None:
    one = _Writer(tmp_path / "a").call("x", 1, 1).call("fused", 1, 1).read()
    other = _Writer(tmp_path / "b").call("x", 1, 1).call("left", 1, 1).call("right", 1, 1).read()
    assert compare_traces(one, other, EXACT).only == (["fused"], ["left", "right"])


@pytest.mark.invariant("iree_first.F1")
def test_equal_names_of_other_dispatches_are_not_compared(tmp_path: Path) -> None:
    one = _Writer(tmp_path / "a").call("d0", 1, 1).call("d1", 1, 2).read()
    other = _Writer(tmp_path / "b").call("d0", 1, 2).call("d9", 1, 3).read()
    found = compare_traces(one, other, EXACT, mates={"d1": "d9"})
    assert [(call.name, call.fate) for call in found.calls] == [("d1", "culprit")]
    assert found.only == (["d0"], ["d0"])


@pytest.mark.invariant("iree_calls.K1")
def test_what_two_compilations_have_in_common() -> None:
    here = [
        DispatchCall(call="d0", body="x"),
        DispatchCall(call="d1", body="y", made_of="at 3"),
        DispatchCall(call="d2"),
    ]
    there = [DispatchCall(call="d0", body="z"), DispatchCall(call="d1", body="x"), DispatchCall(call="d2")]
    assert counterparts(here, there) == {"d0": "d1"}, "d2 has neither code nor places that are known"
    assert counterparts(here, [DispatchCall(call="d7", body="w", made_of="at 3")]) == {"d1": "d7"}


def test_inputs_that_are_traced_behind_the_outputs_belong_to_them(tmp_path: Path) -> None:
    writer = _Writer(tmp_path / "a").call("x", 1, 2).call("y", 2, 3)
    writer.lines = [writer.lines[at] for at in (1, 2, 3, 0)]
    one = writer.read()
    assert one.open is None and [(call.name, call.given, len(call.inputs)) for call in one.calls] == [
        *(("x", True, 1), ("y", True, 1)),
    ]
    writer = _Writer(tmp_path / "b").call("x", 1, 5)
    del writer.lines[0]
    assert _fates(one, writer.read()) == [("x", 0, "uncompared")], "its inputs are not known"


@pytest.mark.parametrize(
    ("differs", "words"),
    [
        (
            False,
            "round makes large differences of small ones in its inputs; with equal inputs it is equal. They come from "
            "sum.",
        ),
        (True, "round is the first that differs, with equal inputs too."),
        (None, "round is the first that differs; its inputs differ too, within the tolerance. They come from sum."),
    ],
)
def test_who_makes_large_differences_of_small_ones(tmp_path: Path, differs: bool | None, words: str) -> None:
    one = _Writer(tmp_path / "a").call("sum", 1, 0.49999).call("round", 0.49999, 0).returned(0).read()
    other = _Writer(tmp_path / "b").call("sum", 1, 0.50001).call("round", 0.50001, 1).returned(1).read()
    allowed = Tolerance(0.0, 0.01)
    request = Request(
        Path("m.mlir"), "main", (), (SIDE, replace(SIDE, name="B", device="vulkan")), 1, allowed, tmp_path, 9.0
    )
    compared = compare_traces(one, other, allowed)
    whole = Whole(request, (one, other), compared, exact=small_differences(one, other, compared.first, 1, None))
    whole.alone = None if differs is None else Alone(differs=differs)
    assert headline(whole) == words


def test_a_later_run_that_differs_is_found(tmp_path: Path) -> None:
    writer = _Writer(tmp_path / "a")
    one = writer.call("x", 1, 1).returned(1).call("x", 1, 2, run=1).returned(2, run=1).read()
    other = _Writer(tmp_path / "b").call("x", 1, 1).returned(1).call("x", 1, 1, run=1).returned(1, run=1).read()
    assert not differing_runs(one, other, EXACT, 1).differs
    found = differing_runs(one, other, EXACT, 2)
    assert found.first is not None and found.first.fate == "culprit"
    assert [one is not None and one.differs for one in found.results] == [True]


def test_results_differ_though_no_dispatch_does(tmp_path: Path) -> None:
    one, other = _Writer(tmp_path / "a").returned(1).read(), _Writer(tmp_path / "b").returned(2).read()
    found = compare_traces(one, other, EXACT)
    assert found.first is None and found.differs


@pytest.mark.parametrize(
    ("device", "hardware", "flags", "made"),
    [
        ("vulkan", "llvmpipe (LLVM 15)", (), ["--iree-hal-target-device=vulkan", "--iree-vulkan-target=llvmpipe"]),
        ("vulkan://0", "a GPU", (), ["--iree-hal-target-device=vulkan"]),
        ("vulkan", "llvmpipe", ("--iree-vulkan-target=rdna3",), ["--iree-hal-target-device=vulkan"]),
        ("local-sync", "default", ("--iree-hal-target-device=local",), []),
        ("hip", "gfx942", (), ["--iree-hal-target-device=hip"]),
    ],
)
def test_flags_that_a_device_asks_for(device: str, hardware: str, flags: tuple[str, ...], made: list[str]) -> None:
    assert target_flags(device, hardware, flags) == made


def test_the_users_cpu_wins() -> None:
    flags = target_flags("local-task", "default", ("--iree-llvmcpu-target-cpu=generic",))
    assert flags == ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]


def test_a_label_names_what_is_not_shared() -> None:
    other = Side("B", "iree-compile", "python", "vulkan", ("-O3",))
    assert (label(SIDE, other), label(other, SIDE)) == ("A (local-task)", "B (vulkan -O3)")
    assert label(SIDE, Side("B", "iree-compile", "python", "local-task")) == "A"
