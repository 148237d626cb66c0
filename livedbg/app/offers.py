"""The recipes that fit the process at hand, for the command palette: each with the command that runs it again."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from livedbg.panels.draw_context import DrawContext
from livedbg.panels.sheet import Sheet, SheetLine
from livedbg.recipes import recipes
from livedbg.recipes.again import facts_of_rerun
from livedbg.recipes.fitting import Again, chosen_process, fitting
from livedbg.session.hostinfo import host_name
from livedbg.session.recognition import by_snapshot, of_running
from livedbg.text.sanitize import clean_line
from livedbg.themes import Role

__all__ = ["offered", "recipe_sheet"]


def offered(context: DrawContext, *, live: bool) -> list[Again]:
    """The recipes that fit, the closest first.

    Args:
        context: what is shown.
        live: the process may be there still, so that what it has loaded can be read.
    """
    process = chosen_process(context.snapshot, context.selection)
    if process is None:
        return []
    systems = by_snapshot(context.snapshot, process)
    if live and process.host == host_name() and not process.exited:
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            systems |= of_running(process.pid, languages=True)
    known, _ = recipes()
    return list(fitting(known, systems, process.command, process.cwd))


def recipe_sheet(again: Again) -> Sheet:
    """All about one, the command first."""
    lines = [
        SheetLine(
            clean_line(text), Role.HEADING if name == "run again" else Role.TEXT, lead=name, bold=name == "run again"
        )
        for name, text in facts_of_rerun(again)
    ]

    def sheet(_context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        return f"Recipe {again.name}: {again.recipe.question}", lines

    return sheet
