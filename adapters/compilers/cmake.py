"""Failures of CMake's configure step.

Source: cmake-commands(7) `message` (`FATAL_ERROR`, `SEND_ERROR`), Source/cmMessenger.cxx: `CMake Error at FILE:LINE
(COMMAND):`, then the message, indented, and the call stack; `CMake Error: …` without a place; at the end
`-- Configuring incomplete, errors occurred!`. `(dev)` and `Warning` are none.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.compilers.failures import SUMMARY, failure
from livedbg.logs.said import Form, Said

__all__ = ["FORMS"]

_ERROR = re.compile(
    r"^[ \t]{0,16}CMake Error(?: at (?P<file>[^\n:]{1,400}):(?P<line>\d{1,9})(?: \((?P<command>[\w:]{1,80})\))?)?"
    r"(?: in [^\n:]{1,400})?"
    r":[ \t]*(?P<text>[^\n]{0,500}(?:\n(?:[ \t]{2}[^\n]{1,200})?){0,12})",
    re.MULTILINE,
)
_END = re.compile(r"^[ \t]{0,16}-- (?:Configuring|Generating) incomplete, errors occurred!", re.MULTILINE)
_STACK: Final = "Call Stack (most recent"


def _error(match: re.Match[str]) -> Said | None:
    text = match["text"].partition(_STACK)[0]
    message = " ".join(text.split())
    if not message:
        message = f"in {match['command']}" if match["command"] else "it doesn't say why"
    place = f"{match['file']}:{match['line']}" if match["file"] else ""
    return failure("CMake", message, place)


def _end(match: re.Match[str]) -> Said:
    return failure("The build", match[0].strip().removeprefix("-- "), code=SUMMARY)


FORMS: Final = (
    Form(("CMake Error",), _ERROR, _error),
    Form(("incomplete, errors occurred!",), _END, _end),
)
