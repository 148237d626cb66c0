"""The key that stops running threads for a moment, to see where they are."""

from __future__ import annotations

from livedbg.model.intents import Glance
from livedbg.panels.threads import ThreadsPanel
from tests.app.apps import answer, make_app, ready, until, view_of


async def test_S_asks_for_a_glance_at_the_process_of_the_selected_thread() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("4", "S")
        assert "stopped for about 0.1 ms" in await answer(pilot)
        await until(pilot, lambda: bool(view_of(app).sent))
        panel = app.query_one("#threads ThreadsPanel", ThreadsPanel)
        selected = panel.entity(panel.cursor)
        assert selected is not None
        assert view_of(app).sent == [Glance(process=app.context.snapshot.threads[selected].process)]
