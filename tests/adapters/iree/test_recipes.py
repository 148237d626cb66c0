"""IREE's recipes on the real compiler and runtime: each flag's effect is seen, or reported missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from livedbg.adapters.iree.sanitized import unmarked
from livedbg.recipes import Ended, plan, recipes, without_effect
from livedbg.recipes.effects import Seen, Witness
from tests.adapters.iree.conftest import LAVAPIPE, SOURCES, Compile, needs_lavapipe, tool, vulkan_here
from tests.cli.zygote import run_livedbg
from tests.waiting import again

pytestmark = pytest.mark.iree

COMPILE: Final = (
    "gated.mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)  # fmt: skip
INPUTS: Final = ("--function=main", "--input=16x16xf32=1", "--input=16x16xf32=0.25", "--input=16x32xf32=0.1")
SANITIZED: Final = ("--iree-llvmcpu-sanitize=address", "--iree-llvmcpu-link-embedded=false")
_TRIES: Final = 20
"""What a process of half a second has loaded is not seen each time: it is sampled."""
OF_STAGE: Final = ("--function=main", "--input=32x32xf32=1", "--input=32x32xf32=0.1")


def _find(program: str) -> str:
    return program if program.startswith("/") else f"/usr/bin/{program}"


def _compiles(folder: Path) -> list[str | Path]:
    return [Path(sys.executable).with_name("iree-compile"), *COMPILE, "-o", folder / "made.vmfb"]


def _said(name: str, option: str, command: list[str | Path], folder: Path) -> tuple[int, str, str]:
    """Run a command with a recipe: its exit code, what is said of the recipe, and what the command printed."""
    recipe = recipes()[0][name]
    made = plan([(recipe, option or recipe.default)], folder, os.environ, find=_find)
    for made_here in (folder, *map(Path, made.folders)):
        made_here.mkdir(parents=True, exist_ok=True)
    out, err = folder / "out.log", folder / "err.log"
    with out.open("wb") as output, err.open("wb") as errors:
        process = subprocess.Popen(
            [*made.wrapper, *map(str, command), *made.arguments],
            stdout=output,
            stderr=errors,
            cwd=SOURCES,
            env={**vulkan_here(), **made.environment},
        )
        witness = Witness(process.pid, set(made.environment))
        code = process.wait(250)
        processes: tuple[Seen, ...] = tuple(witness.stop())
    sentences = without_effect(made.parts, Ended([out, err], processes, folder=folder))
    return code, " ".join(sentences), out.read_text() + err.read_text()


@pytest.mark.parametrize(
    ("name", "option", "file"),
    [
        ("iree-trace-tensors", "", "phases/gated.6.flow.mlir"),
        ("iree-trace-dispatch", "@main:1", "phases/gated.6.flow.mlir"),
        ("iree-break-dispatch", "@main:1", "phases/gated.6.flow.mlir"),
        ("iree-phases", "", "phases/gated.12.vm.mlir"),
        ("iree-print-ir", "iree-flow-outline-dispatch-regions", ""),
        ("iree-executables", "", "executables/gated_main_dispatch_0.mlir"),
        ("iree-graph", "", "dispatches.dot"),
        ("iree-sanitize", "address", "phases/gated.8.executable-sources.mlir"),
    ],
)
def test_flags_of_the_compiler_are_seen_to_act(
    compiled: Compile, name: str, option: str, file: str, tmp_path: Path
) -> None:
    code, said, printed = _said(name, option, _compiles(tmp_path), tmp_path)
    assert (code, said) == (0, ""), printed[-1000:]
    assert (tmp_path / file).exists()


def test_a_module_with_instruments_that_can_not_be_loaded_is_reported(compiled: Compile, tmp_path: Path) -> None:
    code, said, _ = _said("iree-instrument", "", _compiles(tmp_path), tmp_path)
    assert code == 0 and "can not be loaded" in said


def test_a_changed_source_of_a_dispatch_replaces_it(compiled: Compile, tmp_path: Path) -> None:
    folder, compiling = tmp_path / "changed", _compiles(tmp_path)
    dumps = [*compiling, "--compile-to=executable-targets", f"--iree-hal-dump-executable-sources-to={folder}"]
    dumped = subprocess.run(list(map(str, dumps)), cwd=SOURCES, capture_output=True, check=False, timeout=250)
    assert dumped.returncode == 0 and list(folder.glob("*.mlir"))
    code, said, printed = _said("iree-substitute", str(folder), compiling, tmp_path)
    assert (code, said) == (0, ""), printed[-1000:]
    (tmp_path / "empty").mkdir()
    _, said, printed = _said("iree-substitute", str(tmp_path / "empty"), compiling, tmp_path)
    assert "had no visible effect" in said and "No file of the folder" in said, printed[-1000:]


def test_a_dispatch_of_another_name_is_reported(compiled: Compile, tmp_path: Path) -> None:
    _, said, printed = _said("iree-trace-dispatch", "no_such_dispatch", _compiles(tmp_path), tmp_path)
    assert "had no visible effect" in said and "No dispatch has that name" in said, printed[-1000:]


def _runs(module: Path) -> list[str | Path]:
    return [tool("iree-run-module"), f"--module={module}", "--device=local-task", *INPUTS]


@pytest.mark.parametrize("name", ["iree-profile", "iree-replay", "iree-statistics", "iree-one-worker", "iree-abort"])
def test_flags_of_the_runtime_are_seen_to_act(compiled: Compile, name: str, tmp_path: Path) -> None:
    command = _runs(compiled("gated"))
    code, said, printed = again(
        lambda folder: _said(name, "", command, folder), lambda seen: seen[:2] == (0, ""), tmp_path, _TRIES
    )
    assert (code, said) == (0, "") and "16x8xf32=" in printed, said + printed[-1000:]


def test_a_flag_that_another_program_does_not_know_is_reported(compiled: Compile, tmp_path: Path) -> None:
    _, said, _ = _said("iree-profile", "", [tool("iree-dump-module"), compiled("gated")], tmp_path)
    assert "has no flag --device_profiling_mode" in said


def test_a_trace_of_the_virtual_machine_is_not_in_the_wheel(compiled: Compile, tmp_path: Path) -> None:
    command = _runs(compiled("gated"))
    code, said, _ = _said("iree-vm-trace", "", command, tmp_path)
    assert code == 0 and "IREE_VM_EXECUTION_TRACING_FORCE_ENABLE" in said


def test_a_read_beyond_a_buffer_is_caught_and_its_dispatch_named(compiled: Compile, tmp_path: Path) -> None:
    """Compiled with one recipe, run with the other, and what the sanitizer prints read as a log."""
    module, compiler = tmp_path / "gather.vmfb", Path(sys.executable).with_name("iree-compile")
    command: list[str | Path] = [compiler, "gather.mlir", *COMPILE[1:], "-o", module]
    code, said, printed = _said("iree-sanitize", "address", command, tmp_path / "compile")
    assert (code, said) == (0, ""), printed[-1000:]
    run = [tool("iree-run-module"), f"--module={module}", "--device=local-task", "--function=main", "--input=64xf32=1"]
    code, said, printed = _said("iree-asan", "", [*run, "--input=256xi32=63"], tmp_path / "inside")
    assert code == 0 and "AddressSanitizer" not in printed, printed[-1000:]
    code, said, printed = _said("iree-asan", "", [*run, "--input=256xi32=100"], tmp_path / "outside")
    assert code != 0 and not said, printed[-1000:]
    done = run_livedbg(["report", "--logs", tmp_path / "outside" / "err.log", "--json"], 100)
    verdict = json.loads(done.stdout)["verdict"]
    assert verdict["state"] == "crashed" and done.returncode == 11
    assert "heap-buffer-overflow, in main_dispatch_0_elementwise_256_i32xf32 at line 3" in verdict["sentence"]
    assert "READ of size 4" in verdict["sentence"]


@pytest.mark.invariant("iree_sanitized.U1")
def test_U1_only_a_library_with_one_header_that_has_the_mark_is_changed(compiled: Compile) -> None:
    marked = compiled("gated", *SANITIZED).read_bytes()
    made, changed = unmarked(marked)
    assert changed == 1 and sum(a != b for a, b in zip(made, marked, strict=True)) == 1
    assert unmarked(made) == (made, 0)
    plain = compiled("gated").read_bytes()
    assert unmarked(plain) == (plain, 0)
    [at] = [at for at, (a, b) in enumerate(zip(made, marked, strict=True)) if a != b]
    twice = bytearray(marked)
    twice[at + 4 : at + 28] = marked[at - 20 : at + 4]
    assert unmarked(bytes(twice)) == (bytes(twice), 0)
    for cut in range(0, len(marked), 997):
        unmarked(marked[:cut])


def test_a_module_with_a_sanitizer_needs_a_runtime_with_it(compiled: Compile, tmp_path: Path) -> None:
    module = compiled("gated", *SANITIZED)
    command = _runs(module)
    recipe = recipes()[0]["iree-sanitize"]
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False, timeout=100)
    (tmp_path / "err.log").write_bytes(done.stderr)
    made = plan([(recipe, "address")], tmp_path, {})
    said = " ".join(without_effect(made.parts, Ended([tmp_path / "err.log"])))
    assert done.returncode != 0 and "built without ASAN" in said


@needs_lavapipe
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("iree-vulkan-validation", ""),
        ("iree-vulkan-layer", ""),
        ("iree-vulkan-robust", ""),
        ("iree-vulkan-api-dump", "Debian 12 has no package of it"),
    ],
)
def test_layers_of_vulkan_are_seen_to_be_loaded_or_reported_missing(
    compiled: Compile, name: str, said: str, tmp_path: Path
) -> None:
    assert LAVAPIPE.exists()
    module = compiled("stage", device="vulkan")
    command: list[str | Path] = [tool("iree-run-module"), f"--module={module}", "--device=vulkan", *OF_STAGE]

    def as_said(seen: tuple[int, str, str]) -> bool:
        return seen[0] == 0 and said in seen[1] and bool(said) == bool(seen[1])

    seen = again(lambda folder: _said(name, "", command, folder), as_said, tmp_path, _TRIES)
    assert as_said(seen), seen
