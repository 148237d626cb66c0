"""The words and letters by which headers name a severity."""

from __future__ import annotations

from typing import Final

from livedbg.model import Severity

__all__ = ["SEVERITY_OF_LETTER", "SEVERITY_OF_WORD", "severity_of_word"]

_D, _I, _W, _E, _C = Severity.DEBUG, Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.CRITICAL

_UPPER: Final = {
    **dict.fromkeys(("DEBUG", "TRACE", "VERBOSE", "DBG", "NOTSET"), _D),
    **dict.fromkeys(("INFO", "NOTICE", "TIMING", "ALWAYS", "EVENT", "VERSION"), _I),
    **dict.fromkeys(("WARN", "WARNING"), _W),
    **dict.fromkeys(("ERROR", "ERR", "EXCEPTION", "ABORT"), _E),
    **dict.fromkeys(("CRITICAL", "FATAL", "PANIC"), _C),
}
SEVERITY_OF_WORD: Final = _UPPER | {word.lower(): severity for word, severity in _UPPER.items()}
"""What a word of a header means."""

SEVERITY_OF_LETTER: Final = {"V": _D, "D": _D, "T": _D, "I": _I, "W": _W, "E": _E, "F": _C, "C": _C}
"""What one letter of a header means."""


def severity_of_word(word: str) -> Severity:
    """The severity that a word of a header names; INFO for one that is not known."""
    known = SEVERITY_OF_WORD.get(word)
    return SEVERITY_OF_WORD.get(word.upper(), _I) if known is None else known
