"""The screen Values: what was dumped, the tensor under the cursor, and where a run goes wrong first."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.app.application import LivedbgApp
from livedbg.app.options import AppOptions
from livedbg.model import events as ev
from livedbg.model.dumps import TaskComparison, ValueComparison, ValueDump, ValuePreview, ValueRow
from livedbg.model.intents import CompareValues, PreviewValues
from livedbg.recording.recorder import Recorder
from livedbg.session.filereaders import dump_readers
from livedbg.session.replay import ReplayView
from livedbg.values.state import Previewer, compared, listed
from tests.app.apps import NOTICES_STAY_S, make_app, ready, text_of, until
from tests.app.fakes import FakeView, stamp
from tests.app.scenarios import scenario

ASCEND = Path(__file__).parents[1] / "fixtures" / "ascend"
LOST = ASCEND / "09_dep_lost" / "dfx" / "args_dump" / "args_dump.json"
GOOD = ASCEND / "09_dep_good"


def _fed() -> FakeView:
    view = scenario("deadlock")
    view.feed([ev.DumpSeen(dump=listed(dump_readers(), LOST), **stamp(50))])
    return view


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
@pytest.mark.parametrize("ascii_only", [False, True], ids=["unicode", "ascii"])
async def test_the_tensor_under_the_cursor_is_read_and_shown(size: tuple[int, int], ascii_only: bool) -> None:
    view = _fed()
    app = make_app(view, ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await pilot.press("8")
        await until(pilot, lambda: "SLOW_ADD" in text_of(app) and "5 tensors" in text_of(app))
        await pilot.press("down", "down")
        await until(pilot, lambda: PreviewValues(path=str(LOST), number=2) in view.sent)
        assert "Reading it" in text_of(app)
        view.feed([ev.ValuesSeen(preview=next(Previewer(dump_readers()).previews(LOST, str(LOST), 2)), **stamp(51))])
        await until(pilot, lambda: "#2 r0t0 (SLOW_ADD) after output" in text_of(app))
        text = text_of(app)
        assert "count         256" in text and "min           5" in text
        assert text.isascii() or not ascii_only
        if size[1] == 60:
            assert "[5 5 5 ... 5 5 5]" in text and "everything 5" in text
        assert view.sent.count(PreviewValues(path=str(LOST), number=2)) == 1


async def test_a_golden_run_is_typed_and_the_culprit_found() -> None:
    view = _fed()
    app = make_app(view)
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot)
        await pilot.press("8", "C", *str(GOOD), "enter")
        assert view.sent[-1] == CompareValues(path=str(LOST), golden=str(GOOD))
        view.feed([ev.DumpCompared(comparison=compared(dump_readers(), LOST, GOOD), **stamp(52))])
        await until(pilot, lambda: "r0t1 (INC) read other values" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: "256 of 256 outside" in text_of(app))
        assert app.context.selection == "task:ascend/r0t1"
        await pilot.press("slash", *"read other", "enter")
        await until(pilot, lambda: "SLOW_ADD      before" not in text_of(app))
        view.feed([ev.DumpCompared(comparison=compared(dump_readers(), LOST, GOOD / "nowhere"), **stamp(53))])
        await until(pilot, lambda: "Nothing was compared" in text_of(app))


async def test_without_a_dump_it_says_so() -> None:
    app = make_app(scenario("deadlock"))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("8")
        assert "No tensor dump was found" in text_of(app)
        await pilot.press("C", "n")
        assert "No tensor dump was found" in text_of(app)


def _notices(app: LivedbgApp) -> list[str]:
    return [notice.message for notice in app._notifications]


def _dump(path: str, *tasks: str, count: int | None = None) -> ev.Event:
    rows = tuple(
        ValueRow(number=number, task=f"task:ascend/{task}", name=task, dtype="FLOAT32")
        for number, task in enumerate(tasks)
    )
    return ev.DumpSeen(dump=ValueDump(path=path, count=count or len(rows), rows=rows), **stamp(50))


async def test_ranks_are_told_apart_and_n_stays_in_the_dump_of_the_cursor() -> None:
    view = scenario("deadlock")
    one, other = "/run//rank0/d1/args_dump/args_dump.json", "/run/rank1/d1/args_dump/args_dump.json"
    view.feed([_dump(one, "r0t0", "r0t1"), _dump(other, "r0t0", "r0t1", count=9_000)])
    app = make_app(view, ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("8")
        await until(pilot, lambda: "rank1/d1" in text_of(app))
        assert "9,002 tensors and scalars, 4 of them listed here" in text_of(app)
        await pilot.press("n")
        await until(pilot, lambda: "Press C to compare first." in _notices(app))
        await pilot.press("down", "down")
        view.feed([ev.DumpCompared(comparison=ValueComparison(path=other, golden="/good", running=True), **stamp(51))])
        await until(pilot, lambda: "Comparing with /good" in text_of(app))
        task = TaskComparison(task="task:ascend/r0t1", verdict="candidate", sentence="r0t1 may have done it")
        said = ValueComparison(
            path=other, golden="/good", first=task.task, headline="Nobody knows", summary=("2 tasks",), tasks=(task,)
        )
        view.feed([ev.DumpCompared(comparison=said, **stamp(52))])
        await until(pilot, lambda: "possible cause" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: PreviewValues(path=other, number=1) in view.sent)
        await until(pilot, lambda: "r0t1 may have done it" in text_of(app) and "Compared with /good" in text_of(app))
        missing = ValueComparison(path=other, golden="/good", first="task:ascend/r9t9", headline="Gone")
        view.feed([ev.DumpCompared(comparison=missing, **stamp(53))])
        await until(pilot, lambda: "Gone" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: "That task has no row in the list." in _notices(app))
        assert text_of(app).isascii()
        await pilot.press("slash", *"rank0", "enter")
        await until(pilot, lambda: "2 of 4 match" in text_of(app) and "rank1/d1 " not in text_of(app))


async def test_a_sample_is_called_one_and_the_whole_is_asked_for_again_later() -> None:
    view = _fed()
    app = make_app(view)
    first = PreviewValues(path=str(LOST), number=0)
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot)
        await pilot.press("8")
        await until(pilot, lambda: first in view.sent)
        preview = ValuePreview(path=str(LOST), number=0, title="a", sample="1 of 2 elements", goes_on=True)
        view.feed([ev.ValuesSeen(preview=preview, **stamp(51))])
        await until(pilot, lambda: "1 of 2 elements" in text_of(app))
        await pilot.press("down")
        await until(pilot, lambda: PreviewValues(path=str(LOST), number=1) in view.sent)
        assert view.sent.count(first) == 1
        await pilot.press("up")
        await until(pilot, lambda: view.sent.count(first) == 2)


async def test_a_recording_says_what_was_not_looked_at(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    recorder = Recorder(tmp_path / "r.livedbg", "box", "values")
    recorder([ev.DumpSeen(dump=listed(dump_readers(), LOST), **stamp(50))])
    recorder([ev.ValuesSeen(preview=next(Previewer(dump_readers()).previews(LOST, str(LOST), 0)), **stamp(51))])
    recorder([ev.DumpCompared(comparison=compared(dump_readers(), LOST, GOOD), **stamp(52))])
    recorder.close()
    view = ReplayView(tmp_path / "r.livedbg")
    request.addfinalizer(view.stop)
    app = LivedbgApp(view, AppOptions())
    app.notice_s = NOTICES_STAY_S
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.press("8")
        await until(pilot, lambda: "#0 r0t0 (SLOW_ADD)" in text_of(app))
        await pilot.press("down")
        await until(pilot, lambda: "The recording does not contain it" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: "r0t1 (INC): read other" in text_of(app) and "does not contain it" in text_of(app))
        await pilot.press("C")
        await until(pilot, lambda: _notices(app) == ["This is a recording; its comparisons are in it."])
