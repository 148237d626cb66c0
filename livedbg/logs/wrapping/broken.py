"""Lines that a terminal broke at its width, as they stand in what was copied from it or captured (tmux, screen).

A line is longer than the terminal is wide: it goes on in the next one, in the middle of a word. Text that was filled to
a width, tables and rules have lines of one length, too; so what goes on must show it: an open quotation mark or bracket
that the next line closes, or a frame of a traceback whose line number stands in the next one.

Invariant:
    broken.K1. Lines are joined only where several of them surely go on, and hardly one that ends just before the width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from livedbg.logs.wrapping.rows import begins_line

__all__ = ["broken_at"]

_NARROWEST: Final = 60
_WIDEST: Final = 400
_NEAR: Final = 6  # so many characters before the width a filled line may end, and a broken one seldom does
_FEWEST: Final = 2
_FRAME: Final = re.compile(r'[ |+]*File "[^"]+", line \d+(?:, in |$)')
_FRAME_BEGUN: Final = re.compile(r'[ |+]*File "')
_ALIKE: Final = 24


def broken_at(texts: Sequence[str]) -> int:
    """The width at which lines were broken; 0 if they were not.

    Args:
        texts: lines; the last one may be a piece of one.
    """
    texts = texts[:-1] if len(texts) > 1 else texts
    width = max(map(len, texts), default=0)
    if not _NARROWEST <= width <= _WIDEST:
        return 0
    full = [number for number, text in enumerate(texts) if len(text) == width and not _is_rule(text)]
    near = sum(width - _NEAR <= len(text) < width for text in texts)
    if len(full) < _FEWEST or near > len(full) or not _mostly_blanks_inside(texts):
        return 0
    pairs = [(texts[number], texts[number + 1]) for number in full if number + 1 < len(texts)]
    sure = sum(_goes_on(first, rest) for first, rest in pairs)
    alike = sum(_shape(first) == _shape(rest) for first, rest in pairs)
    indented = sum(rest.startswith("  ") for _, rest in pairs)
    enough = sure >= _FEWEST and sure * 4 >= len(pairs)
    return width if enough and alike * 3 <= len(pairs) and indented * 3 <= len(pairs) else 0


def _mostly_blanks_inside(texts: Sequence[str]) -> bool:
    """Whether it is text, and not encoded data."""
    return sum(" " in text for text in texts if text) * 2 >= sum(bool(text) for text in texts)


def _is_rule(text: str) -> bool:
    return len(set(text)) <= 3 or text.startswith(("+--", "|", "╭", "│", "╰", "┌", "└"))


def _shape(text: str) -> str:
    return re.sub(r"[a-z]+", "a", re.sub(r"\d+", "0", text[:_ALIKE].lower()))


def _goes_on(first: str, rest: str) -> bool:
    """Whether the second line surely goes on with the first."""
    if not rest or begins_line(rest):
        return False
    if _FRAME_BEGUN.match(first) and _FRAME.match(first) is None and _FRAME.match(first + rest):
        return True
    if first[-1] in " ,([{;" or rest[0] in " \t)]}":
        return False
    quotes = first.count('"') % 2 and rest.count('"') % 2
    return bool(quotes) or _left_open(first) == _left_closed(rest) != ""


def _left_open(text: str) -> str:
    """What would close the innermost bracket that a text leaves open."""
    stack: list[str] = []
    for one in text:
        if one in "([{":
            stack.append(")]}"["([{".index(one)])
        elif stack and one == stack[-1]:
            stack.pop()
    return stack[-1] if stack else ""


def _left_closed(text: str) -> str:
    """The first closing bracket of a text that it does not open."""
    depth = 0
    for one in text:
        if one in "([{":
            depth += 1
        elif one in ")]}":
            if not depth:
                return one
            depth -= 1
    return ""
