"""Logs as they come in practice: cut, interleaved, with CRLF, garbage, hostile text and numbers that no field holds."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livedbg.adapters.ascend.logs import LineSplitter
from livedbg.adapters.ascend.messages import classify
from livedbg.adapters.ascend.watchdogs import limit_of
from livedbg.session.rulebook import diagnostician
from tests.adapters.ascend.replay import Replay, findings, replay_folder, replay_lines

LOG = "02_hang_kernel/timeout_debug/err.txt"
ROOT = ("task:ascend/r1t2", "core:ascend/8")


def test_garbage_between_the_lines(recorded: Path) -> None:
    dice = random.Random(7)
    lines = []
    for line in (recorded / LOG).read_bytes().split(b"\n"):
        lines += [line, dice.randbytes(dice.randrange(1, 400)).replace(b"\n", b""), b"\x1b]52;c;AAAA\x07" + b"\x00" * 9]
    assert findings(replay_lines(b"\n".join(lines)))["ascend-stall"].entities == ROOT


@pytest.mark.parametrize("prefix", ["0: ", "worker-3 | "])
def test_prefix_of_a_launcher(recorded: Path, prefix: str) -> None:
    lines = [prefix + line for line in (recorded / LOG).read_text().splitlines()]
    assert findings(replay_lines(lines))["ascend-stall"].entities == ROOT


def test_dump_lines_interleaved_with_others(recorded: Path) -> None:
    lines = (recorded / LOG).read_text().splitlines()
    noise = "[INFO] flush_phase_pool: [chip_swimlane_collector_aicpu.cpp:1055] Thread 2: flushed sched phase buffer"
    mixed = [part for line in lines for part in (line, noise)]
    assert findings(replay_lines(mixed))["ascend-stall"].entities == ROOT


def test_cut_anywhere_never_fails_and_never_blames_another(recorded: Path) -> None:
    data = (recorded / LOG).read_bytes()
    for end in range(0, len(data), 331):
        found = findings(replay_lines(data[:end])).get("ascend-stall")
        if found is not None and not found.inferred:
            assert found.entities[0] == ROOT[0]


def test_prose_about_a_log_is_no_log(recorded: Path) -> None:
    for readme in recorded.rglob("README.txt"):
        assert not replay_lines(readme.read_bytes()).diagnostics, readme


def test_numbers_without_end() -> None:
    digits = "9" * 6_000
    lines = [f"[ERROR] x: [a.cpp:1] === [Orchestrator] ring 0: total_tasks={digits} ==="]
    lines += [f"[ERROR] x: [a.cpp:1] === [Orchestrator] ring 0: total_tasks={'9' * 30} ==="]
    snapshot = replay_lines(lines)
    assert len(snapshot.tasks) <= 20_001


def test_same_state_in_any_chunking(recorded: Path) -> None:
    whole = replay_folder(recorded / "05_hang_ring_full")
    replay = Replay()
    source = replay.open(recorded / "05_hang_ring_full" / "err.txt")
    for line in (recorded / "05_hang_ring_full" / "err.txt").read_bytes().split(b"\n"):
        replay.feed(source, line)
        replay.flush()
    replay.end(source)
    replay.read(recorded / "05_hang_ring_full" / "out.txt")
    parts = replay.flush()
    assert {t.id: (t.state, t.kernel, t.where) for t in whole.tasks.values()} == {
        t.id: (t.state, t.kernel, t.where) for t in parts.tasks.values()
    }
    assert set(whole.edges) == set(parts.edges)
    held = {d.id for d in parts.diagnostics.values() if not d.resolved}
    assert set(whole.diagnostics) == held


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.booleans())
def test_classify_takes_any_text(text: str, tagged: bool) -> None:
    classify(text, tagged)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_lines_in_any_order_never_fail(dice: random.Random) -> None:
    path = Path(__file__).parents[2] / "fixtures" / "ascend" / "05_hang_ring_full" / "err.txt"
    lines = path.read_text().splitlines()
    dice.shuffle(lines)
    replay_lines(lines[:60])


FIXTURES = Path(__file__).parents[2] / "fixtures"
_NUMBER = re.compile(r"(?<![\w.])\d+")


def lines_of_each_kind() -> dict[str, str]:
    """One real line of each kind of message that captures hold."""
    found: dict[str, str] = {}
    for path in sorted((FIXTURES / "ascend").rglob("*")):
        if path.suffix in (".txt", ".log") and path.is_file():
            for text in path.read_text(errors="replace").splitlines():
                for line in LineSplitter().split(text):
                    message = classify(line.message, line.tagged)
                    if message is not None:
                        found.setdefault(f"{message.kind} {sorted(message.fields)}", text)
    return found


def damaged(line: str, digits: str) -> Iterator[str]:
    for match in _NUMBER.finditer(line):
        yield line[: match.start()] + digits + line[match.end() :]


@pytest.mark.parametrize("length", [25, 400, 5000])
def test_a_number_that_is_too_long_breaks_nothing(length: int) -> None:
    kinds = lines_of_each_kind()
    assert len(kinds) > 25
    for line in kinds.values():
        replay = Replay()
        source = replay.open(Path("/run/err.txt"))
        for bad in damaged(line, "9" * length):
            replay.feed(source, bad.encode() + b"\n")
        diagnostician().diagnose(replay.flush())


@pytest.mark.parametrize("text", ["rc=--5", "rc=²", "rc=", "rc=9999999999", "rc=1-"])
def test_what_only_begins_like_an_exit_status_is_none(text: str) -> None:
    replay = Replay()
    replay.feed(replay.open(Path("/run/exit.txt")), text.encode() + b"\n")
    assert not replay.flush().diagnostics


def test_a_launchers_line_that_waits_for_its_log_may_be_damaged() -> None:
    replay = Replay()
    beside, log = replay.open(Path("/run/out.txt")), replay.open(Path("/run/err.txt"))
    replay.feed(beside, b'names={"' + b"9" * 5000 + b'": "MUL"}\n')
    replay.feed(log, b"[INFO] run: AicpuExecutor: Initializing\n")
    assert replay.flush() is not None


def test_a_limit_that_is_no_number_of_the_runtimes_is_not_taken() -> None:
    assert limit_of("scheduler", {"SIMPLER_SCHEDULER_TIMEOUT_MS": "9" * 5000}).seconds == 10.0
