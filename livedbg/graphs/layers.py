"""The layers of a directed graph: a node is one below the lowest of those that lead to it.

A graph with cycles has none of its own. The edges that close a cycle, as a depth-first search from the sources meets
them, are set aside: they lead upwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Ends: TypeAlias = tuple[str, str]
"""Where an edge begins and ends."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A graph's nodes in layers.

    Attributes:
        rows: from above; each in the order in which the nodes are reached.
        turned: edges that lead upwards, and those from a node to itself.
    """

    rows: tuple[tuple[str, ...], ...] = ()
    turned: frozenset[Ends] = frozenset()


def layered(nodes: Collection[str], edges: Iterable[Ends]) -> Layers:
    """Put nodes into layers by their longest path.

    Args:
        nodes: all of them; earlier ones come first where nothing else decides.
        edges: between them.
    """
    after: dict[str, dict[str, None]] = defaultdict(dict)
    for first, second in edges:
        after[first][second] = None
    entered = {second for seconds in after.values() for second in seconds}
    turned = frozenset(_turned([*(node for node in nodes if node not in entered), *nodes], after))
    return Layers(tuple(map(tuple, _by_longest_path(nodes, after, turned))), turned)


def _turned(starts: Sequence[str], after: Mapping[str, Iterable[str]]) -> Iterator[Ends]:
    """The edges that lead back to a node on the way from a start."""
    on_the_way: dict[str, bool] = {}  # False: left for good
    for start in starts:
        if start in on_the_way:
            continue
        on_the_way[start] = True
        way = [(start, iter(after.get(start, ())))]
        while way:
            node, following = way[-1]
            second = next(following, None)
            if second is None:
                on_the_way[node] = False
                way.pop()
            elif on_the_way.get(second):
                yield node, second
            elif second not in on_the_way:
                on_the_way[second] = True
                way.append((second, iter(after.get(second, ()))))


def _by_longest_path(
    nodes: Iterable[str], after: Mapping[str, Iterable[str]], turned: Collection[Ends]
) -> Iterator[list[str]]:
    waiting = dict.fromkeys(nodes, 0)
    for first, seconds in after.items():
        for second in seconds:
            waiting[second] += (first, second) not in turned
    current = [node for node, count in waiting.items() if not count]
    while current:
        yield current
        following: list[str] = []
        for first in current:
            for second in after.get(first, ()):
                if (first, second) not in turned:
                    waiting[second] -= 1
                    if not waiting[second]:
                        following.append(second)
        current = following
