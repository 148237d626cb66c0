"""What the header says where touches are forbidden."""

from __future__ import annotations

import pytest

from tests.app.apps import make_app, ready, text_of, view_of


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
async def test_the_header_says_read_only_at_every_width(size: tuple[int, int]) -> None:
    app = make_app("catching")
    view_of(app).mode = "read-only"
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        assert "read-only" in text_of(app).splitlines()[0]
