"""False time-outs: few idle iterations, and how busy the machine was, where that is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.linux.last_ran import Load
from livedbg.model.snapshot import Snapshot
from tests.adapters.ascend.replay import Replay, findings

HUNG = "12_june2026_v0_era/hang_debug/err.txt"


def replayed(recorded: Path, *, idle: int | None = None, loads: tuple[Load, ...] = (), away_s: float = 0) -> Snapshot:
    """A recorded hang, with other idle iterations, while the machine was so busy."""
    text = (recorded / HUNG).read_text()
    if idle is not None:
        text = re.sub(r"idle_iterations=201280", f"idle_iterations={idle}", text)
        answered = (line for line in text.splitlines() if not re.search("did not acknowledge|deinit timed", line))
        text = "\n".join(answered)
    replay = Replay()
    for load in loads:
        replay.model.loads.add(1_795_223_850_730_000_000 + int(away_s * 1e9), load)
    replay.read(Path("/nowhere/err.txt"), text.encode())
    return replay.flush()


def test_few_idle_iterations_are_no_stall_and_the_load_is_named(recorded: Path) -> None:
    loads = (Load(3.0, 2, 16), Load(37.0, 60, 16, 0.9))
    found = findings(replayed(recorded, idle=430, loads=loads))
    finding = found["ascend-starved-watchdog"]
    assert "ascend-stall" not in found
    assert finding.state is VerdictState.CRASHED
    assert "only 430 idle iterations" in finding.sentence
    assert "load 37.0 on 16 CPUs, some thread waited for one 90 % of the time" in finding.sentence
    assert not any("sar -q" in step for step in finding.next)


def test_from_a_log_alone_the_load_is_not_known(recorded: Path) -> None:
    finding = findings(replayed(recorded, idle=430))["ascend-starved-watchdog"]
    assert "is not known" in finding.sentence
    assert any("livedbg record" in step and "sar -q" in step for step in finding.next)


def test_a_sample_of_another_time_says_nothing(recorded: Path) -> None:
    loads = (Load(37.0, 60, 16),)
    finding = findings(replayed(recorded, idle=430, loads=loads, away_s=120))["ascend-starved-watchdog"]
    assert "is not known" in finding.sentence


def test_many_idle_iterations_on_a_busy_machine_stay_a_stall_with_a_word(recorded: Path) -> None:
    finding = findings(replayed(recorded, loads=(Load(37.0, 60, 16),)))["ascend-stall"]
    assert finding.state is VerdictState.STALLED
    assert "The machine was busy when the watchdog fired: load 37.0 on 16 CPUs" in finding.sentence


def test_an_idle_machine_is_not_worth_a_word(recorded: Path) -> None:
    assert "busy" not in findings(replayed(recorded, loads=(Load(2.0, 1, 16),)))["ascend-stall"].sentence


@pytest.mark.parametrize(("idle", "starved"), [(1_400, True), (1_600, False)])
def test_it_is_a_rate_that_counts(recorded: Path, idle: int, starved: bool) -> None:
    """The recorded watchdog had 5 s: 300 turns a second are 1,500."""
    assert ("ascend-starved-watchdog" in findings(replayed(recorded, idle=idle))) is starved
