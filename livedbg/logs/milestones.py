"""Lines that say how far a run is: steps and progress bars, workers that are started again.

Invariants:
    milestones.M1. A line that only names a step (an option, a plan, an error at a step) has no number of a step.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["begins", "restarts", "shuts_down", "step_of"]

_LONGEST: Final = 400
_BAR: Final = re.compile(r"\b\d{1,3}%\|[^|]{0,200}\| *(\d{1,12})/\d{1,12} ?\[")
_STEP: Final = re.compile(
    r"(?<![\w-])(?:global[_ ])?(?:step|iter|iteration|update|epoch|batch)[ _]?(?:no\.?|num(?:ber)?)?['\"]?\s{0,2}"
    r"[:=\[#]?\s{0,10}(\d{1,12}(?:\.\d{1,6})?)(?![\w.-])",
    re.IGNORECASE,
)
_NO_STEP: Final = re.compile(
    r"error|exception|fail|abort|resum|restor|load|every|max|total|checkpoint|kill", re.IGNORECASE
)
_BEGINS: Final = re.compile(
    r"\b(?:start(?:ed|ing)|beginning|launching|loading(?! best)|initiali[sz]ing|building|resuming|running"
    r"|entering|processing|(?<!done )waiting for)\b",
    re.IGNORECASE,
)
_SHUTS_DOWN: Final = re.compile(
    r"\b(?:shutting down|shut down|exiting|exited|terminated|terminating|killed|giving up|gave up|cancell?ed|aborted"
    r"|stopped|received signal|received SIG[A-Z]+)\b",
    re.IGNORECASE,
)
_RESTARTED: Final = re.compile(
    r"will restart worker group|\brestart_count=[1-9]\d{0,5}\b|\bRestarting (?:the )?workers?(?: group)?\b"
)


def step_of(line: str) -> float | None:
    """The number of the step, the epoch or the progress bar that a line reports."""
    line = line[:_LONGEST]
    bar = _BAR.search(line) if "%|" in line else None
    if bar is not None:
        return float(bar[1])
    if _NO_STEP.search(line) is not None:
        return None
    found = list(_STEP.finditer(line))
    return float(found[-1][1]) if found else None


def begins(line: str) -> bool:
    """Whether a line says that something begins or is waited for."""
    return _BEGINS.search(line[:_LONGEST]) is not None


def shuts_down(line: str) -> bool:
    """Whether a line says that the program ends, or has ended."""
    return _SHUTS_DOWN.search(line[:_LONGEST]) is not None


def restarts(line: str) -> bool:
    """Whether a line says that a launcher starts the workers again."""
    return _RESTARTED.search(line[:_LONGEST]) is not None
