"""The messages that panels send to the app. Dataclasses; the app handles each in one place."""

from __future__ import annotations

from dataclasses import dataclass

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
