"""Catch presets: those of any process, and those that systems declare."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from livedbg.model import catchpoints
from livedbg.model.catchpoints import Moment, Pattern, Preset
from livedbg.session.systems import declared, note_problem


@cache
def presets() -> Mapping[str, Preset]:
    """All presets by name."""
    found = dict(catchpoints.PRESETS)
    for system, own in declared(lambda system: system.presets):
        for name, preset in own.items():
            if name in found:
                note_problem(system.name, f"there is another catch preset called {name}", None)
            else:
                found[name] = preset
    return found


def patterns_of(text: str) -> tuple[Moment | None, tuple[Pattern, ...]]:
    """What a user's word means: a preset, or a pattern by itself (livedbg.model.catchpoints.patterns_of).

    Raises:
        UsageError: it is none.
    """
    return catchpoints.patterns_of(text, presets())


def usual_types() -> list[str]:
    """Types that presets name."""
    thrown = (preset for preset in presets().values() if preset.moment is Moment.THROW)
    return [pattern for preset in thrown for pattern in preset.patterns if Pattern(pattern).exact]
