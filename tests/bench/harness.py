"""What the benches share: the 257-thread torch target with its heartbeat, timing, the result table."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

TARGETS = Path(__file__).parents[1] / "targets"
THREADS = 257


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result: a quantity, ours and the peer's, and what they are measured in."""

    what: str
    ours: float
    peer: str
    theirs: float
    unit: str
    budget: str = ""

    @property
    def ratio(self) -> float:
        """The peer's figure divided by ours."""
        return self.theirs / self.ours if self.ours else float("inf")

    def markdown(self) -> str:
        """The row of a Markdown table."""
        ratio = "∞" if self.ratio == float("inf") else f"{self.ratio:.3g}"
        if self.peer == "none":
            return f"| {self.what} | {self.ours:,.3g} {self.unit} | | | {self.budget} |"
        ours, theirs = f"{self.ours:.3g} {self.unit}", f"{self.theirs:.3g} {self.unit}"
        return f"| {self.what} | {ours} | {self.peer}: {theirs} | {ratio} | {self.budget} |"


class Heartbeat:
    """The longest gap between two beats of a target's heartbeat thread."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 4096)

    def pause_ms(self, action: Callable[[], object]) -> float:
        """The longest gap while `action` runs, in milliseconds."""
        time.sleep(0.3)
        self._map[:8] = bytes(8)
        action()
        time.sleep(0.05)
        return float(struct.unpack_from("<Q", self._map, 0)[0] / 1e6)

    def floor_ms(self) -> float:
        """The longest gap while nothing happens for two seconds."""
        return self.pause_ms(lambda: time.sleep(2))


@dataclass(frozen=True, slots=True)
class Target:
    """A running torch process with a heartbeat."""

    pid: int
    heart: Heartbeat


@contextlib.contextmanager
def torch_target(threads: int = THREADS) -> Iterator[Target]:
    """Start the torch target; it is killed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        library, beat = Path(folder) / "heartbeat.so", Path(folder) / "beat"
        source = TARGETS / "heartbeat.c"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
        argv = [sys.executable, str(TARGETS / "bench_torch.py"), str(threads), str(library), str(beat)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as child:
            try:
                assert child.stdout is not None
                assert child.stdout.readline().startswith("READY")
                time.sleep(1)
                yield Target(child.pid, Heartbeat(beat))
            finally:
                child.kill()


def run(*argv: str) -> float:
    """Run a command silently; seconds that it took, whatever its exit code."""
    started = time.perf_counter()
    # a pipe, not /dev/null: grep stops at the first match when nobody reads what it says
    subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def median(action: Callable[[], float], times: int = 3) -> float:
    """Median of several results."""
    return statistics.median(action() for _ in range(times))


def program(name: str) -> str:
    """A program beside this Python, or on the PATH.

    Raises:
        FileNotFoundError: it is not installed.
    """
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: make setup installs what the bench needs")
    return found
