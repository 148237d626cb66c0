"""Sentences beside a result, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["warn", "warn_all"]


def warn(sentence: str, remedy: str = "") -> None:
    """Something to say beside the result."""
    print(f"livedbg: {sentence}", file=sys.stderr)
    if remedy:
        print(f"  try: {remedy}", file=sys.stderr)


def warn_all(problems: Sequence[Exception]) -> None:
    """Say what can be seen in part only."""
    for problem in problems:
        message, _, remedy = str(problem).partition("\n")
        warn(message, remedy)
