"""Semaphores of the runtime and who waits for them, found in memory by their shape.

`iree_async_semaphore_t` (runtime/src/iree/async/semaphore.h) begins every semaphore of the local and Vulkan drivers. No
symbol leads to one, so memory is searched for what looks like it: a small reference count, a table of functions in the
runtime's file whose first entries are code of it, and a pointer to what follows the structure.

Invariants:
    iree_semaphores.M1. A wait is told only if its list node points back to the semaphore.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from msgspec import Struct

from livedbg.adapters.iree.live.image import Image, Words
from livedbg.adapters.iree.live.runtime_files import Runtime

_NODE: Final = struct.Struct("<6Q")  # next, previous, semaphore, minimum value, callback, user data
_TABLE: Final = struct.Struct("<3Q")
_TRAILER: Final = (96, 1024)  # how far behind the semaphore its trailing storage begins
_MOST_COUNT: Final = 10_000
_MOST_WAITERS: Final = 1024
_LARGEST: Final = 1 << 62
_LOWEST_POINTER: Final = 4096


class Waiter(Struct, frozen=True):
    """Somebody who waits for a value: a list node, which its owner has in its own memory.

    Attributes:
        address: of the node.
        minimum: the least value that ends the wait.
        callback: the function that is called then.
    """

    address: int
    minimum: int
    callback: int


class Semaphore(Struct, frozen=True):
    """One.

    Attributes:
        value: that it has reached.
        failed: it was failed: whoever waits gets the error.
        table: address of its table of functions, the same for all of one driver.
    """

    address: int
    value: int
    failed: bool
    table: int
    waiters: tuple[Waiter, ...] = ()


def find_semaphores(image: Image, runtime: Runtime) -> dict[int, Semaphore]:
    """What looks like a semaphore, by address; memory that was freed may look so too."""
    tables: dict[int, bool] = {}
    found: dict[int, Semaphore] = {}
    for start, words in image.pieces:
        for place in _candidates(start, words, runtime):
            address, fields = start + 8 * place, [int(word) for word in words[place : place + 11]]
            table, value, failure, head = fields[1], fields[5], fields[8], fields[9]
            if table not in tables:
                tables[table] = _is_table(image, table, runtime)
            if not tables[table] or value >= _LARGEST or 0 < failure < 2:
                continue
            waiters = tuple(_waiters(image, address, head))
            if head and not waiters:
                continue  # the list is not its own
            found[address] = Semaphore(address, value, failure != 0, table, waiters)
    return found


def _candidates(start: int, words: Words, runtime: Runtime) -> list[int]:
    count = len(words) - 10
    if count <= 0:
        return []
    references, tables, trailers = words[:count], words[1 : count + 1], words[10 : count + 10]
    near = (tables >= np.uint64(runtime.start)) & (tables < np.uint64(runtime.end))
    (places,) = np.nonzero(near & (references > 0) & (references < _MOST_COUNT))
    behind = trailers[places] - (places.astype(np.uint64) * np.uint64(8) + np.uint64(start))  # wraps if it is before
    return [int(place) for place in places[(behind >= _TRAILER[0]) & (behind < _TRAILER[1])]]


def _is_table(image: Image, at: int, runtime: Runtime) -> bool:
    entries = image.unpack(_TABLE, at)
    return entries is not None and all(runtime.has_code(entry) for entry in entries)


def _waiters(image: Image, semaphore: int, head: int) -> list[Waiter]:
    """The nodes of its list, as far as they point back (M1)."""
    found: list[Waiter] = []
    at, before = head, 0
    while at >= _LOWEST_POINTER and len(found) < _MOST_WAITERS:
        node = image.unpack(_NODE, at)
        if node is None or node[2] != semaphore or node[1] != before:
            break
        found.append(Waiter(at, node[3], node[4]))
        before, at = at, node[0]
    return found
