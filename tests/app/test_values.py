"""The screen Values: what was dumped, the tensor under the cursor, and where a run goes wrong first."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg import events as ev
from livedbg.intents import CompareValues, LookAtValues
from livedbg.values.looking import Looker
from livedbg.values.state import compared, listed
from tests.app.apps import make_app, ready, text_of, until
from tests.app.fakes import FakeView, stamp
from tests.app.scenarios import scenario

ASCEND = Path(__file__).parents[1] / "fixtures" / "ascend"
LOST = ASCEND / "09_dep_lost" / "dfx" / "args_dump" / "args_dump.json"
GOOD = ASCEND / "09_dep_good"


def _fed() -> FakeView:
    view = scenario("deadlock")
    view.feed([ev.DumpSeen(dump=listed(LOST), **stamp(50))])
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
        await until(pilot, lambda: LookAtValues(path=str(LOST), number=2) in view.sent)
        assert "It is being read" in text_of(app)
        view.feed([ev.ValuesSeen(look=next(Looker().looks(LOST, str(LOST), 2)), **stamp(51))])
        await until(pilot, lambda: "#2 r0t0 (SLOW_ADD) after output" in text_of(app))
        text = text_of(app)
        assert "count         256" in text and "min           5" in text
        assert text.isascii() or not ascii_only
        if size[1] == 60:
            assert "[5 5 5 ... 5 5 5]" in text and "everything 5" in text
        assert view.sent.count(LookAtValues(path=str(LOST), number=2)) == 1


async def test_a_golden_run_is_typed_and_the_culprit_found() -> None:
    view = _fed()
    app = make_app(view)
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot)
        await pilot.press("8", "C", *str(GOOD), "enter")
        assert view.sent[-1] == CompareValues(path=str(LOST), golden=str(GOOD))
        view.feed([ev.DumpCompared(comparison=compared(LOST, GOOD), **stamp(52))])
        await until(pilot, lambda: "r0t1 (INC) found other values" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: "256 of 256 outside" in text_of(app))
        assert app.look.selection == "task:ascend/r0t1"
        await pilot.press("slash", *"found other", "enter")
        await until(pilot, lambda: "SLOW_ADD      before" not in text_of(app))
        view.feed([ev.DumpCompared(comparison=compared(LOST, GOOD / "nowhere"), **stamp(53))])
        await until(pilot, lambda: "Nothing was compared" in text_of(app))


async def test_without_a_dump_it_says_so() -> None:
    app = make_app(scenario("deadlock"))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("8")
        assert "No dump of tensors was found" in text_of(app)
        await pilot.press("C", "n")
        assert "No dump of tensors was found" in text_of(app)
