"""Ranks that come late to collective after collective: what is read of it, and what is said."""

from __future__ import annotations

import pytest

from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.late import LATE, latecomers
from livedbg.adapters.pytorch.collectives.recorder import Ring
from livedbg.adapters.pytorch.collectives.recorder_entry import Entry
from livedbg.adapters.pytorch.facts import LateFacts
from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Finding
from livedbg.model import Diagnostic, Severity, ThreadState
from livedbg.model import events as ev
from tests.adapters.pytorch.test_rules import Job
from tests.analysis.world import SECOND

BEGAN = 10**18


def rank(number: int, *times_s: float, name: str = "all_reduce", world: int = 2, description: str = "") -> Look:
    """A rank that enqueued its collectives so many seconds after the job began."""
    entries = tuple(
        Entry(
            record=at,
            group="0",
            description=description,
            sequence=at + 1,
            name=name,
            backend="gloo",
            created_wall_ns=BEGAN + int(time_s * SECOND),
            timeout_ms=1000,
            is_p2p=False,
            shapes=((8,),),
            thread=1,
            done=True,
        )
        for at, time_s in enumerate(times_s)
    )
    ring = Ring(entries=entries, count=len(entries), whole=True)
    return Look(rank=number, process=f"process:box/{10 + number}", rings=(ring,), groups={"0": tuple(range(world))})


def steps(late_s: float, count: int = 6, every_s: float = 60.0) -> list[float]:
    return [every_s * step + late_s for step in range(count)]


def said(*looks: Look) -> list[str]:
    return [one.sentence for one in latecomers(looks)]


def test_the_rank_that_holds_the_others_up_is_named() -> None:
    assert said(rank(0, *steps(0)), rank(1, *steps(41))) == [
        "rank 1 came 41 s later than rank 0 to each of the last 5 all_reduces"
    ]
    three = [rank(n, *steps(late), world=3, description="dp") for n, late in enumerate((1, 20, 0))]
    assert said(*three) == ["rank 1 came 19 s later than the others to each of the last 5 all_reduces of group dp"]
    uneven = [60.0 * step + 10 * (step + 1) for step in range(6)]
    assert said(rank(0, *steps(0)), rank(1, *uneven)) == [
        "rank 1 came 20 s to 60 s later than rank 0 to each of the last 5 all_reduces"
    ]


@pytest.mark.invariant("late.L1")
def test_L1_one_delay_of_many_collectives_is_one() -> None:
    """A backward pass that one rank came to 41 s late: the other had enqueued all of its collectives by then."""
    early = [float(one) / 100 for one in range(20)]
    assert said(rank(0, *early), rank(1, *(one + 41 for one in early))) == []
    many = [step * 60 + one for step in range(6) for one in early]
    assert said(rank(0, *many), rank(1, *(one + 41 for one in many))) == [
        "rank 1 came 41 s later than rank 0 to all_reduces, 5 times in a row"
    ]


@pytest.mark.invariant("late.L2")
@pytest.mark.parametrize(
    "looks",
    [
        (rank(0, *steps(0)), rank(1, *steps(0.9))),  # a moment
        (rank(0, *steps(0)), rank(1, *steps(11))),  # little of the time
        (rank(0, *steps(0, 5)), rank(1, *steps(41, 5))),  # too few
        (rank(0, *steps(0)), rank(1, *steps(41)[:3], *steps(-5)[3:])),  # by turns
        (rank(0, *steps(0), world=3), rank(1, *steps(41), world=3)),  # another rank is not seen
        (rank(0, *steps(0), name="broadcast"), rank(1, *steps(41), name="broadcast")),  # its root waits for nobody
    ],
)
def test_L2_who_is_not_late_each_time_is_not_named(looks: tuple[Look, ...]) -> None:
    assert said(*looks) == []


def slow(most_s: float, *, absent: str = "2", resolved: bool = False, **thread: object) -> dict[str, Finding]:
    """The findings where rank 2 of 3 is missing for a time, and was late before."""
    job = Job(absent=absent, age_s=20)
    job.thread(12, pid=12, **({"waits_in": "Queue.get"} | thread))  # type: ignore[arg-type]
    facts = LateFacts(most_ns=int(most_s * SECOND), last_wall_ns=BEGAN)
    late = Diagnostic(
        id="late",
        system="pytorch",
        code=LATE,
        severity=Severity.WARNING,
        sentence="rank 2 came 15 s later than the others to each of the last 5 all_reduces",
        entities=("process:box/12",),
        facts=None if resolved else facts,
        resolved=resolved,
    )
    job.store.apply(ev.DiagnosticSeen(diagnostic=late, **job.stamp()))
    job.later(11 * SECOND)
    diagnosis = job.diagnosis()
    return {one.rule: one for one in diagnosis.findings.values()} | {"verdict": next(iter(diagnosis.findings.values()))}


@pytest.mark.invariant("rules_progress.L1")
def test_L1_a_rank_that_is_as_late_as_before_is_not_stuck() -> None:
    found = slow(most_s=15)
    assert found["verdict"].rule == LATE and found["verdict"].state is VerdictState.RUNNING
    assert found["verdict"].sentence == (
        "Running, but slow: rank 2 came 15 s later than the others to each of the last 5 all_reduces."
    )
    assert found["collective-missing"].state is VerdictState.RUNNING
    assert "; it comes late each time" in found["collective-missing"].sentence


@pytest.mark.invariant("rules_progress.L1")
def test_L1_one_that_is_later_than_before_is_missing() -> None:
    found = slow(most_s=10)
    assert found["verdict"].state is VerdictState.STALLED
    assert found[LATE].state is None and found[LATE].sentence.startswith("Slow before: rank 2 came ")
    resolved = slow(most_s=15, resolved=True)
    assert LATE not in resolved and resolved["verdict"].state is VerdictState.STALLED


def test_what_was_late_once_is_no_finding_when_nobody_waits_for_it() -> None:
    assert LATE not in slow(most_s=15, absent="")


def test_a_late_rank_that_is_stopped_does_not_come() -> None:
    found = slow(most_s=15, state=ThreadState.STOPPED)
    assert found["verdict"].state is VerdictState.STALLED and LATE not in found
