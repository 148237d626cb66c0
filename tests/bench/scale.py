"""CPU time and memory of a `report`: of a torch process, of ten ranks of one program, of a very large process.

CPU time is user and system time of livedbg and of all that it has started and waited for. It depends less on what else
a machine does than wall time.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.bench.harness import TARGETS, Row, cost_of, program, torch_target
from tests.bench.table import Figure

__all__ = ["rows"]

_RANK: Final = """
import sys, threading
lock = threading.Lock()
lock.acquire()
for number in range(int(sys.argv[1])):
    threading.Thread(target=lock.acquire, daemon=True).start()
print("READY", flush=True)
lock.acquire()
"""
_RANKS: Final = 10
_LARGE: Final = (4_000, 51_000, 20_000)


def rows(repeats: int = 5, large: Sequence[int] = _LARGE, ranks: int = _RANKS, threads: int = 16) -> Iterator[Row]:
    """Measure, one row after the other."""
    with torch_target() as target:
        yield from _torch(str(target.pid), repeats)
    yield from _ranks(ranks, threads, repeats)
    yield from _large(large, repeats)


def _torch(pid: str, repeats: int) -> Iterator[Row]:
    """Ours and each peer in turn, so that all of them meet the same machine."""
    commands = {
        "livedbg": (program("livedbg"), "report", pid, "--for", "0", "--json"),
        "pystack remote --native": (program("pystack"), "remote", "--native", pid),
        "pystack remote": (program("pystack"), "remote", pid),
        "py-spy dump": (program("py-spy"), "dump", "--pid", pid),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, argv in commands.items():
            taken[name].append(cost_of(*argv))
    cpu = {name: Figure(tuple(cpu_s for cpu_s, _ in costs)) for name, costs in taken.items()}
    memory = {name: Figure(tuple(mib for _, mib in costs)) for name, costs in taken.items()}
    for name in list(commands)[1:]:
        budget = "≤ the peer's" if "--native" in name else ""
        yield Row(
            "CPU time of a `report` on a torch process of 257 threads", cpu["livedbg"], name, cpu[name], "s", budget
        )
    what = "memory of all of its processes together, at most"
    yield Row(what, memory["livedbg"], "pystack remote --native", memory["pystack remote --native"], "MiB", "≤ 150 MiB")


def _ranks(ranks: int, threads: int, repeats: int) -> Iterator[Row]:
    with contextlib.ExitStack() as stack:
        pids = [str(stack.enter_context(_running([sys.executable, "-c", _RANK, str(threads)]))) for _ in range(ranks)]
        one = [cost_of(program("livedbg"), "report", pids[0], "--for", "0", "--json") for _ in range(repeats)]
        all_ = [cost_of(program("livedbg"), "report", *pids, "--for", "0", "--json") for _ in range(repeats)]
    what = f"a `report` on {ranks} processes of one Python program"
    memory = [Figure(tuple(mib for _, mib in costs)) for costs in (all_, one)]
    yield Row(f"memory of {what}, at most", memory[0], "on one of them", memory[1], "MiB", "≤ 5/2 of one")
    cpu = [Figure(tuple(cpu_s for cpu_s, _ in costs)) for costs in (all_, one)]
    yield Row(f"CPU time of {what}", cpu[0], "on one of them", cpu[1], "s")


def _large(counts: Sequence[int], repeats: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "large"
        subprocess.run(["gcc", "-O2", "-pthread", "-o", built, TARGETS / "large.c"], check=True)
        with _running([str(built), *map(str, counts)]) as pid:  # a host may allow fewer of each
            found = [len(os.listdir(f"/proc/{pid}/{kind}")) for kind in ("task", "fd")]  # noqa: PTH208
            mappings = Path(f"/proc/{pid}/maps").read_bytes().count(b"\n")
            costs = [cost_of(program("livedbg"), "report", str(pid), "--for", "0", "--json") for _ in range(repeats)]
    what = f"a `report` on {found[0]:,} threads, {mappings:,} mappings, {found[1]:,} descriptors"
    cpu = Figure(tuple(cpu_s for cpu_s, _ in costs))
    yield Row(f"CPU time of {what}", cpu, "none", cpu, "s", "< 3 s")
    memory = Figure(tuple(mib for _, mib in costs))
    yield Row("its memory, at most", memory, "none", memory, "MiB")


@contextlib.contextmanager
def _running(argv: list[str]) -> Iterator[int]:
    """Start a program, wait until it says that it is ready, and kill it in the end."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as child:
        try:
            assert child.stdout is not None and child.stdout.readline().startswith("READY")
            yield child.pid
        finally:
            child.kill()
