"""What the orchestrator can run out of: each resource with its words, its numbers and the variable that sizes it.

Source: simpler pto_ring_buffer.h (task allocator, pools), pto_orchestrator.cpp (scopes, tensor map), runtime_maker.cpp
(variables), docs/dfx/scope-stats.md, August 2026. All but the tensor map are per ring.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.marks import Mark


class Full(StrEnum):
    """What is full."""

    SLOTS = "task slots"
    HEAP = "heap"
    POOL = "dependency pool"
    MAP = "tensor map"


VARIABLES: Final = {
    Full.SLOTS: "PTO2_RING_TASK_WINDOW",
    Full.HEAP: "PTO2_RING_HEAP",
    Full.POOL: "PTO2_RING_DEP_POOL",
    Full.MAP: "PTO2_TENSORMAP_POOL_SIZE",
}
"""The variable that sizes it."""

FREED: Final = {
    Full.SLOTS: "a slot is",
    Full.HEAP: "memory of the heap is",
    Full.POOL: "entries of the pool are",
    Full.MAP: "entries of the tensor map are",
}
"""What is freed when the ring's oldest task completes."""

_UNITS: Final = {Full.HEAP: "bytes", Full.POOL: "entries", Full.MAP: "entries"}


class RingFull(Struct):
    """The orchestrator can't submit, for something of a ring is full.

    Attributes:
        what: which resource.
        head: the ring's oldest task that was not reclaimed.
        head_state: 0 when it has not completed.
        consumers_left: tasks that still read its output.
        scope_released: the scope that it belongs to has ended.
        by_scope: the runtime proved that an open scope pins the head.
        oldest: number in its ring of the oldest task, where the message tells neither its ring nor its state.
        size, used, free, wanted: of the heap in bytes, of a pool in entries; None where the log has not told.
        active, window: tasks in the ring, and its slots.
        in_scope: tasks of the scope that fills the ring.
        host_built: the whole graph must fit (host_build_graph): nothing is stuck, it is too big.
    """

    ring: int | None
    resource: str
    mark: Mark
    what: Full = Full.SLOTS
    head: int | None = None
    head_state: int | None = None
    consumers_left: int = 0
    scope_released: bool = True
    by_scope: bool = False
    oldest: int | None = None
    host_built: bool = False
    active: int | None = None
    window: int = 0
    in_scope: int | None = None
    size: int | None = None
    used: int | None = None
    free: int | None = None
    wanted: int | None = None

    @property
    def never_fits(self) -> bool:
        """More is wanted than the whole resource holds: nothing that is freed helps."""
        return self.size is not None and self.wanted is not None and self.wanted > self.size

    @property
    def level(self) -> str:
        """How full it is: `15 of 15 usable slots`; `196,608 of 262,144 bytes used, 65,536 wanted`; "" if unknown.

        The allocator keeps one slot free (PTO2TaskAllocator::alloc, pto_ring_buffer.h). A heap may be full with room
        left: a task's output has to lie in one piece.
        """
        if self.what is Full.SLOTS:
            scope = f", {self.in_scope} by one scope" if self.in_scope else ""
            return f"{self.active} of {max(self.active, self.window - 1)} usable slots{scope}" if self.active else ""
        if self.size is None or self.used is None:
            return ""
        wanted = f", {self.wanted:,} wanted" if self.wanted is not None else ""
        piece = f", {self.free:,} free in one piece" if self.free else ""
        return f"{self.used:,} of {self.size:,} {_UNITS[self.what]} used{piece}{wanted}"

    @property
    def name(self) -> str:
        """`task ring 1`, `the heap of ring 1`, `the dependency pool`, `the tensor map`."""
        if self.what is Full.MAP:
            return "the tensor map"
        of = f" of ring {self.ring}" if self.ring is not None else ""
        if self.what is Full.SLOTS:
            return f"task ring {self.ring}" if self.ring is not None else "its task ring"
        return f"the {self.what.value}{of}"
