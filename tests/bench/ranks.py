"""What livedbg costs a training loop of two ranks while it looks, and what it uses itself."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.app.terminal import Terminal
from tests.bench.harness import TARGETS, Row, cpu_of, program
from tests.bench.table import Figure

_RANKS: Final = 2
_SETTLE_S: Final = 20.0
_EXECUTED: Final = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"


def rows(rounds: int = 4, seconds: float = 15.0) -> Iterator[Row]:
    """Measure, one row after the other: the kinds of looking take turns with windows in which nobody looks."""
    with tempfile.TemporaryDirectory(prefix="livedbg-bench-") as folder, _training(Path(folder)) as job:
        pid = str(job.pid)
        kinds = {
            "attach": ["attach", pid],
            "record": ["record", pid, "-o", str(Path(folder) / "r.livedbg"), "--force"],
            "watch": ["watch", pid],
        }
        alone: list[float] = []
        beside: dict[str, list[float]] = {kind: [] for kind in kinds}
        used: dict[str, list[float]] = {kind: [] for kind in kinds}
        memory: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind, words in kinds.items():
                alone.append(job.steps_per_cpu_s(seconds))
                with Terminal(program("livedbg"), *words, size=(80, 24), program=_EXECUTED, fresh=True) as terminal:
                    _take(terminal, _SETTLE_S)
                    before, begun, own = job.taken(), time.monotonic(), cpu_of(terminal.process.pid)
                    _take(terminal, seconds)
                    after, took_s = job.taken(), time.monotonic() - begun
                    beside[kind].append((after[0] - before[0]) / (after[1] - before[1]))
                    used[kind].append(100 * (cpu_of(terminal.process.pid) - own) / took_s / _RANKS)
                    memory[kind].append(_resident_mib(terminal.process.pid))
                    assert terminal.process.poll() is None, terminal.output[-2000:]
    noise = Figure(tuple(alone))
    for kind in kinds:
        steps = Figure(tuple(beside[kind]))
        yield Row(
            f"steps of a training loop of {_RANKS} ranks a CPU second, with `{kind}`", steps, "alone", noise, "/s"
        )
    for kind in kinds:
        share = Figure(tuple(used[kind]))
        yield Row(f"CPU of `{kind}` meanwhile, of one core, a rank", share, "none", share, "%", "≤ 2 %")
        yield Row(f"memory of `{kind}`", Figure(tuple(memory[kind])), "none", 0.0, "MiB")


class _Training:
    """The running job.

    Args:
        pid: of the process that started the ranks.
        file: where they count their steps.
    """

    def __init__(self, pid: int, file: Path) -> None:
        self.pid = pid
        self._file = file

    def taken(self) -> tuple[int, float]:
        """Steps of the slower rank so far, and the CPU seconds of all ranks."""
        return min(struct.unpack(f"<{_RANKS}Q", self._file.read_bytes())), cpu_of(self.pid)

    def steps_per_cpu_s(self, seconds: float) -> float:
        """Steps for each CPU second of the ranks, in a window of time."""
        steps, cpu_s = self.taken()
        time.sleep(seconds)
        more, more_s = self.taken()
        return (more - steps) / (more_s - cpu_s)


@contextlib.contextmanager
def _training(folder: Path) -> Iterator[_Training]:
    file = folder / "steps"
    file.write_bytes(bytes(8 * _RANKS))
    argv = [sys.executable, str(TARGETS / "torch_training.py"), str(file)]
    none = subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=none, stdout=subprocess.PIPE, stderr=none, text=True, process_group=0) as child:
        try:
            assert child.stdout is not None and child.stdout.readline().startswith("READY")
            job = _Training(child.pid, file)
            while job.taken()[0] < 50:
                assert child.poll() is None
                time.sleep(0.1)
            yield job
        finally:
            os.killpg(child.pid, 9)


def _take(terminal: Terminal, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.pump(0.2)


def _resident_mib(root: int) -> float:
    """What a process and its children have in memory."""
    total = 0
    todo = [root]
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError, IndexError):
            status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
            total += int(status.partition("VmRSS:")[2].split(maxsplit=1)[0])
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    return total / 1024
