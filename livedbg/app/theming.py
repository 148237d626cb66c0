"""A palette as a Textual theme: Textual's own widgets (palette, notices, scroll bars) follow it."""

from __future__ import annotations

from textual.theme import Theme

from livedbg.themes import Palette, Role


def as_theme(palette: Palette) -> Theme:
    """The theme `livedbg-NAME`."""
    role = palette.roles
    return Theme(
        name=f"livedbg-{palette.name}",
        primary=role[Role.ACCENT],
        secondary=role[Role.HEADING],
        accent=role[Role.ACCENT],
        warning=role[Role.WARN],
        error=role[Role.BAD],
        success=role[Role.GOOD],
        foreground=role[Role.TEXT],
        background=palette.background,
        surface=palette.raised,
        panel=palette.raised,
        dark=True,
        variables={
            "lb-background": palette.background,
            "lb-raised": palette.raised,
            "lb-border": palette.border,
            "lb-focus": palette.focus,
            "lb-selection": palette.selection,
            "lb-selection-text": palette.selection_text,
            "lb-text": role[Role.TEXT],
            "lb-dim": role[Role.DIM],
            "lb-heading": role[Role.HEADING],
            "lb-accent": role[Role.ACCENT],
            "lb-bad": role[Role.BAD],
            "block-cursor-background": palette.selection,
            "block-cursor-foreground": palette.selection_text,
            "input-selection-background": palette.selection,
        },
    )
