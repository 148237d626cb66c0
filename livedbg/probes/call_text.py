"""What a call of a known function means, in words instead of registers: `Describe`, and what descriptions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Describe: TypeAlias = Callable[[Sequence[int], Sequence[str]], str]
"""What a call of one known function means, in words: from its first four arguments as they are in registers, and what
they point to, as text ("" where they point to none)."""


def source_line(file: str, line: int) -> str:
    """A place in the source.

    Args:
        file: its name, or "" if it could not be read.
        line: its number, as the register has it.
    """
    number = line & 0xFFFFFFFF
    return f"{file}:{number}" if file else f"line {number}"


def failure(name: str, message: str, place: str) -> str:
    """A failure in one line. Name and message may be "": a process that has ended leaves only numbers."""
    text = ": ".join(filter(None, (name, message)))
    return f"{text} ({place})" if text else place
