"""How the failures of compilers are put: who failed, where, and with which words.

Invariants:
    compiler_failures.F1. A warning, a note, or a choice that a tuner drops, is no failure.
"""

from __future__ import annotations

from typing import Final

from livedbg.logs.said import Said
from livedbg.model import CauseClass, Severity

__all__ = ["FAILED", "SUMMARY", "failure", "short"]

FAILED: Final = "compile-failed"
SUMMARY: Final = "compile-summary"
_LONGEST: Final = 160


def short(text: str, most: int = _LONGEST) -> str:
    """The first line of a message, cut."""
    line = text.strip().partition("\n")[0].strip(" .:")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def failure(
    tool: str,
    message: str,
    place: str = "",
    steps: tuple[str, ...] = (),
    *,
    code: str = FAILED,
    about: str = "",
) -> Said:
    """A failure of a compiler.

    Args:
        tool: who failed: `ptxas`, `NVRTC`, `g++`.
        message: its words.
        place: file and line, as it writes them.
        steps: what to do.
        code: `FAILED`, or `SUMMARY` for the word of whoever started it.
        about: what is added to the sentence.
    """
    where = f" ({place})" if place else ""
    return Said(
        code=code,
        key=f"{tool} {place} {short(message)}",
        sentence=f"{tool} failed: {short(message)}{where}{about}",
        severity=Severity.ERROR,
        cause=CauseClass.PROCESS,
        steps=steps,
        attributes={"tool": tool, "message": short(message), "place": place},
    )
