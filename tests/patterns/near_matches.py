"""Texts that a pattern nearly matches, from its own syntax tree: what it repeats is repeated, and the end is broken.

They are for finding patterns that take more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

__all__ = ["near_matches"]

_ALPHABET: Final = " a0-.:/_A,=\"'()[]{}<>\n\t#*|@+%\\;&$!~?^`xf9\u00e9\x01"
"""Characters that are tried, the usual ones first."""
_BREAKS: Final = ("\x01\n\x01", "")
_MANY: Final = 16
"""A repeat that goes on for at least so many is worth repeating."""
_CHARACTERS: Final = 7
"""At most so many characters of a class are tried."""
_CATEGORIES: Final[dict[Any, Callable[[str], bool]]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda c: not c.isdigit(),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda c: not c.isspace(),
    sre.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    sre.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
}

Repeat = tuple[str, int, int, tuple[str, ...]]
"""Text before it, how often at least and at most, and what it may repeat."""


def near_matches(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], str]]:
    """Makers of texts of about a number of characters."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(source, pattern.flags & ~(re.DEBUG | (re.UNICODE if isinstance(pattern.pattern, bytes) else 0)))
    seen: set[tuple[str, str, str]] = set()
    whole = _samples(tree, 3)
    attacks = [(before, unit) for before, units in _repeats(tree, "") for unit in units]
    attacks += [("", text) for text in whole] + [("", text[: max(len(text) - 1, 1)]) for text in whole]
    attacks += [("", before + unit) for before, unit in attacks if before]
    attacks += [("", unit) for before, unit in attacks if before]
    for before, unit in attacks:
        for end in _BREAKS:
            if unit and (before, unit, end) not in seen:
                seen.add((before, unit, end))
                yield lambda size, before=before, unit=unit, end=end: before + unit * (size // len(unit) + 1) + end


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a pattern repeats, with a text that leads to it."""
    for op, argument in tree:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            _, most, body = argument
            if most is sre.MAXREPEAT or most >= _MANY:
                yield before, _units(body)
            yield from _repeats(body, before)
        elif op is sre.BRANCH:
            for branch in argument[1]:
                yield from _repeats(branch, before)
        elif op is sre.SUBPATTERN:
            yield from _repeats(argument[-1], before)
        elif op is sre.ATOMIC_GROUP:
            yield from _repeats(argument, before)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _repeats(argument[1], before)
        before += _sample(op, argument, 0)


def _units(body: Any) -> tuple[str, ...]:
    """What a repeat may repeat: each usual character of a class, or samples of a group."""
    if len(body) == 1 and body[0][0] in (sre.IN, sre.ANY, sre.NOT_LITERAL, sre.LITERAL):
        return tuple(_characters(*body[0])[:_CHARACTERS])
    return tuple(dict.fromkeys([*_samples(body, 3), *(unit * 2 for unit in _samples(body, 1)), *_inner(body)]))


def _inner(body: Any) -> list[str]:
    """Characters that a repeat within the body repeats: a repeat of a repeat."""
    return [unit for _, units in _repeats(body, "") for unit in units][:_CHARACTERS]


def _samples(tree: Any, count: int) -> list[str]:
    return list(dict.fromkeys("".join(_sample(op, argument, turn) for op, argument in tree) for turn in range(count)))


def _sample(op: Any, argument: Any, turn: int) -> str:
    """A text that part of a pattern matches; each turn takes other branches."""
    if op is sre.LITERAL:
        return chr(argument)
    if op in (sre.IN, sre.ANY, sre.NOT_LITERAL):
        fitting = _characters(op, argument)
        return fitting[turn % len(fitting)] if fitting else "a"
    if op is sre.BRANCH:
        branches = argument[1]
        return "".join(_sample(*part, turn) for part in branches[turn % len(branches)])
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        least, most, body = argument
        count = max(least, min(1, most) if turn else least)
        return "".join(_sample(*part, turn) for part in body) * min(count, 40)
    if op is sre.SUBPATTERN:
        return "".join(_sample(*part, turn) for part in argument[-1])
    if op is sre.ATOMIC_GROUP:
        return "".join(_sample(*part, turn) for part in argument)
    return ""


def _characters(op: Any, argument: Any) -> list[str]:
    """Characters of a class, the usual ones first."""
    if op is sre.ANY:
        return [c for c in _ALPHABET if c != "\n"]
    if op is sre.LITERAL:
        return [chr(argument)]
    if op is sre.NOT_LITERAL:
        return [c for c in _ALPHABET if ord(c) != argument]
    negated = bool(argument) and argument[0][0] is sre.NEGATE
    items = argument[1:] if negated else argument
    fitting = [c for c in _ALPHABET if _is_in(c, items) != negated]
    if not fitting:
        fitting = [chr(value if kind is sre.LITERAL else value[0]) for kind, value in items if kind is not sre.CATEGORY]
    return fitting


def _is_in(character: str, items: Any) -> bool:
    for kind, value in items:
        if kind is sre.LITERAL and ord(character) == value:
            return True
        if kind is sre.RANGE and value[0] <= ord(character) <= value[1]:
            return True
        if kind is sre.CATEGORY and _CATEGORIES[value](character):
            return True
    return False
