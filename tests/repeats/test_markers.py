"""Markers: known ones, and those that are found because they repeat."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.repeats import marking
from livedbg.repeats.marking import Marker, Ran, compared, found_pairs, known_pairs, last_open, lines_of, marked
from livedbg.repeats.outcome import RunEnd

TRACE = Path(__file__).parents[1] / "fixtures" / "repeats" / "nvfuser-trace.json"


def test_known_pairs_tell_what_is_open() -> None:
    for lines, text in (
        (["Running pass 1...", "Finished pass 1", "Running pass 2…"], "Running pass 2…"),
        (["Running a...", "Running b...", "Finished b: 3 kernels"], "Running a..."),
        (
            ["[ RUN      ] Fusion.One", "[       OK ] Fusion.One (3 ms)", "[ RUN      ] Fusion.Two"],
            "[ RUN      ] Fusion.Two",
        ),
        (["[ RUN      ] A.B", "[  FAILED  ] A.B (0 ms)", "[ RUN      ] C.D"], "[ RUN      ] C.D"),
        (
            ["make[1]: Entering directory '/x'", "make[2]: Entering directory '/x'", "make[2]: Leaving directory '/x'"],
            "make[1]: Entering directory '/x'",
        ),
        (["    Start 1: first", "1/2 Test #1: first ....   Passed", "    Start 2: second"], "Start 2: second"),
    ):
        found = last_open([compared(line) for line in lines], known_pairs())
        assert found is not None and found.text == text


@pytest.mark.invariant("marking.A1")
def test_K1_an_end_without_a_begin_closes_nothing_and_the_same_again_nests() -> None:
    lines = ["Finished x", "Running x...", "Running x...", "Finished x"]
    assert last_open(lines, known_pairs()) == Marker("Running x...", "running", 1, 0)
    assert last_open(["Finished x", "nothing"], known_pairs()) is None


def test_nvfusers_trace_says_the_pass_of_a_real_run() -> None:
    """The capture of a real run, cut off in the middle as a crash does."""
    lines = lines_of(TRACE)
    assert any('"ph": "B"' in line for line in lines)
    begins = [number for number, line in enumerate(lines) if '"ph": "B"' in line]
    cut = lines[: begins[-1] + 1]
    found = last_open(cut, known_pairs())
    assert found is not None and found.text == cut[-1] and found.pair == "nvFuser's trace"


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("launch kernel {}", "kernel {} ok"),
        ("{}: enter", "{}: leave"),
        ("DEBUG -> stage {}", "DEBUG <- stage {}"),
        ("[worker] beginne Schritt {}", "[worker] Schritt {} fertig in 3.25 ms"),
        ("2026-01-02 03:04:05,678 INFO open segment {} now", "2026-01-02 03:04:06,001 INFO shut segment {} now"),
    ],
)
def test_pairs_that_repeat_are_found_without_knowing_the_words(begin: str, end: str) -> None:
    lines = [text.format(f"n{step}") for step in range(4) for text in (begin, end)]
    lines = [compared(line) for line in [*lines, begin.format("n9")]]
    found = last_open(lines, found_pairs([lines]))
    assert found is not None and found.text == lines[-1]


def test_a_chain_of_marks_says_the_last_stage() -> None:
    lines = [f"epoch {n} {mark}" for n in range(4) for mark in ("start", "forward", "backward", "done")]
    lines += ["epoch 4 start", "epoch 4 forward"]
    found = last_open(lines, found_pairs([lines]))
    assert found is not None and found.text == "epoch 4 forward"


@pytest.mark.invariant("marking.B2")
def test_K2_what_does_not_come_in_pairs_is_no_marker() -> None:
    assert found_pairs([[f"step {n} loss 0.{n}" for n in range(50)]]) == []
    assert found_pairs([["begin a", "end a"]]) == []  # once is no repetition
    noise = random.Random(7)
    words = [f"{noise.choice('abcdef')} value {noise.randrange(9)}" for _ in range(300)]
    assert last_open(words, found_pairs([words])) is None


@given(st.lists(st.text(max_size=60), max_size=60))
def test_any_lines_are_taken(lines: list[str]) -> None:
    found = last_open(lines, [*known_pairs(), *found_pairs([lines, lines])])
    assert found is None or found.text in lines


@pytest.mark.invariant("marking.L2")
def test_lines_are_compared_without_times_and_addresses() -> None:
    assert compared("[2026-01-02 03:04:05.123456] launch k1") == "launch k1"
    assert compared("k1 done in 3.5 ms at 0x7f00aa11bb22") == "k1 done at 0x…"
    assert compared("k1 done (12 us)") == "k1 done"
    assert compared("step 12") == "step 12"


@pytest.mark.invariant("marking.L1")
def test_L1_bad_and_huge_files_give_what_they_hold(tmp_path: Path) -> None:
    huge = tmp_path / "huge.log"
    with huge.open("wb") as file:
        file.truncate(100 << 20)
        file.seek(0, 2)
        file.write(b"\nRunning last...\n\xff\xfe\x1b[31m")
    lines = lines_of(huge)
    assert "Running last..." in lines and len(lines) <= 3 and all("\x1b" not in line for line in lines)
    assert lines_of(tmp_path / "none") == []


@pytest.mark.invariant("marking.B4")
def test_K4_many_long_runs_are_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marking, "_MOST_TOGETHER", 120)
    counted: list[int] = []
    count = marking._count
    monkeypatch.setattr(marking, "_count", lambda lines, *more: (counted.append(len(lines)), count(lines, *more)))
    run = [line for step in range(100) for line in (f"begin step {step}", f"step {step} is over")]
    (pair,) = found_pairs([run] * 4)
    assert counted == [30] * 4 and pair.name == "begin * / * is over"


@pytest.mark.invariant("marking.K3")
def test_K3_what_is_kept_of_a_run_does_not_grow_with_its_output(tmp_path: Path) -> None:
    kept = []
    for run, lines in ((1, 10), (2, 500)):
        path = tmp_path / f"{run}.log"
        path.write_text(f"Running pass {run} {'x' * 10_000}...\n" * lines + "y" * 10_000)
        kept.append(Ran(RunEnd(run=run, how="well", code=0), (path,)))
    short, long = ((len(pickle.dumps(ran.end)), ran.end.others) for ran in marked(kept))
    assert (short[1], long[1]) == (9, 499)
    assert long[0] <= short[0] + 16 < 2_000
