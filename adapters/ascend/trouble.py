"""Failures of a run, collected from multi-line messages of its log.

Source for the resources that an orchestrator can run out of: simpler pto_ring_buffer.h (task allocator, pools),
pto_orchestrator.cpp (scopes, tensor map), runtime_maker.cpp (variables), docs/dfx/scope-stats.md, August 2026. All but
the tensor map exist for each ring.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.codes import cann_code
from livedbg.adapters.ascend.messages import Fields, Mark, optional_number
from livedbg.adapters.ascend.run import Run


class Full(StrEnum):
    """Resources that an orchestrator may run out of."""

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
    """An orchestrator that can't submit because a resource is full.

    Attributes:
        head: the ring's oldest task that was not reclaimed.
        head_state: 0 if it has not completed.
        scope_released: the scope that it belongs to has ended.
        by_scope: the runtime proved that an open scope pins the head.
        oldest: number in its ring of the oldest task, if the message has neither its ring nor its state.
        size, used, free, wanted: of the heap in bytes, of a pool in entries; None if not logged.
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
        """Return whether one task wants more than the resource's size: freeing doesn't help.

        So it is where it wants no one knows how much of a heap of which nothing is in use.
        """
        if not self.size:
            return False
        return self.active == 0 and self.free == self.size if self.wanted is None else self.wanted > self.size

    @property
    def level(self) -> str:
        """Return its fill: `15 of 15 usable slots`; `196,608 of 262,144 bytes used, 65,536 wanted`; "" if unknown.

        The allocator keeps one slot free (PTO2TaskAllocator::alloc, pto_ring_buffer.h). A heap may be full with room
        left: a task's output must be contiguous.
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
        """Return `task ring 1`, `the heap of ring 1`, `the dependency pool`, `the tensor map`."""
        if self.what is Full.MAP:
            return "the tensor map"
        of = f" of ring {self.ring}" if self.ring is not None else ""
        if self.what is Full.SLOTS:
            return f"task ring {self.ring}" if self.ring is not None else "its task ring"
        return f"the {self.what.value}{of}"


RESOURCES: Final = {1: Full.SLOTS, 2: Full.HEAP, 3: Full.SLOTS, 4: Full.POOL, 11: Full.MAP}
"""What is full, by the code of the FATAL."""


class Fatal(Struct):
    """A FATAL of the orchestrator or the scheduler: number (0 if unknown), text and logging function."""

    code: int
    text: str
    func: str
    mark: Mark


class TensorWait(Struct):
    """An orchestrator's timed-out wait for a tensor: for its producer, or for the producer's consumers."""

    task: int
    consumers: bool
    mark: Mark


class Crash(Struct):
    """An end of the process by a signal (`SIGSEGV`) or an exception (`std::runtime_error`, with its `what()`)."""

    what: str
    message: str
    mark: Mark


class Trouble(Struct):
    """All failures of one run.

    Attributes:
        status: the run's negative return code, if it failed.
        hint: the runtime's own explanation.
        unacknowledged: cores that did not answer the request to exit.
        cann: the first of CANN's own codes, which only say that something failed.
        fault_kernel: the kernel named in CANN's fault report.
        call: the host's failed call: `prepare_native_run`.
        who: whose call CANN's code is of: `chip worker 3 (pid 77, device 5)`.
        child: the number, pid and line of the child whose failure is being reported; `remote`: of which session.
    """

    fatal: Fatal | None = None
    ring: RingFull | None = None
    tensor: TensorWait | None = None
    crash: Crash | None = None
    status: int | None = None
    status_mark: Mark | None = None
    orch_code: int = 0
    sched_code: int = 0
    hint: str = ""
    unacknowledged: int = 0
    cann: int | None = None
    cann_mark: Mark | None = None
    device: int | None = None
    fault_kernel: str = ""
    call: str = ""
    who: str = ""
    child: tuple[str, str, int] | None = None
    remote: str = ""

    def since(self, mark: Mark, span_ns: int) -> bool:
        """Return whether the run failed within a span that ends at a line, by the lines' own times."""
        if mark.wall_ns is None or not mark.exact:
            return False
        begun = mark.wall_ns - span_ns
        said = (self.status_mark, self.fatal.mark if self.fatal is not None else None)
        return any(m is not None and m.exact and m.wall_ns is not None and m.wall_ns >= begun for m in said)

    def only_deinit(self, run: Run) -> bool:
        """Return whether only cores failed to answer at the end of the run."""
        codes = self.orch_code or self.sched_code or self.fatal is not None or self.ring is not None
        return self.status == -1 and not codes and any(core.stuck for core in run.cores.values())

    def failed(self, fields: Fields, mark: Mark) -> None:
        """Process the run's return code, or the codes that the host read back."""
        rc = optional_number(fields, "rc")
        status = rc if rc is not None else optional_number(fields, "status")
        if cann_code(status) is not None:
            if self.cann is None:
                self.cann, self.cann_mark = status, mark
        elif status and self.status in {None, -1}:
            self.status, self.status_mark = status, mark
        self.orch_code = optional_number(fields, "orch") or self.orch_code
        self.sched_code = optional_number(fields, "sched") or self.sched_code
