"""Lines that say how far a run is, and lines that store what others logged."""

from __future__ import annotations

import pytest

from livedbg.logs.last_words import Words, forms, speaks_of_failure, step_of, stores_others
from tests.logs.test_wrapping import read


@pytest.mark.parametrize("name", forms())
def test_the_examples_of_each_table_of_words(name: str) -> None:
    words, form = Words(name), forms()[name]
    assert ([line for line in form["yes"] if not words(line)], [line for line in form["no"] if words(line)]) == ([], [])


def test_a_failure_is_found_among_lines() -> None:
    assert {speaks_of_failure(f"step 3\n{line}") for line in forms()["speaks"]["yes"]} == {1}


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (" 45%|####5     | 18/40 [01:30<00:22,  1.31it/s]", 18),
        ("2025-06-02 11:17:20,100 INFO rank 0 step 12 loss 2.380", 12),
        ("epoch 6 step 1200 loss 0.7", 1200),
        ("{'loss': 0.5, 'epoch': 1.25}", 1.25),
        ("Epoch [3/90] lr 0.1", 3),
        ("iter=400", 400),
        ("global_step: 7, loss 1", 7),
    ],
)
def test_the_step_of_a_line(line: str, step: float) -> None:
    assert step_of(line) == step


@pytest.mark.parametrize(
    "line",
    [
        "error at step 3",
        "resuming from step 12",
        "--max-steps 400",
        "saved checkpoint of step 12",
        "the next steps are 1. read, 2. write",
        "100%|##########| done",
    ],
)
@pytest.mark.invariant("last_words.M1")
def test_M1_a_line_that_only_names_a_step(line: str) -> None:
    assert step_of(line) is None


@pytest.mark.parametrize(
    "line",
    [
        'ts=2026-06-21T10:06:12.001Z caller=forward.go:77 level=info msg="stored event" line="RuntimeError: x"',
        '{"level":"info","ts":1718,"msg":"stored","line":"Traceback (most recent call last):"}',
        '2026-06-21 10:06:12.000000000 +0000 kube.var.log: {"log":"NVRM: Xid (PCI:0000:3b:00): 79"}',
    ],
)
def test_a_collector_s_line(line: str) -> None:
    assert all(map(stores_others, read(line)))


@pytest.mark.parametrize(
    "line",
    [
        'ts=2026-06-21T10:06:12.001Z caller=main.go:7 level=error msg="RuntimeError: x"',
        '{"level":"error","msg":"Traceback (most recent call last):"}',
        '{"log":"RuntimeError: x\\n","stream":"stderr","time":"2026-06-21T10:06:12Z"}',
        'Traceback (most recent call last):\n  File "x.py", line 3, in f\nKeyError: level=info',
    ],
)
def test_a_program_s_own_line(line: str) -> None:
    assert not any(map(stores_others, read(line)))
