"""Finds the threads that hold plain locks, as far as their frames show.

`with lock:` keeps `lock.__exit__` on the value stack of its frame while the lock is held (up to 3.13 a bound method;
from 3.14 on the plain function and then the lock). `with condition:` does the same with the Condition, except during
`wait`, when its lock is free.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from livedbg.cpython.objects import LockObject, ObjectReader, is_pointer
from livedbg.cpython.threads import PyFrame, PyThread


class Held(NamedTuple):
    """A thread that holds a lock, with the frame that took it, or from which that was inferred."""

    tid: int
    where: str
    inferred: bool


def held_locks(objects: ObjectReader, threads: Mapping[int, PyThread]) -> dict[int, list[Held]]:
    """Map the address of each plain lock held by a `with` block to its holders (one, unless misread)."""
    found: dict[int, list[Held]] = {}
    for tid, thread in threads.items():
        for depth, frame in enumerate(thread.frames):
            for lock in _locks_of(objects, frame, thread.frames[:depth]):
                if lock.locked and not lock.recursive:
                    found.setdefault(lock.address, []).append(Held(tid, frame.where, True))
    return found


def _locks_of(objects: ObjectReader, frame: PyFrame, inner: list[PyFrame]) -> Iterable[LockObject]:
    """Yield the locks whose `__exit__` is on the value stack of a frame."""
    live = frame.live
    pointers = [slot for slot in live if is_pointer(slot)]
    if not pointers:
        return
    function_before = False
    for pointer, head in zip(pointers, objects.heads(pointers), strict=True):
        if head is None:
            function_before = False
            continue
        kind = objects.type_name(head)
        (bound_to,) = struct.unpack_from("<Q", head, 24)
        lock: LockObject | None = None
        if kind == "builtin_function_or_method":
            lock = objects.lock_at(bound_to)
        elif kind == "method":
            lock = _of_condition(objects, bound_to, inner)
        elif function_before:
            lock = objects.lock(pointer, head) or (
                _of_condition(objects, pointer, inner) if kind == "Condition" else None
            )
        if lock is not None:
            yield lock
        function_before = objects.layout.lock_word and kind in ("method_descriptor", "function")


def _of_condition(objects: ObjectReader, address: int, inner: list[PyFrame]) -> LockObject | None:
    """Return the lock of a Condition in a `with` block, unless `wait` has released it."""
    head = objects.head(address)
    if head is None or objects.type_name(head) != "Condition":
        return None
    for frame in inner:
        if frame.code.name == "Condition.wait" and frame.slots and frame.slots[0] == address:
            return None
    return objects.lock_of_condition(address)
