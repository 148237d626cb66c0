"""Literal text that every match of a pattern has, from its syntax tree.

Invariants:
    literals.L1. Every text that a pattern matches holds one of the words that are derived for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from msgspec import Struct

SHORTEST: Final = 4
"""Characters of a word that is worth looking for."""
_LONG: Final = 20  # longer ones are no better
_MOST: Final = 24  # alternatives
_NEWLINE: Final = 10


class Literals(Struct, frozen=True):
    """Literals that a pattern requires.

    Attributes:
        words: every match contains at least one; empty if there are none.
        parts: words of each further line that a match may have.
        lines: a match may have more than one line.
    """

    words: frozenset[str]
    parts: frozenset[str]
    lines: bool


def derived(pattern: str) -> Literals:
    """Return the literals of a pattern.

    Raises:
        re.error: it is no pattern.
    """
    walk = _Walk()
    tree = parser.parse(pattern, re.MULTILINE)
    if tree.state.flags & re.IGNORECASE:
        return Literals(frozenset(), frozenset(), lines=True)
    walk.take(tree)
    walk.close()
    best = [_best(sets) for sets in walk.lines]
    words = _best(best)
    parts = frozenset(word for one in best if one is not words and _worth(one) for word in one)
    return Literals(words if _worth(words) else frozenset(), parts, len(walk.lines) > 1)


class _Walk:
    """A walk of a syntax tree: by line of the match, the sets of words of which one is required."""

    def __init__(self) -> None:
        self.lines: list[list[frozenset[str]]] = [[]]
        self._run = ""

    def close(self) -> None:
        if self._run:
            self.lines[-1].append(frozenset((self._run,)))
            self._run = ""

    def _new_line(self) -> None:
        self.close()
        self.lines.append([])

    def take(self, tokens: Iterable[tuple[Any, Any]]) -> None:
        for op, value in tokens:
            if op is codes.LITERAL:
                if value == _NEWLINE:
                    self._new_line()
                else:
                    self._run += chr(value)
            elif op is codes.SUBPATTERN:
                self.take(value[3] if not value[1] & re.IGNORECASE else ())
            elif op is codes.ATOMIC_GROUP:
                self.take(value)
            elif op is codes.BRANCH:
                self._branch(value[1])
            elif op in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
                self._repeat(*value)
            elif op is codes.IN and _may_break(value):
                self._new_line()
            elif op not in (codes.AT, codes.ASSERT, codes.ASSERT_NOT):
                self.close()

    def _branch(self, branches: list[Any]) -> None:
        leads = [_lead(branch) for branch in branches]
        if self._run and len(leads) <= _MOST:
            self.lines[-1].append(frozenset(self._run + lead for lead in leads))
        self.close()
        whole = [_required(branch) for branch in branches]
        if all(whole):
            self.lines[-1].append(frozenset[str]().union(*whole))
        if any(_breaks(branch) for branch in branches):
            self._new_line()

    def _repeat(self, least: int, most: int, tokens: Any) -> None:
        if least == most == 1:
            self.take(tokens)
            return
        self.close()
        if least:
            self.take(tokens)
            self.close()
        elif _breaks(tokens):
            self._new_line()


def _lead(tokens: Iterable[tuple[Any, Any]]) -> str:
    text = ""
    for op, value in tokens:
        if op is codes.LITERAL and value != _NEWLINE:
            text += chr(value)
        elif op is codes.SUBPATTERN and not value[1] & re.IGNORECASE:
            text += _lead(value[3])
            break
        else:
            break
    return text


def _required(tokens: Any) -> frozenset[str]:
    walk = _Walk()
    walk.take(tokens)
    walk.close()
    return _best(found for line in walk.lines for found in line)


def _best(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return max(sets, key=_weight, default=frozenset())


def _weight(words: frozenset[str]) -> tuple[int, int]:
    return (min(min(map(len, words), default=0), _LONG), -len(words))


def _worth(words: frozenset[str]) -> bool:
    return bool(words) and min(map(len, words)) >= SHORTEST


def _may_break(members: Iterable[tuple[Any, Any]]) -> bool:
    first, *_ = members
    if first[0] is codes.NEGATE:
        return False
    return any(
        (op is codes.LITERAL and value == _NEWLINE) or (op is codes.CATEGORY and value is codes.CATEGORY_SPACE)
        for op, value in members
    )


def _breaks(tokens: Any) -> bool:
    return any(
        (op is codes.LITERAL and value == _NEWLINE) or (op is codes.IN and _may_break(value))
        for op, value in _flat(tokens)
    )


def _flat(tokens: Any) -> Iterator[tuple[Any, Any]]:
    for op, value in tokens:
        yield op, value
        if op is codes.SUBPATTERN:
            yield from _flat(value[3])
        elif op is codes.BRANCH:
            for branch in value[1]:
                yield from _flat(branch)
        elif op in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield from _flat(value[2])
        elif op is codes.ATOMIC_GROUP:
            yield from _flat(value)
