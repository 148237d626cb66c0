"""What is reached from some things by a step that leads from one to others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reachable(first: Iterable[T], onward: Callable[[T], Iterable[T]]) -> set[T]:
    """Return some things, and all that `onward` leads to from them; it is asked once of each."""
    found: set[T] = set()
    todo = list(first)
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += onward(one)
    return found
