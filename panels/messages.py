"""Messages from panels to the app, and declarations of keys for bindings, the help screen and the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.binding import Binding, BindingType
from textual.message import Message

from livedbg.model import LogRecord
from livedbg.model.intents import Intent


@dataclass
class Picked(Message):
    """The user moved to a row: every panel follows to `entity`."""

    entity: str


@dataclass
class Pointed(Message):
    """The user moved to a hit or device state: its detail panel follows."""

    hit: str | None


@dataclass
class Opened(Message):
    """The user wants the details of `entity`."""

    entity: str


@dataclass
class Led(Message):
    """The user wants to see `entity` on the screen `view`; on the logs screen, the records around a time."""

    view: str
    entity: str
    at_wall_ns: int | None = None


@dataclass
class Unfolded(Message):
    """The user wants to read all of a log record."""

    record: LogRecord


@dataclass
class Asked(Message):
    """The user requests something from the session."""

    intent: Intent
    notice: str = ""


@dataclass
class FunctionsAsked(Message):
    """The user switches between threads and the functions that use CPU time."""


@dataclass
class Noticed(Message):
    """A notice for the user."""

    text: str
    severity: str = "information"


@dataclass(frozen=True, slots=True)
class Key:
    """A key binding of a panel or the app.

    Attributes:
        keys: as Textual spells them, comma separated: `slash`, `ctrl+d`, `s,o`.
        shown: as a user reads them: `/`, `^d`, `s`.
        help: a few words.
        name: stable name for keymaps; by default made from the action.
    """

    keys: str
    shown: str
    action: str
    help: str
    name: str = ""

    @property
    def id(self) -> str:
        """Return the stable name of the binding."""
        return self.name or self.action.replace("('", "-").replace("')", "").replace("_", "-")


def bindings(scope: str, keys: Iterable[Key], *, priority: bool = False) -> list[BindingType]:
    """Return Textual's bindings for declared keys; `scope` makes their names unique."""
    return [
        Binding(key.keys, key.action, key.help, show=False, priority=priority, id=f"{scope}.{key.id}") for key in keys
    ]
