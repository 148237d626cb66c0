"""The Graph panel's choice of what to draw has the dependencies that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from livedbg.panels.draw_context import DrawContext
from livedbg.panels.graph import GraphPanel
from livedbg.panels.neighbourhood import Scope, around, missing_edges
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from tests.waiting import WALL_S

ASCEND = Path(__file__).parents[1] / "fixtures" / "ascend"
PAIR = ("task:ascend/r0t1", "task:ascend/r0t0")


@pytest.fixture(scope="module")
def lost() -> Update:
    """The lost dependency, as a session shows it."""
    return _update("09_dep_lost")


def _update(folder: str) -> Update:
    view = LiveView(Request(host="box", logs=(str(ASCEND / folder),), once=True))
    view.start()
    try:
        assert view.wait_settled(WALL_S)
        return view.latest()
    finally:
        view.stop()


@pytest.mark.parametrize("selection", [None, *PAIR, "task:ascend/other"])
@pytest.mark.parametrize("scope", list(Scope))
def test_missing_edges_are_chosen(lost: Update, selection: str | None, scope: Scope) -> None:
    missing = missing_edges(lost.diagnosis, lost.snapshot.edges)
    assert missing == (PAIR,)
    part = around(lost.diagnosis, selection, scope, 2, missing=missing)
    assert set(part.nodes) == set(PAIR) and part.edges == (PAIR,) and part.missing == {PAIR}


def test_nothing_is_missing_in_a_healthy_run() -> None:
    update = _update("09_dep_good")
    assert not missing_edges(update.diagnosis, update.snapshot.edges)


class _Alone(App[None]):
    def compose(self) -> ComposeResult:
        yield GraphPanel()


async def test_the_panel_says_so_in_words(lost: Update) -> None:
    """A word on the line, not a colour alone."""
    async with _Alone().run_test(size=(80, 24)) as pilot:
        panel = pilot.app.query_one(GraphPanel)
        panel.context = DrawContext(update=lost)
        await pilot.pause()
        panel.context_changed(panel.context)
        rows = [panel.line(row, 60).strip().text for row in range(panel.count())]
        (at,) = [number for number, row in enumerate(rows) if "missing" in row]
        assert "r0t0" in "".join(rows[:at]) and "r0t1" in "".join(rows[at:])
