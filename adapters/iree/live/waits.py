"""Who waits for which value of a semaphore, and which queued operation will signal it.

A timeline semaphore reaches a value when *any* signal at or above it comes. So the one to wait for is the smallest
queued signal that is large enough; and where that one itself depends on the wait, nobody signals the value.

Invariants:
    iree_waits.A1. A cycle is made of signals of exactly the values that are waited for: from a larger one that depends
        on the wait follows a missing signal, no cycle.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from livedbg.adapters.iree.live.operations import Operation, Point


class Waits(Struct, frozen=True):
    """What the operations of a process wait for.

    Attributes:
        producers: by each point that is waited for, the address of the operation that will signal it.
        missing: points that no queued operation signals.
        later: of these, the signal above it that depends on it: its value.
    """

    producers: dict[Point, int] = field(default_factory=dict)
    missing: frozenset[Point] = frozenset()
    later: dict[Point, int] = field(default_factory=dict)


def waits_of(operations: Mapping[int, Operation], wanted: frozenset[Point]) -> Waits:
    """Who will signal what operations and others wait for.

    Args:
        operations: the queued ones, by address.
        wanted: points that somebody else waits for: a thread of the host.
    """
    signals: dict[int, list[tuple[int, int]]] = {}
    for one in operations.values():
        for point in one.signals:
            signals.setdefault(point.semaphore, []).append((point.value, one.address))
    points = wanted | {point for one in operations.values() for point in one.waits}
    producers, missing, above = {}, set(), {}
    for point in points:
        enough = [signal for signal in sorted(signals.get(point.semaphore, ())) if signal[0] >= point.value]
        if not enough:
            missing.add(point)
            continue
        value, address = enough[0]
        producers[point] = address
        if value > point.value:
            above[point] = value
    later = {}
    for point, value in sorted(above.items(), key=lambda item: (item[0].semaphore, item[0].value)):
        if _depends(producers[point], point, operations, producers):
            del producers[point]
            missing.add(point)
            later[point] = value
    return Waits(producers, frozenset(missing), later)


def ends_by_itself(point: Point, waits: Waits, operations: Mapping[int, Operation]) -> bool:
    """Whether work in flight will reach a value, if it ends: no value that is missing is waited for on the way, and
    no circle is."""
    todo, before = [(point, frozenset[Point]())], set[Point]()
    while todo:
        one, way = todo.pop()
        if one not in waits.producers or one in way:
            return False
        if one not in before:
            before.add(one)
            todo += [(waited, way | {one}) for waited in operations[waits.producers[one]].waits]
    return True


def _depends(start: int, point: Point, operations: Mapping[int, Operation], producers: Mapping[Point, int]) -> bool:
    """Whether an operation goes on only when a point is reached."""
    todo, seen = [start], set()
    while todo:
        address = todo.pop()
        if address in seen:
            continue
        seen.add(address)
        for waited in operations[address].waits:
            if waited == point:
                return True
            if waited in producers:
                todo.append(producers[waited])
    return False
