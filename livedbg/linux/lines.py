r"""Lines of the kernel's text files, with names in them that any user may have chosen.

A name can hold each byte but NUL: newlines, other line ends of Unicode, bytes that are no UTF-8. So lines end at `\n`
alone, fields are taken by position, and a malformed row costs that row only.

Invariants:
    lines.N1. A line ends at a newline and at nothing else: not at U+2028, U+0085, a vertical tab, …
    lines.N2. A row that can't be parsed is left out; the others are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

LONGEST_NUMBER: Final = 20
"""Digits of the greatest number that a kernel of 64 bits writes."""


def lines(data: bytes, errors: str = "replace") -> list[str]:
    """Return the lines, decoded as UTF-8; invalid bytes become U+FFFD, or what another error handler makes of them."""
    found = data.decode("utf-8", errors).split("\n")
    if not found[-1]:
        found.pop()
    return found


def rows(data: bytes, parse: Callable[[str], T], errors: str = "replace") -> Iterator[T]:
    """Yield `parse` of each line, except where it raises ValueError, IndexError or OverflowError."""
    for line in lines(data, errors):
        try:
            yield parse(line)
        except (ValueError, IndexError, OverflowError):
            continue


def pressure(data: bytes, who: str) -> float | None:
    """Return `avg10` of the line `some` or `full` of a pressure file (Documentation/accounting/psi.rst), as a share."""
    of_lines = (dict(word.partition("=")[::2] for word in line.split()) for line in lines(data))
    try:
        return next((float(words["avg10"]) / 100 for words in of_lines if who in words), None)
    except (KeyError, ValueError):
        return None


def number(text: str) -> int:
    """Parse a decimal number of at most LONGEST_NUMBER digits.

    Raises:
        ValueError: it is none.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER):
        raise ValueError(f"no number: {text[:LONGEST_NUMBER]!r}")
    return int(text)
