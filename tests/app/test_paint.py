"""Only cells that changed are painted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip

from livedbg.panels.cells import Painted, changed_span
from tests.app.apps import make_app, read, ready, until, view_of

STYLES = [None, Style(bold=True), Style(color="red")]
strips = st.lists(st.tuples(st.text("ab漢 ", max_size=4), st.sampled_from(STYLES)), max_size=5).map(
    lambda parts: Strip([Segment(text, style) for text, style in parts])
)


@given(strips, strips)
def test_the_span_covers_every_cell_that_differs(old: Strip, new: Strip) -> None:
    span = changed_span(old, new)
    if span is None:
        assert old.text == new.text
        return
    begin, end = span
    assert 0 <= begin < end
    if old.cell_length == new.cell_length:
        assert old.crop(0, begin).text == new.crop(0, begin).text
        assert old.crop(end).text == new.crop(end).text


def test_a_line_never_drawn_paints_everything_and_an_equal_one_nothing() -> None:
    asked: list[tuple[Region, ...]] = []
    painted = Painted(lambda *regions: asked.append(regions))
    line = Strip([Segment("12:00:01 fine")])
    painted.repaint(1, lambda _y: line)
    assert asked == [()]
    painted.drawn(0, line)
    painted.repaint(1, lambda _y: Strip([Segment("12:00:01 fine")]))
    assert asked == [()]
    painted.repaint(1, lambda _y: Strip([Segment("12:00:02 fine")]))
    assert asked == [(), (Region(7, 0, 1, 1),)]


async def test_an_update_that_changes_nothing_paints_no_panel() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await read(pilot)
        panels = [panel for panel in app.screen.query("LinePanel").results() if panel.size.height]
        asked: list[object] = []
        for panel in panels:
            panel.refresh = lambda *regions, panel=panel, **_options: asked.append((panel, regions))  # type: ignore[method-assign]
        view = view_of(app)
        before = app.context
        view.feed([])
        await until(pilot, lambda: app.context is not before)
        assert panels and asked == []
