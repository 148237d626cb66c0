"""Running the command line as users do: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import TARGETS, Target

ASCEND = Path(__file__).parents[1] / "fixtures" / "ascend"


@dataclass(frozen=True)
class Said:
    """What a command line printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def everything(self) -> str:
        return self.out + self.err


def livedbg(*words: str | Path | int, env: dict[str, str] | None = None, prefix: Sequence[str] = ()) -> Said:
    """Run `livedbg WORDS`; it must never show a traceback."""
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "livedbg", *map(str, words)],
        capture_output=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
        check=False,
    )
    said = Said(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in said.err, said.err
    return said


@pytest.fixture
def stuck(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    """A C++ program with three threads in a cycle of locks."""
    return spawn([build_target("hang_cases", "-std=c++17"), "lock-cycle"])


@pytest.fixture
def idle(spawn: Callable[..., Target]) -> Target:
    """A Python program that waits for input."""
    return spawn([sys.executable, TARGETS / "hang_py.py", "idle-queue"])
