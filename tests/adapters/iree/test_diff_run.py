"""`livedbg diff-run` with IREE's real compiler and runtime, through the real command line."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.iree.differences.toolchain import (
    calls_of_both,
    compile_module,
    counterparts,
    find_compiler,
    place_of,
    target_flags,
)
from tests.cli.conftest import Said, livedbg
from tests.waiting import again

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("iree") is None, reason="IREE has wheels for x86-64 only; they are test dependencies there"
)
FIXTURES = Path(__file__).parents[2] / "fixtures" / "iree"
MODULE = FIXTURES / "three_dispatches.mlir"
NAN = Path(__file__).parents[2] / "targets" / "iree" / "roots.mlir"
PRODUCT = "main_dispatch_1"
SOFTWARE_VULKAN = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    """Files of the comparison of two targets, which later tests use."""
    return shared / "iree-two-targets"


@pytest.fixture(scope="module")
def targets(folder: Path) -> dict[str, Any]:
    """What is said of one module for two CPU targets, compared exactly: only one fuses multiplication and addition.

    It is compared once for all workers.
    """
    report = folder.with_suffix(".json")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not report.exists():
            said = livedbg(
                *("diff-run", MODULE, "--rtol", "0", "--atol", "0", "--keep", folder, "--json"),
                *("--flags", "--iree-llvmcpu-target-cpu=haswell", "--flags", "--iree-llvmcpu-target-cpu=generic"),
            )
            assert said.code == 12, said.everything
            report.write_text(said.out)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def test_the_first_dispatch_that_differs_is_named_with_its_source(targets: dict[str, Any]) -> None:
    assert [one["fate"] for one in targets["dispatches"]] == ["equal", "culprit", "inherited"]
    assert targets["first"]["name"].startswith(PRODUCT)
    assert targets["first"]["operations"] == [
        {"name": "linalg.vecmat", "file": str(MODULE), "line": 15},
    ]
    assert targets["sentence"] == (
        f"{PRODUCT} (linalg.vecmat at {MODULE}:15) is the first that differs. Its inputs are equal."
    )
    (output,) = targets["first"]["outputs"]
    assert output["outside"] > 0 and output["relative"] < 1e-3


def test_it_differs_alone_too(targets: dict[str, Any], folder: Path) -> None:
    assert targets["alone"]["differs"] is True
    assert "flow.dispatch" in (folder / "alone" / "alone-A.mlir").read_text()
    assert any(word.startswith("iree-run-module") for word in targets["alone"]["commands"])


@pytest.mark.usefixtures("targets")
def test_a_compiled_module_on_two_devices_does_not_differ(folder: Path) -> None:
    said = livedbg("diff-run", folder / "A.vmfb", "--device", "local-task", "--device", "local-sync")
    assert said.code == 0, said.everything
    assert "3 dispatches compared, 3 equal" in said.out and "No dispatch and no result differs." in said.out


@pytest.mark.usefixtures("targets")
def test_the_same_twice_is_compared_exactly_and_repeatedly(folder: Path) -> None:
    said = livedbg("diff-run", folder / "A.vmfb", "--runs", "3", "--json")
    assert said.code == 0, said.everything
    calls = [json.loads(line) for line in (Path(json.loads(said.out)["folder"]) / "A.trace/calls.jsonl").open()]
    assert sum("returned" in call for call in calls) == 3


def test_a_race_is_not_deterministic_and_its_healthy_counterpart_is(tmp_path: Path) -> None:
    """Sums by many workgroups in the same place: rounding differs with their order, if nothing else does."""
    race, healthy = FIXTURES / "race.mlir", tmp_path / "healthy.mlir"
    inputs = ("--input", "262144xf32", "--input", "262144x1xi32=3", "--no-reduce", "--json")
    compiled: list[Path] = []

    def compared(kept: Path) -> Said:
        said = livedbg("diff-run", compiled[0] if compiled else race, *inputs, "--runs", "10", "--keep", kept)
        assert said.code in (0, 12), said.everything
        compiled.append(kept / "A.vmfb")
        return said

    found = json.loads(again(compared, lambda said: said.code == 12, tmp_path, 20).out)
    assert found["sentence"] == (
        f"main_dispatch_0 (iree_linalg_ext.scatter at {FIXTURES / 'race.mlir'}:7) is not deterministic on local-task: "
        "other outputs for equal inputs."
    )
    assert found["first"]["outputs"][0]["outside"] == 1
    healthy.write_text((FIXTURES / "race.mlir").read_text().replace("unique_indices(true)", "unique_indices(false)"))
    for module, device in ((healthy, "local-task"), (compiled[0], "local-sync")):
        said = livedbg("diff-run", module, *inputs, "--runs", "4", "--device", device)
        assert said.code == 0, said.everything
        assert json.loads(said.out)["sentence"] == "No dispatch and no result differs in 4 runs of each side."


@pytest.mark.heavy
def test_a_dispatch_that_makes_nan_on_both_sides_is_named(tmp_path: Path) -> None:
    said = livedbg("diff-run", NAN, "--input", "8xf32=1 2 -3 4 5 -6 7 8", "--keep", tmp_path / "kept")
    assert said.code == 0, said.everything
    assert "No dispatch and no result differs in 2 runs of each side." in said.out
    assert (
        f"main_dispatch_1 (linalg.generic at {NAN}:12) makes NaN on side A (local-task): 2 of 8 elements of output 0, "
        "first at [2]. Its inputs are finite."
    ) in said.out
    healthy = livedbg("diff-run", tmp_path / "kept" / "A.vmfb", "--input", "8xf32=1 2 3 4 5 6 7 8")
    assert healthy.code == 0 and "NaN" not in healthy.out


@pytest.mark.usefixtures("targets")
def test_a_wrong_input_shape_is_told_in_the_runtimes_words(folder: Path) -> None:
    said = livedbg("diff-run", folder / "A.vmfb", "--input", "63xf32", "--input", "64x32xf32")
    assert said.code == 11
    assert "A did not end well" in said.out and "input0 shape dimension 0 mismatch; expected 64 but have 63" in said.out


@pytest.mark.skipif(not SOFTWARE_VULKAN.exists(), reason="needs Mesa's Vulkan on the CPU (mesa-vulkan-drivers)")
@pytest.mark.heavy
def test_cpu_against_vulkan() -> None:
    env = {"VK_ICD_FILENAMES": str(SOFTWARE_VULKAN)}
    said = livedbg(
        *("diff-run", MODULE, "--device", "local-sync", "--device", "vulkan", "--rtol", "0", "--atol", "0"), env=env
    )
    assert said.code == 12, said.everything
    assert f"{PRODUCT} (linalg.vecmat at {MODULE}:15) is the first that differs." in said.out
    assert "Alone, with the same inputs, it differs too:" in said.out


@pytest.mark.invariant("iree_first.F1", "iree_calls.K1")
def test_two_compilations_that_cut_the_program_otherwise_have_no_dispatch_in_common(tmp_path: Path) -> None:
    compiler = find_compiler(None)
    flows = []
    for name, flags in (("apart", ()), ("fused", ("--iree-dispatch-creation-enable-aggressive-fusion",))):
        flow = tmp_path / f"{name}.mlir"
        targets = target_flags("local-task", "", flags)
        compile_module(
            [compiler, str(FIXTURES / "fused.mlir"), *targets, *flags, "--iree-opt-level=O0", "--compile-to=flow",
             "--mlir-print-debuginfo", "-o", str(flow)], 100.0,
        )  # fmt: skip
        flows.append(flow)
    both = calls_of_both((sys.executable, sys.executable), (flows[0], flows[1]))
    apart, fused = ([call.call.split("::")[0] for call in side] for side in both.sides)
    assert (apart, fused) == (["main_dispatch_0", "main_dispatch_1"], ["main_dispatch_0"])
    assert both.sides[0][0].call == both.sides[1][0].call, "of one name"
    assert both.mates == {}
    assert place_of(both.sides[1][0].operations) == "linalg.matmul at fused.mlir:6, :8"
    assert counterparts(both.sides[0], both.sides[0]) == {call.call: call.call for call in both.sides[0]}


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    bad = tmp_path / "bad.mlir"
    bad.write_text(MODULE.read_text().replace("linalg.vecmat", "linalg.vecmut"))
    said = livedbg("diff-run", bad)
    assert said.code == 3
    assert "bad.mlir:15:10: error: custom op 'linalg.vecmut' is unknown" in said.err
    said = livedbg("diff-run", MODULE, "--device", "cuda")
    assert said.code == 3 and "No device for cuda" in said.err
    assert livedbg("diff-run", tmp_path / "missing.mlir").code == 3
    assert livedbg("diff-run", MODULE, "--compiler", "/no/such/program").code == 3
    assert livedbg("diff-run", MODULE, *("--device", "local-sync") * 3).code == 2
