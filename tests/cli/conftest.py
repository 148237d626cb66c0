"""Running the command line as users do: in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from livedbg.model.errors import RecordingError
from livedbg.session.replay import last_update
from livedbg.session.view import NOTHING_YET, Update
from tests.cli.zygote import Livedbg, patient, run_livedbg
from tests.conftest import TARGETS, Target, eventually, settled, start

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
    env = {**os.environ, **(env or {})}
    if not prefix:
        done = run_livedbg(words, env=env)
    else:
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "livedbg", *patient(map(str, words))],
            capture_output=True,
            timeout=200,
            stdin=subprocess.DEVNULL,
            env=env,
            check=False,
        )
    said = Said(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in said.err, said.err
    return said


@contextlib.contextmanager
def recording(file: Path, *words: str | Path | int) -> Iterator[subprocess.Popen[bytes]]:
    """A `livedbg record WORDS` that writes a file, ended by Ctrl-C where it has not ended by itself."""
    argv = ["record", "-o", file, *words]
    with Livedbg(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            eventually(lambda: process.poll() is not None or so_far(file).snapshot.revision > 0)
            yield process
            process.send_signal(signal.SIGINT)
            process.wait(100)
        finally:
            process.kill()


def so_far(file: Path) -> Update:
    """What a recording that grows says by now."""
    try:
        return last_update(file)[0]
    except RecordingError:
        return NOTHING_YET  # it has no first line yet


def longer(limit_s: float, holds: Callable[[float], bool]) -> None:
    """What needs some time that its user sets: it must hold with a limit that is long enough for this box.

    Args:
        limit_s: the first limit, long enough for a quiet box.
        holds: whether it holds with a limit; whatever must hold with any limit, it asserts itself.
    """
    while not holds(limit_s):
        limit_s *= 4
        assert limit_s < 100, "it does not hold, however long the limit is"


@contextlib.contextmanager
def running(*argv: str | Path, busy: bool = False) -> Iterator[Target]:
    """A program that has said READY and come to rest, where it does; it is ended afterwards."""
    target = start(argv)
    try:
        target.until("READY")
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
