"""Lines that a progress bar redraws, with and without the carriage return that it needs for that."""

from __future__ import annotations

import re
from typing import Final

from livedbg.text.sanitize import clean

__all__ = ["after_bar", "redrawn"]

_BAR: Final = re.compile(  # tqdm (std.py: format_meter)
    r"[^|\n]{0,200}?\d{1,3}%\|[^|\n]{0,400}\| *[\d.]{1,20}[kKMGT]?/[\d.?]{1,20}[kKMGT]? \[[^\]\n]{0,200}\] ?"
)


def redrawn(text: str) -> str:
    """A line with carriage returns: what it last showed, and whatever was no progress bar."""
    parts = [part for part in text.split("\r") if part and not part.isspace()]
    if len(parts) < 2:
        return parts[0] if parts else ""
    last = len(parts) - 1
    kept = [part for number, part in enumerate(parts) if number == last or _stays(part)]
    while len(kept) > 1 and _only_bar(kept[-1]):
        kept.pop()
    return "\n".join(kept)


def after_bar(text: str) -> str:
    """What was written right behind a progress bar; the line itself where there is nothing."""
    match = _BAR.match(text)
    if match is None:
        return text
    rest = text[match.end() :]
    return after_bar(rest) if rest and not rest.isspace() else text


def _only_bar(text: str) -> bool:
    match = _BAR.match(clean(text))
    return match is not None and not clean(text)[match.end() :].strip()


_SAID: Final = re.compile(
    r"rror|xception|raceback|  File \"|[Ff]ault|FATAL|fatal|abort|Abort|assert|WARN|warn|fail|Fail|Kill|terminate"
)


def _stays(part: str) -> bool:
    """Whether a part that was drawn over was a message."""
    return not _only_bar(part) and _SAID.search(part) is not None
