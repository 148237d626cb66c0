"""Lines that say that somebody waits: for another one, or in a barrier.

Invariants:
    waiting_lines.W1. A line that says that a wait is over, or that names one that is yet to come, is no wait.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["enters", "rank_in", "waits", "without_numbers"]

_LONGEST: Final = 400
_WAITS: Final = re.compile(
    r"\b(?:still )?(?:waiting|awaiting|waits|blocked|pending|queued|polling)\b"
    r"|\bnot (?:yet )?(?:ready|available|reachable|joined|up|connected)\b"
    r"|\b(?:retrying|trying again|reconnecting|connecting to|no response|unreachable)\b"
    r"|\byet to (?:join|arrive|respond)\b",
    re.IGNORECASE,
)
_OVER: Final = re.compile(
    r"\b(?:done|finished|stopped|no longer|without|after|stop) (?:waiting|being blocked|polling)|\bif\b|\bwhen\b",
    re.IGNORECASE,
)
_BARRIER: Final = (
    r"(?: at| in| into| for| on| the| a| all| ranks| of){0,4}[ :'\"]{1,3}"
    r"(?P<name>(?:[\w./:-]{1,40} ){0,3}?barrier\b[^\n]{0,40})"
)
_ENTERS: Final = re.compile(
    rf"\b(?:enter(?:s|ed|ing)?|reach(?:es|ed|ing)?|arriv(?:es|ed|ing)|wait(?:s|ing)?|before){_BARRIER}", re.IGNORECASE
)
_RANK: Final = re.compile(r"[^A-Za-z]{0,40}\[?[Rr]ank[ =:_-]?(?P<rank>\d{1,6})\b")
_NUMBER: Final = re.compile(r"\d+")


def waits(line: str) -> bool:
    """Whether a line says that somebody waits, or tries again what did not work."""
    text = line[:_LONGEST]
    return _WAITS.search(text) is not None and _OVER.search(text) is None


def enters(line: str) -> str:
    """The barrier that a line says to be entered or waited in; "" for none."""
    match = _ENTERS.search(line[:_LONGEST])
    return match["name"].strip(" .") if match is not None else ""


def rank_in(line: str) -> int | None:
    """The rank that a line begins with, behind a time; None for none."""
    match = _RANK.match(line[:_LONGEST])
    return int(match["rank"]) if match is not None else None


def without_numbers(line: str) -> str:
    """What is equal of lines that differ by times and counts."""
    return _NUMBER.sub("0", line[:_LONGEST].strip())
