"""What failed in a run, as its log reports it: collected from the several lines of one message."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.codes import cann_code
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.messages import Fields, number, optional_number
from livedbg.adapters.ascend.names import local_of, raw_id, ring_of
from livedbg.adapters.ascend.resources import Full, RingFull
from livedbg.adapters.ascend.run import Run
from livedbg.text.patterns import lazy_re

_RING: Final = lazy_re(r"ring[= ](\d{1,18})")
_RESOURCES: Final = {1: Full.SLOTS, 2: Full.HEAP, 3: Full.SLOTS, 4: Full.POOL, 11: Full.MAP}
"""What is full, by the code of the FATAL."""


class Fatal(Struct):
    """A FATAL of the orchestrator or the scheduler.

    Attributes:
        code: its number, 0 where only the words are known.
        text: what the runtime said.
        func: the function that said it.
    """

    code: int
    text: str
    func: str
    mark: Mark


class TensorWait(Struct):
    """The orchestrator waited too long for a tensor: for its producer, or for the producer's consumers."""

    task: int
    consumers: bool
    mark: Mark


class Crash(Struct):
    """The process ended by a signal or an exception.

    Attributes:
        what: `std::runtime_error`, `SIGSEGV`, …
        message: its `what()`, or "".
    """

    what: str
    message: str
    mark: Mark


class Trouble(Struct):
    """All that went wrong in one run.

    Attributes:
        status: the run's negative return code, where it failed.
        hint: the runtime's own explanation.
        unacknowledged: cores that did not answer the request to exit.
        cann: the first of CANN's own codes, which say only that something failed.
        device: number of the device.
        fault_kernel: the kernel that CANN's report of a fault names.
        call: the host's call that failed: `prepare_native_run`.
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

    def since(self, mark: Mark, span_ns: int) -> bool:
        """Whether the run failed within a span that ends at a line, by the lines' own times."""
        if mark.wall_ns is None or not mark.exact:
            return False
        begun = mark.wall_ns - span_ns
        said = (self.status_mark, self.fatal.mark if self.fatal is not None else None)
        return any(m is not None and m.exact and m.wall_ns is not None and m.wall_ns >= begun for m in said)

    def only_deinit(self, run: Run) -> bool:
        """Nothing failed but cores that did not answer at the end of the run."""
        codes = self.orch_code or self.sched_code or self.fatal is not None or self.ring is not None
        return self.status == -1 and not codes and any(core.stuck for core in run.cores.values())

    def fatal_code(self, fields: Fields, func: str, mark: Mark, run: Run) -> None:
        """`FATAL(code=N): text`."""
        code, text = number(fields, "code"), fields.get("text") or ""
        if self.fatal is None:
            self.fatal = Fatal(code, text, func, mark)
        if "local" in fields:
            task, consumers = raw_id(number(fields, "ring"), number(fields, "local")), bool(fields["consumers"])
            self.tensor = TensorWait(task, consumers, mark)
            if not consumers:
                run.confirm_open(task)
            run.task(task)

    def fatal_words(self, fields: Fields, func: str, mark: Mark) -> None:
        """`FATAL: words`, the head of a message of several lines."""
        text = fields["text"] or ""
        code = optional_number(fields, "code") or 0
        if self.fatal is None:
            self.fatal = Fatal(code, text, func, mark)
        what = _RESOURCES.get(code)
        if what is not None and not (what is Full.POOL and "Deadlock" not in text):  # one task wants too many
            ring = _RING.search(text)
            self.ring = RingFull(int(ring[1]) if ring else None, text, mark, what)
            self.ring.host_built = "Exhausted!" in text and "Deadlock" not in text
            self.ring.by_scope = code == 1

    def ring_state(self, fields: Fields) -> None:
        """`Task ring R: current=…, last_alive=…, active=15/16`."""
        if self.ring is not None:
            self.ring.ring = number(fields, "ring")
            self.ring.active, self.ring.window = number(fields, "active"), number(fields, "window")
            if self.ring.head is None and self.ring.active:
                self.ring.head = raw_id(self.ring.ring, number(fields, "alive"))

    def heap_state(self, fields: Fields) -> None:
        """`Heap ring R: top=262144, tail=0, size=262144, used=0, available=0`: that one is full."""
        if self.ring is not None:
            size, used, free = (number(fields, name) for name in ("size", "used", "available"))
            if self.ring.what is not Full.HEAP:
                return  # its numbers are told whatever is full
            self.ring.size, self.ring.free = size, free
            self.ring.used = used if used or free else size  # it counts modulo the size: 0 is also what full is

    def resource_numbers(self, fields: Fields) -> None:
        """`Requested: 65536 bytes`, `Pool used: 16 / 16`, `Needed: 4 entries`, `scope_task_count: 15`,
        `active_tasks: 15 / 16`, `last_task_alive: 0 (stuck here)`."""
        ring, fatal = self.ring, self.fatal
        if ring is None:
            if fatal is not None and "used" in fields and "size" in fields:
                fatal.text += f" {number(fields, 'used'):,} of {number(fields, 'size'):,} entries are used."
            return
        for name in ("used", "size", "wanted", "active", "window", "in_scope", "oldest"):
            value = optional_number(fields, name)
            if value is not None:
                setattr(ring, name, value)

    def ring_head(self, fields: Fields, run: Run) -> None:
        """`Head task L: state=…, consumers=done/all, …`; L counts inside the ring."""
        ring = self.ring
        if ring is None or ring.active == 0:  # it names the slot of a task that was not submitted
            return
        local = number(fields, "local")
        if ring.ring is None:  # the message of the dependency pool names no ring
            open_ones = [raw for raw, task in run.tasks.items() if local_of(raw) == local and task.open]
            if len(open_ones) != 1:
                return
            ring.ring = ring_of(open_ones[0])
        ring.head = raw_id(ring.ring, local)
        ring.head_state = number(fields, "state")
        ring.consumers_left = max(0, number(fields, "all") - number(fields, "done"))
        ring.scope_released = fields["released"] == "1"
        if ring.head_state == 0:
            run.confirm_open(ring.head)
            run.settle_executed()

    def scope_head(self, fields: Fields) -> None:
        """`Head task L is the oldest task owned by an open scope`."""
        if self.ring is not None:
            self.ring.by_scope = True
            if self.ring.ring is not None:
                self.ring.head = raw_id(self.ring.ring, number(fields, "local"))

    def failed(self, fields: Fields, mark: Mark) -> None:
        """The run's return code, or the codes that the host read back."""
        rc = optional_number(fields, "rc")
        status = rc if rc is not None else optional_number(fields, "status")
        if cann_code(status) is not None:
            if self.cann is None:
                self.cann, self.cann_mark = status, mark
        elif status and self.status in {None, -1}:
            self.status, self.status_mark = status, mark
        self.orch_code = optional_number(fields, "orch") or self.orch_code
        self.sched_code = optional_number(fields, "sched") or self.sched_code
