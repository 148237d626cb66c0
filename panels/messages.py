"""What panels tell the app. Dataclasses; the app handles each in one place."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from livedbg.intents import Intent
from livedbg.model import LogRecord

__all__ = ["Asked", "Noticed", "Opened", "Picked", "Pointed", "Unfolded"]


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
class Unfolded(Message):
    """The user wants to read all of a log record."""

    record: LogRecord


@dataclass
class Asked(Message):
    """The user asks something of the session."""

    intent: Intent
    notice: str = ""


@dataclass
class Noticed(Message):
    """Something to tell the user."""

    text: str
    severity: str = "information"
