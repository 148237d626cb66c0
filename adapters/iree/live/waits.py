"""Find which queued operation will signal an awaited semaphore value, and which outside threads may.

A timeline semaphore reaches a value with *any* signal at or above it. So the producer is the smallest queued signal
that is large enough; if that one itself depends on the wait, nobody signals the value.

Outside threads are those of the process that run user code and don't wait for a semaphore. Workers of the runtime
signal only queued work, and pools of mathematical libraries signal nothing. Threads are judged by name and stack; one
without a stack may do anything.

Invariants:
    iree_waits.A1. A cycle consists of signals of exactly the awaited values: a larger signal that depends on the wait
        means a missing signal, not a cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.iree.live.operations import Operation, Point
from livedbg.model import EdgeKind, Stack, Thread
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re


class Waits(Struct, frozen=True):
    """The waits of a process's operations.

    Attributes:
        producers: awaited point -> address of the operation that will signal it.
        missing: points that no queued operation signals.
        later: for some of these, the value of the signal above it that depends on it.
    """

    producers: dict[Point, int] = field(default_factory=dict)
    missing: frozenset[Point] = frozenset()
    later: dict[Point, int] = field(default_factory=dict)


def waits_of(operations: Mapping[int, Operation], wanted: frozenset[Point]) -> Waits:
    """Return who will signal the points that operations and host threads (`wanted`) wait for."""
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
    """Return whether work in flight will reach a value: no missing value and no cycle is on the way."""
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


_OWN: Final = lazy_re(r"iree-(?:worker|pro)|llvmpipe-")
_INSIDE: Final = lazy_re(
    r"(?:lib(?:c|pthread|m|gomp|iomp5|omp|vulkan\w{0,1000}|LLVM\w{0,1000}|drm\w{0,1000}|IREE\w{0,1000}|iree\w{0,1000}|gcc_s|stdc\+\+|\w{0,1000}openblas\w{0,1000})"
    r"[.-]|ld-linux|iree-|_runtime\.cpython|\[|0x)"
)


def is_own(name: str) -> bool:
    """Return whether a thread of that name is the runtime's or the driver's own."""
    return _OWN.match(name) is not None


def is_worker(thread: Thread) -> bool:
    """Return whether it is a worker of a local-task device."""
    return thread.name.startswith("iree-worker")


class Outsiders(NamedTuple):
    """Threads that may signal a semaphore.

    Attributes:
        threads: their ids.
        names: for users, as far as known yet.
        wait: each of them waits for work in flight, which then decides.
    """

    threads: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    wait: bool = False


def outsiders_of(process: str, stuck: Collection[str], waiting: Collection[str], snapshot: Snapshot) -> Outsiders:
    """Return the outside threads of a process.

    Args:
        stuck: threads that wait for a value that no work in flight will reach.
        waiting: those whose value it will reach.
    """
    behind = _behind(stuck, snapshot)
    found = [
        thread
        for thread in snapshot.threads.values()
        if thread.process == process
        and not thread.exited
        and thread.id not in behind
        and not is_own(thread.name)
        and not _inside(snapshot.stacks.get(thread.id))
    ]
    waits = _behind(waiting, snapshot)
    names = tuple(thread.title or str(thread.tid) for thread in found)
    return Outsiders(tuple(one.id for one in found), names, bool(found) and all(one.id in waits for one in found))


def _behind(waiting: Collection[str], snapshot: Snapshot) -> set[str]:
    """Return the waiting threads, and those that wait for them, by a join or for a lock that they hold."""
    holders: dict[str, set[str]] = {}
    waits: dict[str, set[str]] = {}
    for edge in snapshot.waits.values():
        if edge.kind is EdgeKind.HOLDS:
            holders.setdefault(edge.target, set()).add(edge.source)
        elif edge.kind is EdgeKind.WAITS_FOR and edge.source.startswith("thread:") and not edge.timed:
            waits.setdefault(edge.source, set()).add(edge.target)
    behind, before = set(waiting), -1
    while len(behind) > before:
        before = len(behind)
        behind |= {
            thread
            for thread, targets in waits.items()
            if any(target in behind or (holders.get(target) or {""}) <= behind for target in targets)
        }
    return behind


def _inside(stack: Stack | None) -> bool:
    """Return whether a stack consists of code that signals nothing by itself."""
    if stack is None or not stack.frames:
        return False
    return all(frame.language == "native" and _INSIDE.match(frame.module or "0x") for frame in stack.frames)
