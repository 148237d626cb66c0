"""Which nodes of a blocking graph can never go on: a greatest fixpoint over AND and OR waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

__all__ = ["dead_nodes"]


def dead_nodes(
    successors: Callable[[int], Iterable[int]],
    seeds: Iterable[int],
    choices: Mapping[int, set[int]],
    timed: AbstractSet[int],
    known: AbstractSet[int] = frozenset(),
) -> set[int]:
    """The nodes, among what the seeds wait for, that can never go on.

    A node goes on when all that it waits for does, and, of what it waits for as alternatives, any
    one does. What waits for nothing may go on; so may what has a time limit.

    Args:
        successors: blocked -> by what.
        seeds: where to begin; all that they reach is looked at.
        choices: node -> those of its successors that are alternatives.
        timed: nodes that go on by themselves.
        known: nodes of which it is known that they can never go on; what they wait for is not looked at.
    """
    ahead: dict[int, list[int]] = {}
    behind: dict[int, list[int]] = {}
    todo = list(seeds)
    while todo:
        node = todo.pop()
        if node in ahead:
            continue
        ahead[node] = [node] if node in known else list(dict.fromkeys(successors(node)))
        for other in ahead[node]:
            behind.setdefault(other, []).append(node)
            todo.append(other)
    dead = set(ahead)
    check = list(ahead)
    while check:
        node = check.pop()
        if node in dead and (node in timed or not _held_up(ahead[node], choices.get(node, set()), dead)):
            dead.discard(node)
            check += behind.get(node, ())
    return dead


def _held_up(waits: Iterable[int], alternatives: AbstractSet[int], dead: AbstractSet[int]) -> bool:
    others_dead = any(node in dead for node in waits if node not in alternatives)
    return others_dead or (bool(alternatives) and all(node in dead for node in alternatives))
