"""The base of panels of records: they stay at the end as it grows, and shift long lines."""

from __future__ import annotations

from livedbg.panels.base import LinePanel


class FollowingPanel(LinePanel):
    """Rows to which more come at the end."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.following = True
        self.offset_x = 0

    def stay(self) -> None:
        """Stay at the end when following, once the rows are laid out."""
        if self.following:
            self.cursor = max(self.count() - 1, 0)
            self.call_after_refresh(self.to_end)

    def to_end(self) -> None:
        """Show the last row."""
        if self.following:
            self.cursor = max(self.count() - 1, 0)
            self.scroll_to(y=max(self.count() - self.page_rows, 0), animate=False)
            self.repaint()

    def move_to(self, index: int) -> None:
        """Leaving the end stops following; reaching it starts again."""
        self.following = index >= self.count() - 1
        super().move_to(index)

    def action_follow(self) -> None:
        """Follow the end."""
        self.following = True
        self.to_end()
        self.refresh()

    def action_shift(self, cells: int) -> None:
        """Shift long lines."""
        self.offset_x = max(0, self.offset_x + cells)
        self.refresh()
