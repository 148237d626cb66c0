"""What the benches share: the 257-thread torch target with its heartbeat, and what a process costs by /proc."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.table import Row

__all__ = [
    "TARGETS",
    "THREADS",
    "Heartbeat",
    "Row",
    "Target",
    "cost_of",
    "cpu_of",
    "program",
    "run",
    "switches",
    "torch_target",
]

TARGETS = Path(__file__).parents[1] / "targets"
THREADS = 257


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
def torch_target(threads: int = THREADS, *, busy: bool = False) -> Iterator[Target]:
    """Start the torch target, whose threads wait for a lock or (`busy`) work now and then; it is killed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        library, beat = Path(folder) / "heartbeat.so", Path(folder) / "beat"
        source = TARGETS / "heartbeat.c"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
        argv = [
            sys.executable,
            str(TARGETS / "bench_torch.py"),
            str(threads),
            str(library),
            str(beat),
            *["busy"][:busy],
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, text=True, env=environment, stderr=subprocess.DEVNULL
        ) as child:
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


def cost_of(*argv: str) -> tuple[float, float]:
    """Run a command silently: CPU seconds of it and of all that it waited for, and the memory of its processes in MiB.

    The memory is the sum of what each process had at most (VmHWM), seen every 10 ms.
    """
    silent = subprocess.DEVNULL
    with subprocess.Popen(argv, stdout=silent, stderr=silent, stdin=silent) as child:
        peaks: dict[int, int] = {}
        done = 0
        while not done:
            for pid in _family(child.pid):
                with contextlib.suppress(OSError, IndexError):  # it has ended
                    status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
                    peaks[pid] = int(status.partition("VmHWM:")[2].split(maxsplit=1)[0])
            time.sleep(0.01)
            done, status_code, used = os.wait4(child.pid, os.WNOHANG)
        child.returncode = os.waitstatus_to_exitcode(status_code)
    return used.ru_utime + used.ru_stime, sum(peaks.values()) / 1024


def _family(root: int) -> Iterator[int]:
    """A process and those below it (proc_tid_children(5))."""
    yield root
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{root}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def cpu_of(root: int) -> float:
    """CPU seconds that a process and its children, also those that have ended, have used by the kernel's count."""
    ticks, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                ticks[int(entry.name)] = sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime: proc(5)
                parents[int(entry.name)] = int(fields[1])
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def switches(pid: int) -> dict[int, int]:
    """How often each thread of a process has been switched away from, of itself or not."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        found[int(task.name)] = sum(int(line.rpartition("\t")[2]) for line in lines if "ctxt_switches" in line)
    return found


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
