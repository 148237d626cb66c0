"""`report --logs` on big logs of jobs in good health, by CPU time, against grep."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from tests.bench.harness import Row, cost_of, program
from tests.bench.logs import WORDS, roomy
from tests.bench.table import repeated
from tests.logs.ordinary import SHAPES, write

__all__ = ["rows"]


def rows(shapes: Iterable[str] = SHAPES, size: int = 20_000_000, repeats: int = 3) -> Iterator[Row]:
    """Measure on a log of each shape, the start of livedbg subtracted."""
    with tempfile.TemporaryDirectory(dir=roomy()) as folder:
        log = Path(folder) / "job.log"
        report = (program("livedbg"), "report", "--logs", folder, "--json", "--timeout", "1000")
        grep = (program("grep"), "-c", "-E", WORDS, str(log))
        log.write_text("a line\n")
        start_s = min(cost_of(*report)[0] for _ in range(3))
        for shape in shapes:
            lines = write(shape, log, size)
            mb = log.stat().st_size / 1e6
            ours = repeated(partial(_rate, mb, start_s, *report), repeats)
            theirs = repeated(partial(_rate, mb, 0, *grep), repeats)
            what = f"`report --logs`, {lines:,} lines: {shape}"
            yield Row(what, ours, f"grep -c -E of {WORDS.count('|') + 1} words", theirs, "MB/s")


def _rate(mb: float, start_s: float, *argv: str) -> float:
    return mb / max(cost_of(*argv)[0] - start_s, 1e-3)
