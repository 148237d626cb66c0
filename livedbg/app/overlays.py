"""Sheets of text over a screen, and the line where text is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input

from livedbg.panels.draw_context import DrawContext
from livedbg.panels.messages import Key, bindings
from livedbg.panels.sheet import Sheet, SheetPanel

_SHEET_KEYS = (
    Key("escape,q,backspace", "Esc q", "dismiss", "go back"),
    Key("y", "y", "copy", "copy the text"),
)

_LEAVING = frozenset({"escape", "ctrl+c"})
"""Keys of the app that work while something is typed."""


class SheetScreen(ModalScreen[None]):
    """A sheet over the screen; Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("sheet", _SHEET_KEYS)

    def __init__(
        self, sheet: Sheet, context: DrawContext, *, lead: int = SheetPanel.LEAD, entity: str | None = None
    ) -> None:
        super().__init__()
        self.panel = SheetPanel(sheet, lead=lead)
        self._drawn = context
        self.entity = entity

    def compose(self) -> ComposeResult:
        yield self.panel

    def on_mount(self) -> None:
        self.show(self._drawn)
        self.panel.focus()

    def show(self, context: DrawContext) -> None:
        self.panel.show(context)

    def action_copy(self) -> None:
        self.post_message(Copied(self.panel.copy_text()))


class Copied(Message):
    """The user copies text from a sheet."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Prompt(Input):
    """The input line for a filter, a search or a catchpoint: Enter keeps it, Escape drops it."""

    def __init__(self) -> None:
        super().__init__(id="prompt", select_on_focus=True)
        self.can_focus = False

    def open(self, text: str, hint: str, words: Sequence[str] = ()) -> None:
        """Take the focus; `words` complete the input (the right arrow accepts the completion)."""
        self.placeholder = hint
        self.suggester = SuggestFromList(words) if words else None
        self.value = text
        self.can_focus = True
        self.add_class("-open")
        self.screen.add_class("-prompting")  # the line of screens makes room
        self.focus()

    def on_key(self, event: events.Key) -> None:
        """Keep all keys but those of the field itself and those that leave it."""
        if event.key not in _LEAVING and event.key not in self._bindings.key_to_bindings:
            event.stop()

    def close(self) -> None:
        """Give up the focus."""
        self.remove_class("-open")
        self.screen.remove_class("-prompting")
        self.can_focus = False
