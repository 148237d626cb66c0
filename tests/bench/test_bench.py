"""The pieces of the bench, at sizes that measure nothing."""

from __future__ import annotations

import subprocess
import sys

from tests.bench import graph, logs
from tests.bench.harness import Row


def test_a_row_says_the_ratio() -> None:
    row = Row("a thing", 2.0, "a peer", 5.0, "s", "< 3 s")
    assert row.markdown() == "| a thing | 2 s | a peer: 5 s | 2.5 | < 3 s |"
    assert Row("a", 0.0, "b", 1.0, "s").markdown() == "| a | 0 s | b: 1 s | ∞ |  |"
    assert Row("a", 1.5, "none", 1.5, "/s").markdown() == "| a | 1.5 /s | | |  |"


def test_the_graph_bench_runs() -> None:
    found = list(graph.rows(tasks=2000))
    assert "2,000 tasks" in found[0].what and all(row.ours > 0 for row in found)


def test_the_log_bench_runs() -> None:
    found = list(logs.rows(size=1 << 20))
    assert len(found) == 5 and all(row.ours > 0 for row in found)


def test_a_group_that_does_not_exist_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.bench", "nonsense"], capture_output=True, check=False)
    assert done.returncode == 2 and b"no such group" in done.stderr
