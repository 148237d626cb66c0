"""The app as one step of a guide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from livedbg.app.options import NEXT_STEP
from livedbg.app.overlays import SheetScreen
from tests.app.apps import make_app, ready, until


class Guide:
    """A guide whose step has found something when it is asked to look."""

    def __init__(self, following: str) -> None:
        self.title = "Step 2 of 3: find the kernel"
        self.following = following
        self.ending = "This is the last step."
        self.lines: Sequence[tuple[str, str]] | None = None

    def look(self) -> None:
        self.lines = (("kernel", "Launched last and not returned: cpp_fused_1."),)

    def found(self) -> Sequence[tuple[str, str]] | None:
        lines, self.lines = self.lines, None
        return lines


async def test_what_a_step_found_is_shown_and_a_key_asks_for_the_next_one() -> None:
    app = make_app("deadlock")
    app.options = replace(app.options, guide=Guide("step 3, look at its values"))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await until(pilot, lambda: any("^g shows what was found" in said.message for said in app._notifications))
        await pilot.press("ctrl+g")
        app.show_step()
        sheet = app.screen
        assert isinstance(sheet, SheetScreen)
        await until(pilot, lambda: sheet.panel.paragraphs)
        told = " ".join(line.text for line in sheet.panel.paragraphs)
        assert sheet.panel.heading == "Step 2 of 3: find the kernel"
        assert "cpp_fused_1" in told and "^n goes on to step 3, look at its values" in told
        await pilot.press("ctrl+n")  # over the sheet
    assert app.return_value == NEXT_STEP


async def test_behind_the_last_step_there_is_none() -> None:
    app = make_app("deadlock")
    app.options = replace(app.options, guide=Guide(""))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: any("last step" in said.message for said in app._notifications))
        assert app.return_value is None


async def test_without_a_guide_its_keys_do_nothing() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+n", "ctrl+g")
        app.show_step()
        await pilot.pause()
        assert len(app.screen_stack) == 1 and app.return_value is None
