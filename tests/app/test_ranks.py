"""The screen of ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from livedbg.app.bars import FooterBar
from livedbg.model import events as ev
from livedbg.panels.ranks import RanksPanel
from tests.app.apps import make_app, pressing, ready, text_of, until, view_of
from tests.app.fakes import stamp
from tests.app.scenes.ranks import main_of, missing_rank


def rows_of(panel: RanksPanel) -> list[list[str]]:
    return [[cell.text for cell in panel.cells(row)] for row in panel.rows.order]


async def test_the_missing_rank_comes_first_with_where_it_is_and_how_far_it_is_behind() -> None:
    app = make_app(missing_rank())
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("7")
        panel = app.query_one(RanksPanel)
        await until(pilot, lambda: panel.count() == 3)
        rows = rows_of(panel)
        assert [row[0].split()[1] for row in rows] == ["missing", "waits", "waits"]
        assert rows[0][1:6] == ["2", "102", "dp.1 #4, all #2", "1", "train.py:12 fetch_batch"]
        assert rows[1][1:6] == ["0", "100", "all #2, dp.1 #5", "", "train.py:31 step"]


async def test_enter_leads_to_the_threads_of_the_rank_and_a_selected_thread_to_its_rank() -> None:
    app = make_app(missing_rank())
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("7")
        panel = app.query_one(RanksPanel)
        await until(pilot, lambda: panel.count() == 3 and panel.cursor == 0)
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: app.current.id == "threads")
        assert app.context.selection == main_of(1)
        await pilot.press("escape")
        await until(pilot, lambda: app.current.id == "ranks")
        await pilot.press("enter")
        await until(pilot, lambda: app.current.id == "threads")
        await pilot.press("slash", "1", "enter", "escape")  # clears the filter first
        assert app.current.id == "threads"
        await pilot.press("up", "7")
        await until(pilot, lambda: app.current.id == "ranks")
        assert panel.entity(panel.cursor) == app.context.selection


async def test_from_16_ranks_on_equal_ones_are_one_row_until_a_key_shows_all() -> None:
    app = make_app(missing_rank(16))
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("7")
        panel = app.query_one(RanksPanel)
        await until(pilot, lambda: panel.count() == 2 and "16 ranks in 2 rows" in text_of(app))
        assert [row[1] for row in rows_of(panel)] == ["15", "0-14"]
        await pilot.press("m")
        await until(pilot, lambda: panel.count() == 16)
        await pilot.press("slash", *"fetch", "enter")
        await until(pilot, lambda: panel.count() == 1)


async def test_the_screen_is_offered_where_there_are_ranks() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(160, 30)) as pilot:
        await ready(pilot)
        bar = app.query_one(FooterBar)
        assert "Ranks" not in bar.render_line(0).text
        await pilot.press("7")
        await until(pilot, lambda: "No process has a rank." in text_of(app))
        assert "Ranks" in bar.render_line(0).text
    app = make_app(missing_rank())
    async with app.run_test(size=(160, 30)) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "7 Ranks" in app.query_one(FooterBar).render_line(0).text)


async def test_a_rank_that_has_ended_says_how() -> None:
    app = make_app(missing_rank())
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("7")
        panel = app.query_one(RanksPanel)
        await until(pilot, lambda: panel.count() == 3)
        view_of(app).feed([ev.ProcessExited(**stamp(21), id="process:box/101", status=-9)])
        await until(pilot, lambda: any("killed 9" in row[0] for row in rows_of(panel)))
        assert [row[1] for row in rows_of(panel)] == ["2", "1", "0"]


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
def test_picture(size: tuple[int, int], snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(make_app(missing_rank()), terminal_size=size, run_before=pressing("7", "fetch_batch"))
