"""Normalises the lines of a run's output, so that runs can be compared.

Invariants:
    repeats_lines.L1. At most _MOST_BYTES of a file are read: of a longer file, the beginning is skipped.
    repeats_lines.L2. What differs from run to run without a meaning (times, durations, addresses) is removed from a
        line.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from livedbg.text.sanitize import clean_line

__all__ = ["compared", "lines_of"]

_MOST_BYTES: Final = 8 << 20
_LONGEST: Final = 300
_STAMP: Final = re.compile(
    r"^(?:\[?(?:\d{4}-\d\d-\d\d[T ]?)?\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ :]*"
    r"|\[?\d{4}-\d\d-\d\d[T ]?\]?[ :]*|\[ *\d+\.\d+\] *)+"
)
_DURATION: Final = re.compile(
    r" ?(?:\b(?:in|took|after|for) )?(?<![\w.])\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?|min|minutes?)\b"
)
_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{5,}\b")
_BRACKETS: Final = re.compile(r" ?(?:\(\s*\)|\[\s*\])")


def lines_of(path: Path) -> list[str]:
    """The normalised lines of a file; none if it can't be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MOST_BYTES))
            data = file.read(_MOST_BYTES)
    except OSError:
        return []
    lines = data.split(b"\n")
    if size > _MOST_BYTES:
        del lines[0]  # incomplete
    return [line for line in map(_cleaned, lines) if line]


def _cleaned(line: bytes) -> str:
    text = line[: 4 * _LONGEST].decode("utf-8", "replace").rstrip()
    return compared(clean_line(text, _LONGEST)) if text else ""


def compared(line: str) -> str:
    """A line without times, durations and addresses."""
    text = _STAMP.sub("", line)
    if any(character.isdigit() for character in text):
        text = _ADDRESS.sub("0x…", text)
        text = _BRACKETS.sub("", _DURATION.sub("", text))
    return text.strip()
