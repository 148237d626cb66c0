"""The app as one step of a guide: the findings of the step, and the key that asks for the next one."""

from __future__ import annotations

from collections.abc import Sequence

from textual.widgets import Input

from livedbg.app.asking import QuestionScreen
from livedbg.app.basics import BasicApp
from livedbg.app.options import NEXT_STEP, AppOptions, GuideKeys
from livedbg.app.overlays import SheetScreen
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.sheet import Sheet, SheetLine
from livedbg.themes import Role


class GuideActions(BasicApp):
    """The part of the app that follows a guide."""

    options: AppOptions
    context: DrawContext

    def open_sheet(self, sheet: Sheet, *, lead: int = 14, entity: str | None = None) -> None:
        """Open a sheet over the screen."""
        raise NotImplementedError

    def greet(self) -> None:
        """Say which step this is, and its keys."""
        guide = self.options.guide
        if guide is not None:
            after = "; ^n goes on to the next one" if guide.following else ""
            self.say(f"{guide.title}. ^g shows what was found so far{after}.")

    def show_step(self) -> None:
        """Show the findings of the step, as soon as they were read."""
        if isinstance(self.focused, Input) or isinstance(self.screen, QuestionScreen):
            return  # what is typed there is not taken away
        guide = self.options.guide
        found = guide.found() if guide is not None else None
        if guide is None or found is None:
            return
        if isinstance(self.screen, SheetScreen):
            self.pop_screen()
        self.open_sheet(_sheet(guide, found))

    def action_step_found(self) -> None:
        """Ask for the findings so far."""
        if self.options.guide is not None:
            self.options.guide.look()

    def action_next_step(self) -> None:
        """End, and ask for the next step."""
        guide = self.options.guide
        if guide is None:
            return
        if guide.following:
            self.exit(NEXT_STEP)
        else:
            self.say(guide.ending)


def _sheet(guide: GuideKeys, found: Sequence[tuple[str, str]]) -> Sheet:
    lines = [SheetLine(text, lead=lead, bold=lead == "found") for lead, text in found]
    key = SheetLine(f"^n goes on to {guide.following}" if guide.following else guide.ending)

    def sheet(_context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        return guide.title, [*lines, SheetLine(), SheetLine(key.text, Role.HEADING)]

    return sheet
