"""The pieces of the bench, at sizes that measure nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import graph, logs, ordinary, scale
from tests.bench.harness import cost_of, cpu_of, switches
from tests.bench.table import Figure, Row, repeated


def test_a_row_says_the_ratio() -> None:
    row = Row("a thing", 2.0, "a peer", 5.0, "s", "< 3 s")
    assert row.markdown() == "| a thing | 2 s | a peer: 5 s | 2.5 | < 3 s | yes |"
    assert Row("a", 0.0, "b", 1.0, "s").markdown() == "| a | 0 s | b: 1 s | ∞ |  |  |"
    assert Row("a", 1.5, "none", 1.5, "/s").markdown() == "| a | 1.5 /s | | |  |  |"


def test_a_figure_of_repeats_says_its_spread() -> None:
    assert repeated(iter((3.0, 1.0, 2000.0)).__next__, 3).text("ms") == "3 ms (1 to 2,000, 3×)"
    assert Row("a", Figure((1.0, 2.0, 9.0)), "b", Figure((4.0,)), "s").ratio == 2.0


@pytest.mark.parametrize(
    ("budget", "ours", "theirs", "held"),
    [
        ("", 1, 1, None),
        ("< 2 s", 1.9, 0, True),
        ("< 2 s", 2, 0, False),
        ("≥ 100,000 s", 100_000, 0, True),
        ("≥ 1/4 of grep", 2, 9, False),
        ("≤ the peer's", 9, 9, True),
    ],
)
def test_a_budget_is_held_or_not(budget: str, ours: float, theirs: float, held: bool | None) -> None:
    assert Row("a", ours, "b", theirs, "s", budget).held is held


@pytest.mark.parametrize("budget", ["about 2 s", "< 2 ms", "noise"])
def test_a_budget_that_cannot_be_read_is_an_error(budget: str) -> None:
    with pytest.raises(ValueError, match="no budget"):
        Row("a", 1, "b", 1, "s", budget).markdown()


def test_the_cpu_of_a_process_counts_its_children() -> None:
    code = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.2: pass"
    used = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}]); print('done', flush=True); input()"
    )
    argv = [sys.executable, "-c", used]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "done\n"
        assert cpu_of(child.pid) >= 0.19
        assert list(switches(child.pid)) == [child.pid]
        child.communicate("\n")


def test_the_graph_bench_runs() -> None:
    found = list(graph.rows(tasks=500))
    assert "500 tasks" in found[0].what and all(0 < row.ratio < float("inf") for row in found)


@pytest.mark.heavy
def test_the_log_bench_runs() -> None:
    found = list(logs.rows(size=1 << 20, repeats=1))
    assert len(found) == 7 and all(0 < row.ratio < float("inf") for row in found)


@pytest.mark.heavy
def test_the_bench_of_ordinary_logs_runs() -> None:
    (row,) = ordinary.rows(["Megatron"], 1 << 20, 1)
    assert 0 < row.ratio < float("inf")


@pytest.mark.heavy
def test_the_bench_of_ranks_and_of_a_large_process_runs() -> None:
    two, two_cpu = scale._ranks(2, 2, 1)
    assert all(0 < row.ratio < float("inf") for row in (two, two_cpu)) and "on 2 processes" in two.what
    cpu, memory = scale._large((20, 400, 30), 1)
    assert "on 21 threads, " in cpu.what and cpu.ratio == memory.ratio == 1  # of nothing it would be without end


def test_the_cost_of_a_command_counts_its_children() -> None:
    code = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.2: pass"
    cpu_s, mib = cost_of(
        sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    )
    assert cpu_s >= 0.2 and mib > 1


def test_the_target_of_the_catch_bench_measures_its_throws_and_its_work(build_target: Callable[..., Path]) -> None:
    argv = [build_target("paced")]
    done = subprocess.run(argv, input="throw runtime 50 5000\nwork 10\n", capture_output=True, text=True, check=True)
    ready, throws, work = done.stdout.splitlines()
    median_ns, p90_ns, reached = map(float, throws.split()[1:])
    assert ready == "READY" and 0 < median_ns <= p90_ns and 0 < reached <= 5200
    assert float(work.split()[1]) > 0


def test_a_group_that_does_not_exist_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.bench", "nonsense"], capture_output=True, check=False)
    assert done.returncode == 2 and b"no such group" in done.stderr
