"""`watch --save`: what is known is written down on a stall, and before a time limit of the runtime ends the job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import NO_DIAGNOSIS, Diagnosis, Verdict, VerdictState
from livedbg.cli.watch import MOST, Saver, about_to_end
from livedbg.model import Task, TaskState
from livedbg.model import events as ev
from livedbg.state.store import Store
from tests.app.fakes import FakeView
from tests.cli.conftest import livedbg
from tests.conftest import Target

SECOND = 10**9
BEGAN = 10**18


def stamp(after_ns: int) -> ev.Stamp:
    return {"host": "box", "mono_ns": SECOND + after_ns, "wall_ns": BEGAN + after_ns}


def task(ends_after_ns: int | None, state: TaskState = TaskState.RUNNING, name: str = "all_reduce #6") -> Task:
    ends = None if ends_after_ns is None else BEGAN + ends_after_ns
    return Task(id="task:dp/6", system="pytorch", name=name, state=state, since_wall_ns=BEGAN, ends_wall_ns=ends)


def ending(one: Task, after_ns: int) -> bool:
    store = Store()
    store.apply(ev.TasksSeen(tasks=(one,), **stamp(0)))
    store.apply(ev.Tick(**stamp(after_ns)))
    return bool(about_to_end(store.snapshot()))


@pytest.mark.invariant("saving.V1")
@pytest.mark.parametrize(
    ("limit_s", "first_s"),
    [(1800, 1770), (60, 30), (59, 29.5), (10, 5)],
)
def test_V1_half_of_its_time_before_its_end_and_no_earlier_than_30_s(limit_s: int, first_s: float) -> None:
    limit, first = limit_s * SECOND, int(first_s * SECOND)
    assert not ending(task(limit), first - 1)
    assert ending(task(limit), first)
    assert ending(task(limit), limit - 1)
    assert not ending(task(limit), limit)


def test_a_task_without_an_end_or_that_does_not_run_ends_nothing() -> None:
    assert not ending(task(None), 3600 * SECOND)
    assert not ending(task(20 * SECOND, TaskState.COMPLETED), 15 * SECOND)
    assert not ending(task(20 * SECOND, TaskState.READY), 15 * SECOND)


def judged(state: VerdictState) -> Diagnosis:
    return Diagnosis(Verdict(state=state, sentence="As told."))


@pytest.mark.invariant("saving.V1")
def test_V1_a_task_is_saved_once_and_a_verdict_when_it_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = iter([VerdictState.RUNNING, VerdictState.RUNNING, *[VerdictState.STALLED] * 2, VerdictState.RUNNING])
    told = NO_DIAGNOSIS

    def judge(_store: Store) -> Diagnosis:
        return told

    view = FakeView("a job", [], judge)
    view.start()
    saver = Saver(view, tmp_path / "saved")
    for state, expected in zip(states, [1, 1, 2, 2, 2], strict=True):
        told = judged(state)
        view.feed([ev.TasksSeen(tasks=(task(20 * SECOND),), **stamp(0)), ev.Tick(**stamp(15 * SECOND))])
        saver.take(view.latest())
        assert len(list((tmp_path / "saved").iterdir())) == expected
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(": all_reduce #6 ends with an error in 5.0 s.") and second.endswith(": the job is stalled.")


@pytest.mark.invariant("saving.V2")
def test_V2_so_many_are_saved_and_no_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = NO_DIAGNOSIS
    view = FakeView("a job", [], lambda _store: told)
    view.start()
    saver = Saver(view, tmp_path)
    for number in range(2 * MOST + 4):
        told = judged(VerdictState.CRASHED if number % 2 else VerdictState.RUNNING)
        view.feed([ev.Tick(**stamp(number))])
        saver.take(view.latest())
    folders = list(tmp_path.iterdir())
    assert len(folders) == MOST
    assert all(json.loads((folder / "report.json").read_text())["verdict"]["state"] == "crashed" for folder in folders)
    assert capsys.readouterr().err.count("no more are") == 1


def test_a_folder_that_can_not_be_written_is_said_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "file"
    place.write_text("")
    view = FakeView("a job", [], lambda _store: judged(VerdictState.STALLED))
    view.start()
    view.feed([ev.Tick(**stamp(0))])
    Saver(view, place / "below").take(view.latest())
    assert "can't be written: Not a directory." in capsys.readouterr().err


def test_watch_saves_a_report_with_stacks_when_it_stalls(stuck: Target, tmp_path: Path) -> None:
    said = livedbg("watch", stuck.pid, "--until", "deadlock", "--timeout", "120", "--save", tmp_path / "saved")
    assert said.code == 10
    (folder,) = (tmp_path / "saved").iterdir()
    assert f"Saved to {folder}: the job is in a deadlock." in said.err
    report = json.loads((folder / "report.json").read_text())
    assert report["verdict"]["state"] == "deadlock"
    assert any(entity.get("stack") for entity in report["entities"].values())
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
