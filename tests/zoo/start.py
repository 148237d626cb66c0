"""Starts programs of the zoo."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.zoo.cases import Case

__all__ = ["build", "started"]

_READY_S: Final = 120.0


def build(case: Case, folder: Path) -> None:
    """Build its program into a folder, unless that is there."""
    if case.build:
        words = _filled(case.build, folder, folder)
        if not Path(next(word for word in words if word.startswith(str(folder)))).exists():
            subprocess.run(words, check=True, capture_output=True)


def _filled(words: tuple[str, ...], folder: Path, build: Path) -> list[str]:
    return [word.replace("{tmp}", str(folder)).replace("{build}", str(build)) for word in words]


def _reads(file: int, word: str, ready: threading.Event) -> None:
    """Read all that a program says, so that it never waits for us."""
    seen = b""
    with contextlib.suppress(OSError):
        while block := os.read(file, 65_536):
            seen = (seen + block)[-100_000:]
            if word and word.encode() in seen:
                ready.set()


@contextlib.contextmanager
def started(case: Case, folder: Path, build: Path, *, settle: bool = True) -> Iterator[int]:
    """The process to report on.

    Args:
        case: the program.
        folder: of its own.
        build: where its program is.
        settle: wait until it is what it is said to be, and not only until it says that it is ready.
    """
    ours, theirs = pty.openpty()
    asks, answers = os.pipe()
    process = subprocess.Popen(
        _filled(case.argv, folder, build),
        stdin=theirs if case.keys else asks,  # an input that stays open and says nothing
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", **case.environment},
    )
    os.close(theirs)
    ready = threading.Event()
    threading.Thread(target=_reads, args=(ours, case.ready, ready), daemon=True).start()
    try:
        if case.ready and not ready.wait(_READY_S):
            raise TimeoutError(f"{case.name} was not ready in {_READY_S:.0f} s")
        if settle:
            time.sleep(case.settle_s)
        yield _pid(case, process.pid, str(build))
    finally:
        _end(process)
        for file in (asks, answers):
            os.close(file)


def _pid(case: Case, started: int, build: str) -> int:
    if not case.which:
        return started
    word = case.which.replace("{build}", build)
    found = subprocess.run(["pgrep", "-nf", "--", word], capture_output=True, text=True, check=False).stdout.split()
    return int(found[0]) if found else started


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and all that it started."""
    tree = subprocess.run(["pgrep", "-s", str(process.pid)], capture_output=True, text=True, check=False).stdout.split()
    for pid in (*map(int, tree), process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(60)
