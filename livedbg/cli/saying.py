"""Sentences beside a result, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from livedbg.text.sanitize import clean

__all__ = ["warn", "warn_all"]


def warn(sentence: str, remedy: str = "") -> None:
    """Something to say beside the result. Names of files and what tools said are data: they are sanitised here."""
    print(f"livedbg: {clean(sentence)}", file=sys.stderr)
    if remedy:
        print(f"  try: {clean(remedy)}", file=sys.stderr)


def warn_all(problems: Sequence[Exception]) -> None:
    """Say what can be seen in part only."""
    for problem in problems:
        message, _, remedy = str(problem).partition("\n")
        warn(message, remedy)
