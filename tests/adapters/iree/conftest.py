"""Real modules and programs of IREE for tests. The compiler and the runtime are wheels (test dependencies)."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import BUILD, TARGETS, Target

SOURCES: Final = TARGETS / "iree"
CALLS: Final = TARGETS / "iree_calls.py"
LAVAPIPE: Final = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")

Compile = Callable[..., Path]
RunModule = Callable[..., Target]

FOR: Final = {
    "cpu": (
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
    ),
    "vulkan": ("--iree-hal-target-device=vulkan", "--iree-vulkan-target=llvmpipe"),
}


def tool(name: str) -> Path:
    """A program of the runtime itself: what is in `bin` is a Python script that starts it."""
    package = importlib.util.find_spec("iree.runtime")
    if package is None or package.origin is None:
        pytest.skip("the wheels of IREE (iree-base-compiler, iree-base-runtime) are not installed")
    return Path(package.origin).parents[1] / "_runtime_libs" / name


@pytest.fixture(scope="session")
def compiled() -> Compile:
    """Compile tests/targets/iree/NAME.mlir once, for `cpu` or `vulkan`, with further flags; gives the module."""
    if importlib.util.find_spec("iree.compiler") is None:
        pytest.skip("the wheels of IREE (iree-base-compiler, iree-base-runtime) are not installed")

    def compile_once(name: str, *flags: str, device: str = "cpu") -> Path:
        source = SOURCES / f"{name}.mlir"
        marks = "".join(flag.strip("-").replace("=", "-").replace("/", "_") for flag in flags)
        module = BUILD / f"{name}.{device}{'.' if marks else ''}{marks}.vmfb"
        BUILD.mkdir(exist_ok=True)
        with (BUILD / f".{name}.{device}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not module.exists() or module.stat().st_mtime < source.stat().st_mtime:
                fresh = module.with_suffix(".new")
                command = [
                    Path(sys.executable).with_name("iree-compile"),
                    source.name,
                    *FOR[device],
                    *flags,
                    "-o",
                    fresh,
                ]
                subprocess.run(command, check=True, cwd=SOURCES, timeout=250)
                fresh.rename(module)
        return module

    return compile_once


@pytest.fixture
def run_module(spawn: Callable[..., Target]) -> RunModule:
    """Start iree-run-module with a module and further words."""

    def begin(module: Path, *words: str, program: str = "iree-run-module", device: str = "local-task") -> Target:
        line = [tool(program), f"--module={module}", f"--device={device}", "--function=main", *words]
        return spawn(line, wait_for=None)

    return begin


@pytest.fixture
def calls(spawn: Callable[..., Target]) -> Callable[[str, str, Path], Target]:
    """Start a case of tests/targets/iree_calls.py; it is ready when all is submitted."""

    def begin(case: str, device: str, module: Path) -> Target:
        tool("iree-run-module")
        return spawn([sys.executable, CALLS, case, device, module], env=vulkan_here())

    return begin


def vulkan_here() -> dict[str, str]:
    """An environment in which Vulkan is Mesa's lavapipe."""
    return {**os.environ, "VK_ICD_FILENAMES": str(LAVAPIPE)}


needs_lavapipe = pytest.mark.skipif(not LAVAPIPE.exists(), reason="no lavapipe here (mesa-vulkan-drivers)")
