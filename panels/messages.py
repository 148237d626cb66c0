"""The messages that panels send to the app. Dataclasses; the app handles each in one place.

How a panel declares its keys: once, for the bindings, the help screen and the documentation.
"""

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
    """The user moved to something caught: the panel of its stack follows to `hit`."""

    hit: str | None


@dataclass
class Opened(Message):
    """The user wants the details of `entity`."""

    entity: str


@dataclass
class Led(Message):
    """The user wants to see `entity` on the screen `view`; on that of the logs, what was logged at a time."""

    view: str
    entity: str
    at_wall_ns: int | None = None


@dataclass
class Unfolded(Message):
    """The user wants to read all of a log record."""

    record: LogRecord


@dataclass
class Asked(Message):
    """The user asks something of the session."""

    intent: Intent
    notice: str = ""


@dataclass
class FunctionsAsked(Message):
    """The user wants the functions that take the CPU time in place of the threads, or the threads again."""


@dataclass
class Noticed(Message):
    """A notice for the user."""

    text: str
    severity: str = "information"


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that a panel or the app can do by a key.

    Attributes:
        keys: as Textual spells them, comma separated: `slash`, `ctrl+d`, `s,o`.
        shown: as a user reads them: `/`, `^d`, `s`.
        action: the action that it runs.
        help: what it does, a few words.
        name: stable name for keymaps; made from the action when empty.
    """

    keys: str
    shown: str
    action: str
    help: str
    name: str = ""

    @property
    def id(self) -> str:
        """Stable name of the binding."""
        return self.name or self.action.replace("('", "-").replace("')", "").replace("_", "-")


def bindings(scope: str, keys: Iterable[Key], *, priority: bool = False) -> list[BindingType]:
    """Textual's bindings for declared keys; `scope` makes their names unique."""
    return [
        Binding(key.keys, key.action, key.help, show=False, priority=priority, id=f"{scope}.{key.id}") for key in keys
    ]
