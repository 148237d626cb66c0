"""A program that launches through stand-ins for CUDA's libraries: the same functions, which do nothing."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

TARGETS = Path(__file__).parents[2] / "targets"
BUILD = TARGETS / "build"


def _built(name: str, *flags: str) -> Path:
    BUILD.mkdir(exist_ok=True)
    source, made = TARGETS / "cuda_standin.c", BUILD / name
    with (BUILD / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(
                ["gcc", "-O1", "-shared", "-fPIC", "-fno-optimize-sibling-calls", *flags, source, "-o", made],
                check=True,
            )
    return made


@pytest.fixture(scope="session")
def libraries() -> tuple[str, str]:
    """The stand-ins for libcuda.so.1 and libcudart.so.12."""
    return str(_built("libcuda.so.1")), str(_built("libcudart.so.12", "-DRUNTIME"))


@pytest.fixture
def launcher(build_target: Callable[..., Path], spawn: Callable[..., object], libraries: tuple[str, str]) -> object:
    """A process that launches as it is told."""
    return spawn([build_target("cuda_launcher"), *libraries], wait_for="READY")
