"""Running the command line as users do: in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import TARGETS, Target, settled

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


@contextlib.contextmanager
def running(*argv: str | Path, busy: bool = False) -> Iterator[Target]:
    """A program that has said READY and come to rest, where it does; it is ended afterwards."""
    process = subprocess.Popen(
        list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
    )
    target = Target(process, "")
    try:
        while "READY" not in target.ready:
            target.ready = target.line(60)
        if not busy:
            settled(target.pid)
        yield target
    finally:
        target.kill()


@pytest.fixture(scope="module")
def stuck(build_target: Callable[..., Path]) -> Iterator[Target]:
    """A C++ program with three threads in a cycle of locks; one for all tests of a module, which only look."""
    with running(build_target("hang_cases", "-std=c++17"), "lock-cycle") as target:
        yield target


@pytest.fixture(scope="module")
def idle() -> Iterator[Target]:
    """A Python program that waits for input; one for all tests of a module, which only look."""
    with running(sys.executable, TARGETS / "hang_py.py", "idle-queue") as target:
        yield target
