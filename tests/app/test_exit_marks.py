"""The mark of a process that has ended: a tick for status 0 only."""

from __future__ import annotations

from livedbg.panels.draw_context import exit_mark


def test_only_status_0_is_a_tick() -> None:
    assert [exit_mark(status).glyph for status in (0, 3, -11, None)] == ["done", "fail", "fail", "unknown"]
    assert [exit_mark(status).word for status in (3, -11)] == ["exited 3", "killed 11"]
