"""What is concluded from nvFuser's output, group by group, and the labels that fusions are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.adapters.nvfuser.dumps.statement_reader import read_statements
from livedbg.adapters.nvfuser.dumps.statements import Kernel, Segmented
from livedbg.adapters.nvfuser.events import Emitter
from livedbg.adapters.nvfuser.job import Job, Mark
from livedbg.model.events import Stamp

_HERE = Path(__file__).parents[2] / "fixtures/nvfuser"
LOGS = sorted(_HERE.glob("*.log"))
STATED = {"compiling", "executing"}  # the code is printed, the arguments are
CONCLUDED = {"compiled", "executed"}  # no line says so
PLACE = Mark("run.log")
STAMP: Stamp = {"host": "box", "mono_ns": 1, "wall_ns": 2}


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
@pytest.mark.invariant("job.J1")
def test_J1_a_state_comes_from_a_line_or_is_marked_as_concluded(log: Path) -> None:
    job = Job()
    for said in read_statements(log):
        named = {(record.ordinal, number) for record in job.fusions for number in record.groups}
        before = {(r.ordinal, g.number): (g.phase, g.inferred) for r in job.fusions for g in r.groups.values()}
        job.take(said.statement, PLACE)
        for record in job.fusions:
            for group in record.groups.values():
                assert group.inferred or group.phase not in CONCLUDED
                assert not group.inferred or group.phase not in STATED
                if (group.phase, group.inferred) != before.get((record.ordinal, group.number), ("", "")):
                    assert group.mark.source.startswith("run.log:")
                elif (record.ordinal, group.number) not in named:
                    assert group.phase == ""


@pytest.mark.invariant("job.J1")
def test_J1_what_is_concluded_of_a_run_that_failed() -> None:
    job = Job()
    for said in read_statements(_HERE / "run_error.log"):
        job.take(said.statement, PLACE)
    (record,) = job.fusions
    assert {number: (group.phase, group.inferred) for number, group in record.groups.items()} == {
        0: ("failed", ""),
        1: ("compiled", "a group runs only when all are compiled"),
        2: ("executed", "a later group failed"),
    }


@pytest.mark.invariant("job.J2")
def test_J2_a_label_stays_when_a_line_says_the_number_later() -> None:
    said = [one.statement for one in read_statements(_HERE / "run_error.log")]
    cut = next(one for one in said if isinstance(one, Segmented))
    kernel = next(one for one in said if isinstance(one, Kernel))
    early, late = Job(), Job()
    emitter = Emitter(early, "")
    early.take(cut, PLACE)
    emitter.collect(STAMP)
    assert [record.label for record in early.fusions] == ["s1"]
    early.take(kernel, PLACE)
    emitter.collect(STAMP)
    assert [(record.number, record.label) for record in early.fusions] == [(0, "s1")]
    late.take(kernel, PLACE)
    Emitter(late, "").collect(STAMP)
    assert [record.label for record in late.fusions] == ["f0"]
