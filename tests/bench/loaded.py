"""The same looks on a box on its knees: a job of ten spinning processes for each core, in a session of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

from tests.bench.attach import peers_of, report_on
from tests.bench.harness import Row, torch_target
from tests.bench.table import Figure

__all__ = ["rows"]

_EACH_CORE: Final = 10
_SLOW: Final = ("gdb thread apply all bt",)


def rows(repeats: int = 5) -> Iterator[Row]:
    """Measure, one row after the other; ours and each peer in turn, so that all of them meet the same machine."""
    with torch_target() as target, _spinning(_EACH_CORE * (os.cpu_count() or 1)) as count:
        commands: dict[str, Callable[[], float]] = {"": report_on(target.pid), **peers_of(target.pid)}
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(repeats):
            for name, run in commands.items():
                if not number or name not in _SLOW:
                    taken[name].append(run())
    what = f"a complete `report` beside {count} spinning processes"
    for name, seconds in taken.items():
        if name:
            yield Row(what, Figure(tuple(taken[""])), name, Figure(tuple(seconds)), "s")


_SPIN: Final = """
import os, sys
for _ in range(int(sys.argv[1]) - 1):
    if not os.fork():
        break
while True:
    pass
"""


@contextlib.contextmanager
def _spinning(count: int) -> Iterator[int]:
    argv = [sys.executable, "-c", _SPIN, str(count)]
    job = subprocess.Popen(argv, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield count
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
