"""Colour themes of the terminal app: palettes by role, and the style sheet beside this module.

Panels never name a colour: they ask for a role (`Role.BAD`), and the theme says which colour that
is. State is always a glyph and a word too, so colour is never the only sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

STYLE_SHEET: Final = Path(__file__).with_name("livedbg.tcss")
"""The app's style sheet."""


class Role(StrEnum):
    """The meaning of a piece of text, which decides its colour."""

    TEXT = "text"
    DIM = "dim"  # secondary text
    FAINT = "faint"  # rules, guides, placeholders
    HEADING = "heading"
    ACCENT = "accent"  # keys, links
    GOOD = "good"  # running, healthy
    WAIT = "wait"
    WARN = "warn"
    BAD = "bad"
    DONE = "done"
    PYTHON = "python"
    NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Palette:
    """One theme's colours, as `#rrggbb`, and its roles in the 16 ANSI colours of an old terminal."""

    name: str
    title: str
    background: str
    raised: str
    border: str
    focus: str
    selection: str
    selection_text: str
    roles: Mapping[Role, str]
    ansi: Mapping[str, int]

    def ansi_of(self) -> dict[str, int]:
        """Return the ANSI number of every colour of this palette."""
        own = {self.background: 0, self.raised: 0, self.selection: 4, self.selection_text: 15}
        own |= {self.border: 8, self.focus: self.ansi["accent"]}
        return {self.roles[role]: self.ansi.get(role, 7) for role in Role} | own


_ANSI: Final = MappingProxyType(
    {
        "text": 7, "dim": 7, "faint": 8, "heading": 15, "accent": 14, "good": 10,
        "wait": 3, "warn": 11, "bad": 9, "done": 8, "python": 11, "native": 6,
    }
)  # fmt: skip


def _roles(**colours: str) -> Mapping[Role, str]:
    return MappingProxyType({Role(name): colour for name, colour in colours.items()})


PALETTES: Final[Mapping[str, Palette]] = MappingProxyType(
    {
        palette.name: palette
        for palette in (
            Palette(
                name="dark",
                title="Dark, calm (the default)",
                background="#12161c",
                raised="#1a2029",
                border="#333e4d",
                focus="#5c93cf",
                selection="#233a58",
                selection_text="#f0f4f8",
                roles=_roles(
                    text="#d0d7e0", dim="#8e9bab", faint="#576373", heading="#a9bdd4", accent="#6cb6ff",
                    good="#73c991", wait="#d0a85c", warn="#e8b73f", bad="#f4766d", done="#7b8a9c",
                    python="#e0c46c", native="#83b6dd",
                ),
                ansi=_ANSI,
            ),
            Palette(
                name="contrast",
                title="High contrast",
                background="#000000",
                raised="#101010",
                border="#b0b0b0",
                focus="#ffff00",
                selection="#0040c0",
                selection_text="#fffffe",
                roles=_roles(
                    text="#ffffff", dim="#d8d8d8", faint="#a8a8a8", heading="#fffff0", accent="#00ffff",
                    good="#3cff6e", wait="#ffd75f", warn="#ffff20", bad="#ff8080", done="#c8c8c8",
                    python="#ffe97f", native="#9fdcff",
                ),
                ansi=_ANSI,
            ),
            Palette(
                name="colour-blind",
                title="For colour-blind eyes (Okabe and Ito's colours)",
                background="#14171c",
                raised="#1c2128",
                border="#3a4350",
                focus="#56b4ea",
                selection="#26405c",
                selection_text="#f4f6f8",
                roles=_roles(
                    text="#d8dde4", dim="#97a1ae", faint="#5d6875", heading="#b8c4d2", accent="#7cc7f2",
                    good="#56b4e9", wait="#d9cfc0", warn="#f0e442", bad="#ee7733", done="#828d9a",
                    python="#e69f00", native="#009e73",
                ),
                ansi=MappingProxyType({**_ANSI, "good": 14, "wait": 7, "bad": 9, "python": 3}),
            ),
        )
    }
)  # fmt: skip
"""All themes, by name."""

DEFAULT: Final = "dark"
