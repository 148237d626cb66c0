"""The lines of panels: which are drawn, and how."""

from __future__ import annotations

from typing import Any

import pytest

from livedbg.panels.base import LinePanel
from livedbg.panels.cells import Line
from livedbg.panels.tasks import TasksPanel
from tests.app.apps import make_app, ready, until
from tests.app.test_parts import CONTROLS


@pytest.mark.invariant("panels.P1")
async def test_P1_only_the_lines_on_screen_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: set[int] = set()
    draw = TasksPanel.draw

    def noted(self: TasksPanel, index: int, line: Line) -> None:
        drawn.add(index)
        draw(self, index, line)

    monkeypatch.setattr(TasksPanel, "draw", noted)
    app = make_app("ascend")
    async with app.run_test(size=(140, 40)) as pilot:
        await ready(pilot)
        panel = app.query_one("#overview TasksPanel", TasksPanel)
        await until(pilot, lambda: panel.count() == 4219)
        drawn.clear()
        await pilot.press("G")
        await until(pilot, lambda: panel.cursor == 4218 and 4218 in drawn)
        await pilot.pause()
        assert len(drawn) <= 2 * panel.page_rows + 2, "of the first page and of the last"
        drawn.clear()
        panel.show(panel.context)
        await pilot.pause()
        assert drawn <= set(range(4219 - panel.page_rows, 4219))


@pytest.mark.invariant("panels.P2")
async def test_P2_every_line_is_sanitised_and_filled() -> None:
    app = make_app("hostile")
    panels: set[type] = set()
    async with app.run_test(size=(140, 40)) as pilot:
        await ready(pilot)
        for key in "1234569":
            await pilot.press(key)
            await pilot.pause()
            for panel in app.screen.query(LinePanel).results():
                region = panel.scrollable_content_region
                if not region.width:
                    continue
                panels.add(type(panel))
                for y in range(region.height):
                    strip = panel.render_line(y)
                    assert strip.cell_length == region.width, (panel, y)
                    assert not any(CONTROLS.search(segment.text) for segment in strip), (panel, y)
    assert len(panels) >= 8


def _all_of(kind: type[Any]) -> set[type[Any]]:
    return {kind}.union(*(_all_of(below) for below in kind.__subclasses__()))


@pytest.mark.invariant("panels.P2")
def test_P2_no_panel_draws_a_line_of_its_own() -> None:
    owners = {kind.__name__ for kind in _all_of(LinePanel) if {"render_line", "screen_line"} & vars(kind).keys()}
    assert owners == {"LinePanel"}
