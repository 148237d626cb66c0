"""Error lines that nobody understands: what calls itself an error, and how such lines are found in a big log.

Invariants:
    error_lines.L1. Whatever EXPLICIT matches has one of ALARMS in it; what of it must begin a line is there after a
        newline.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

__all__ = ["ALARMS", "ALARMS_READ", "ERROR_CHARACTERS", "EXPLICIT", "ErrorLines"]

EXPLICIT: Final = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|PANIC|EMERG|ALERT)\b|\b(?:[Ee]rror|[Ff]atal|panic): |^[EF][01]\d{3} "
    r"|^\S+(?:Error|Exception): "
)
"""What calls itself an error. A line that merely names a class of exceptions is none."""

ERROR_CHARACTERS: Final = 200
"""So far into a record is looked for that."""

ALARMS: Final = (
    *(b"ERROR", b"FATAL", b"CRITICAL", b"PANIC", b"EMERG", b"ALERT", b"rror: ", b"atal: ", b"panic: ", b"Exception: "),
    *(b"\nE0", b"\nE1", b"\nF0", b"\nF1"),
)
"""What is searched for in those parts of a log that are not read line by line."""

ALARMS_READ: Final = 20_000
"""After so many of these, a big log is not searched for them any more: each costs reading a record."""


class ErrorLines(Struct):
    """The error lines of one log that no decoder understands.

    Attributes:
        count: of them.
        first: number of the first one's line.
        last: the first line of the last one.
    """

    count: int = 0
    first: int | None = None
    last: str = ""
