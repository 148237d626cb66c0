"""The programs that the chaos test strikes at: each counts in a file, so that it is seen to go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.touch.health import COUNTERS

__all__ = ["AIMS", "Aim", "Running"]

_TARGETS: Final = Path(__file__).parents[1] / "targets"


class Aim(NamedTuple):
    """A kind of program.

    Attributes:
        source: its file in tests/targets.
        arguments: behind the file of counters.
        layout: its counters, all of which must move.
        thrown: what it throws, for catchpoints.
    """

    name: str
    source: str
    arguments: tuple[str, ...]
    layout: tuple[str, ...]
    thrown: str

    def argv(self, folder: Path) -> list[str]:
        """What starts it; compiled first where it must be."""
        source = _TARGETS / self.source
        if source.suffix == ".py":
            return [sys.executable, str(source), str(folder / self.name), *self.arguments]
        program = folder / f"{self.name}.program"
        subprocess.run(["g++", "-O1", "-g", "-pthread", str(source), "-o", str(program)], check=True, timeout=100)
        return [str(program), str(folder / self.name), *self.arguments]


AIMS: Final = (
    Aim("thrower", "thrower.cpp", ("3", "2000", "1"), COUNTERS, "std::runtime_error"),
    Aim(
        "tree",
        "tree.cpp",
        ("5000",),
        ("heartbeat", "thrown", "forks", "execs", "spawns", "threads", "child"),
        "std::runtime_error",
    ),
    Aim("torch", "torch_thrower.py", ("0.01",), ("heartbeat", "first", "second", "third"), "c10::Error"),
)


class Running:
    """A running program of a kind. A context manager: it is ended with all of its session.

    Attributes:
        counted: its file of counters.
    """

    def __init__(self, aim: Aim, parent: Path) -> None:
        folder = Path(tempfile.mkdtemp(dir=parent))
        self.aim = aim
        self.counted = folder / aim.name
        self._process = subprocess.Popen(
            aim.argv(folder), stdout=subprocess.PIPE, start_new_session=True, stderr=subprocess.DEVNULL
        )
        self.pid = self._process.pid

    def __enter__(self) -> Running:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"READY\n"
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.pid, signal.SIGKILL)  # with children that a wrong round left stopped
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
