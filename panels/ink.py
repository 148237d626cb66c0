"""Styles by role for one palette: what panels draw with."""

from __future__ import annotations

from functools import cached_property, lru_cache

from rich.style import Style

from livedbg.themes import Palette, Role


class Ink:
    """The styles of one palette."""

    def __init__(self, palette: Palette) -> None:
        self.palette = palette
        self._plain = {role: Style(color=colour) for role, colour in palette.roles.items()}
        self._bold = {role: style + Style(bold=True) for role, style in self._plain.items()}

    def style(self, role: Role, *, bold: bool = False) -> Style:
        """Foreground style of a role."""
        return self._bold[role] if bold else self._plain[role]

    @cached_property
    def base(self) -> Style:
        """Text on the background of a panel."""
        return Style(color=self.palette.roles[Role.TEXT], bgcolor=self.palette.background)

    @cached_property
    def raised(self) -> Style:
        """Text on bars and on what lies over the screen."""
        return Style(color=self.palette.roles[Role.TEXT], bgcolor=self.palette.raised)

    @cached_property
    def selected(self) -> Style:
        """The selected row of the panel that has the keys."""
        return Style(color=self.palette.selection_text, bgcolor=self.palette.selection, bold=True)

    @cached_property
    def followed(self) -> Style:
        """The selected row in the panels that follow."""
        return Style(color=self.palette.selection_text, bgcolor=self.palette.raised)


@lru_cache(8)
def ink_of(palette_name: str) -> Ink:
    """The ink of a palette."""
    from livedbg.themes import PALETTES

    return Ink(PALETTES[palette_name])
