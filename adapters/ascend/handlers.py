"""Handlers of messages: one small method for each kind changes the job (data/messages.toml names the kinds)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.messages import Fields, Mark, number, optional_number
from livedbg.adapters.ascend.names import local_of, raw_id, ring_of
from livedbg.adapters.ascend.trouble import RESOURCES, Crash, Fatal, Full, RingFull, TensorWait
from livedbg.adapters.ascend.watchdogs import Limit, built_in
from livedbg.text.patterns import lazy_re

_PLACES: Final = ("aic", "aiv0", "aiv1")  # of a cluster's three cores, by offset
_RING: Final = lazy_re(r"ring[= ](\d{1,18})")
_NESTED: Final = 3  # lines from the head of a nested report to the code in it
_A2A3_HZ: Final = 50_000_000
_A5_HZ: Final = 1_000_000_000
"""PLATFORM_PROF_SYS_CNT_FREQ of simpler src/{a2a3,a5}/platform/include/common/platform_config.h."""
_MANY_CYCLES: Final = 5_000_000_000  # more than any limit has at a2a3's frequency
_OF_A_RUN: Final = frozenset(
    {"stall_task", "stall_summary", "stall_cluster", "stall_round", "timeout", "resolution_stall"}
    | {"fatal_code", "fatal", "failed"}
)
"""Kinds that show that a run is under way, whose begin may not be in the log."""

Entities = tuple[str, ...]
"""Identifiers of the entities that a message speaks of."""


def handle(job: Job, kind: str, fields: Fields, func: str, mark: Mark) -> Entities:
    """Apply one message to a job; return the entities in it."""
    job.log_goes_on(mark, idle=kind.startswith("stall_"))
    handler: Callable[[_Handled], Entities | None] | None = getattr(_Handled, kind, None)
    if handler is None:
        return ()
    job.stale = True
    if kind in _OF_A_RUN:
        job.runs()
    return handler(_Handled(job, fields, func, mark)) or ()


class _Handled(Struct, frozen=True):
    """One message of a job: the method with the name of its kind applies it."""

    job: Job
    fields: Fields
    func: str
    mark: Mark

    def _number(self, name: str) -> int:
        return number(self.fields, name)

    def _text(self, name: str) -> str:
        return self.fields.get(name) or ""

    def _cores(self) -> tuple[int, int, int]:
        return self._number("aic"), self._number("aiv0"), self._number("aiv1")

    # the course of a run

    def begin(self) -> None:
        job = self.job
        job.begin(on_device=self.func == "init")
        job.run.building = self.fields.get("mode") == "host"
        if self.func == "init" and job.run.progress_wall_ns is None:
            job.run.progressed(self.mark)  # no task ran before

    bind = begin

    def at_once(self) -> None:
        self.job.at_once = max(self.job.at_once, self._number("count"))

    def span(self) -> None:
        job, name = self.job, self._text("name")
        took_ns, pid = optional_number(self.fields, "dur"), self._number("pid")
        if name.startswith("chip.run.bind"):
            within = took_ns is not None and job.trouble.since(self.mark, took_ns)  # it is written when it ends
            if job.run.phase in {"completed", "failed"} and not within:
                job.begin(on_device=False)
            job.run.building = False
            job.chips_at_work.add(pid)
            job.chips_begun.add(pid)
            if job.run.phase != "running":
                job.run.progressed(self.mark)  # no task ran before
        elif name == "chip.run" and self.fields["depth"] == "0" and job.run.phase != "failed":
            job.end(self.mark, pid)
            ran = optional_number(self.fields, "number")
            if ran is not None and not job.shared:
                job.runs_done, job.numbered = max(job.runs_done, ran), True  # the host counts from 1
        elif name == "chip.run.runner_run" and took_ns is not None and not job.shared:
            job.timeouts.run_took(took_ns / 1e9)

    def dispatched(self) -> Entities:
        job, raw, thread, offset = self.job, self._number("task"), self._number("thread"), self._number("offset")
        if raw < 0:
            return ()
        if job.run.phase in {"unknown", "starting"}:
            job.run.phase = "running"
        stall = job.stalls.stall
        if stall is not None and not stall.exit:
            job.stalls.stall = None  # it went on
            job.run.confirmed.clear()
        record = job.run.task(raw)
        if "aic" in self.fields:
            record.kernels = self._cores()
        record.blocks = max(record.blocks, self._number("blocks"))
        core = self._number("core") if "core" in self.fields else job.run.core_at(thread, offset)
        slot, subslot = self._text("slot") or "idle", self._text("sub").lower()
        job.run.dispatch(raw, core, self.mark, slot=slot, subslot=subslot, place=_PLACES[offset % 3], thread=thread)
        where = (job.names.core(core),) if core is not None else ()
        return (job.names.task(raw), *where)

    def completed(self) -> None:
        job = self.job
        if job.shared:
            return  # of one chip's run, which isn't known
        counts = job.run.counts
        counts.completed, counts.total = self._number("completed"), self._number("total")
        if counts.completed >= counts.total > 0 and not job.trouble.fatal:
            job.run.finish(self.mark)

    def progress(self) -> None:
        run = self.job.run
        run.counts.completed, run.counts.total = self._number("completed"), self._number("total")
        run.progressed(self.mark)

    def executed(self) -> None:
        self.job.run.executed[self._number("thread")] = self._number("count")
        self.job.run.settle_executed()

    def ring_total(self) -> None:
        self.job.run.declare(self._number("ring"), self._number("total"))
        self.orchestrated()

    def submitted(self) -> None:
        self.job.run.counts.total = self._number("total")

    def orchestrated(self) -> None:
        if not self.job.trouble.fatal:
            self.job.run.orchestrator = "done"

    def drained(self) -> None:
        """Note that the simulator's host has joined all core threads: each kernel has returned."""
        stall = self.job.stalls.stall
        if stall is not None and stall.exit and not self.job.shared:
            stall.drained = self.mark
        self.job.end(self.mark)

    def cluster_map(self) -> Entities:
        run, thread, triple = self.job.run, self._number("thread"), self._cores()
        run.clusters.setdefault(thread, []).append(triple)
        for core, subslot in zip(triple, _PLACES, strict=True):
            run.core(core, subslot, thread).cluster = self._number("cluster")
        return tuple(self.job.names.core(core) for core in triple)

    def chip_process(self) -> None:
        self.job.chips[self._number("pid")] = self._number("device")

    # the watchdog's rounds

    def stall_task(self) -> Entities:
        self.job.watchdog_reports()
        return (self.job.names.task(self.job.stalls.task(self.fields, self.mark)),)

    def stall_summary(self) -> None:
        self.job.stalls.summary(self.fields, self.mark)

    def stall_cluster(self) -> None:
        self.job.stalls.cluster(self.fields, self.mark)

    def stall_round(self) -> None:
        self.job.stalls.round(self.fields, self.mark)

    def stall_counts(self) -> None:
        if self.job.stalls.stall is not None:
            self.job.stalls.counts(self.fields)

    def stall_core(self) -> Entities:
        self.job.stalls.core(self.fields, self.mark)
        return (self.job.names.core(self._number("core")),)

    def timeout(self) -> Entities:
        job, stall = self.job, self.job.stalls.timeout(self.fields, self.mark)
        turns = 0 if stall.sub_class else optional_number(self.fields, "idle") or 0
        job.timeouts.add("scheduler", self.mark, took_s=job.run.idle_s(self.mark), turns=turns)
        if stall.orchestrator_done:
            self.orchestrated()
        return (job.names.task(stall.stuck_task),) if stall.stuck_task is not None else ()

    def resolution_stall(self) -> Entities:
        job, stall = self.job, self.job.stalls.resolution(self.fields, self.mark)
        job.timeouts.add("scheduler", self.mark, took_s=job.run.idle_s(self.mark))
        return tuple(job.names.task(raw) for raw in sorted(stall.ready))

    # failures of the orchestrator and the scheduler

    def fatal_code(self) -> Entities:
        """Handle `FATAL(code=N): text`, where the text may be `Timeout (N cycles): producer …`."""
        job, trouble, text = self.job, self.job.trouble, self._text("text")
        trouble.fatal = trouble.fatal or Fatal(self._number("code"), text, self.func, self.mark)
        if "local" in self.fields:
            task, consumers = raw_id(self._number("ring"), self._number("local")), bool(self.fields["consumers"])
            trouble.tensor = TensorWait(task, consumers, self.mark)
            if not consumers:
                job.run.confirm_open(task)
            job.run.task(task)
        digits = text.partition("(")[2].partition(" ")[0]
        if digits.isdecimal() and len(digits) < 20 and text.startswith("Timeout ("):
            seconds = int(digits) / (_A5_HZ if int(digits) >= _MANY_CYCLES else _A2A3_HZ)
            job.timeouts.add("tensor-wait", self.mark, built_in("tensor-wait", seconds))
        return (job.names.task(trouble.tensor.task),) if trouble.tensor is not None else ()

    def fatal(self) -> Entities:
        """Handle `FATAL: words`, the head of a multi-line message."""
        trouble, text = self.job.trouble, self._text("text")
        code = optional_number(self.fields, "code") or 0
        trouble.fatal = trouble.fatal or Fatal(code, text, self.func, self.mark)
        what = RESOURCES.get(code)
        if what is not None and not (what is Full.POOL and "Deadlock" not in text):  # one task wants too many
            named = _RING.search(text)
            trouble.ring = RingFull(int(named[1]) if named else None, text, self.mark, what, by_scope=code == 1)
            trouble.ring.host_built = "Exhausted!" in text and "Deadlock" not in text
        ring = trouble.ring
        return (self.job.names.ring(ring.ring),) if ring is not None and ring.ring is not None else ()

    def ring_state(self) -> Entities:
        """Handle `Task ring R: current=…, last_alive=…, active=15/16`; up to 2026-06-26 without R."""
        ring, named = self.job.trouble.ring, optional_number(self.fields, "ring")
        if ring is not None:
            ring.active, ring.window = map(self._number, ("active", "window"))
            ring.ring = ring.ring if named is None else named
            if ring.head is None and ring.active and named is not None:
                ring.head = raw_id(named, self._number("alive"))
        return () if named is None else (self.job.names.ring(named),)

    def ring_head(self) -> Entities:
        """Handle `Head task L: state=…, consumers=done/all, …`; L counts inside the ring."""
        ring = self.job.trouble.ring
        if ring is not None and ring.active != 0:  # else it names the slot of a task that was not submitted
            self._head_of(ring)
        return (self.job.names.task(ring.head),) if ring is not None and ring.head is not None else ()

    def _head_of(self, ring: RingFull) -> None:
        run, local = self.job.run, self._number("local")
        if ring.ring is None:  # the message of the dependency pool names no ring
            open_ones = [raw for raw, task in run.tasks.items() if local_of(raw) == local and task.open]
            if len(open_ones) != 1:
                return
            ring.ring = ring_of(open_ones[0])
        ring.head, ring.head_state = raw_id(ring.ring, local), self._number("state")
        ring.scope_released = self.fields["released"] == "1"
        if ring.head_state == 0:
            run.confirm_open(ring.head)
            run.settle_executed()

    def heap_state(self) -> Entities:
        """Handle `Heap ring R: top=262144, tail=0, size=262144, used=0, available=0`: that one is full.

        Up to 2026-06-26 without R and `used`.
        """
        ring, named = self.job.trouble.ring, optional_number(self.fields, "ring")
        size, free, used = self._number("size"), self._number("available"), optional_number(self.fields, "used")
        if used is None:
            used = (self._number("top") - self._number("tail")) % max(1, size)
        if ring is not None and ring.what is Full.HEAP:  # its numbers are told whatever is full
            ring.size, ring.free = size, free
            ring.used = used if used or free else size  # it counts modulo the size: 0 is also what full is
        return () if named is None else (self.job.names.ring(named),)

    def resource(self) -> None:
        """Handle `Requested: 65536 bytes`, `Pool used: 16 / 16`, `last_task_alive: 0 (stuck here)` etc."""
        ring, fatal = self.job.trouble.ring, self.job.trouble.fatal
        if ring is not None:
            for name in ("used", "size", "wanted", "active", "window", "in_scope", "oldest"):
                value = optional_number(self.fields, name)
                if value is not None:
                    setattr(ring, name, value)
        elif fatal is not None and "used" in self.fields and "size" in self.fields:
            fatal.text += f" {self._number('used'):,} of {self._number('size'):,} entries are used."

    def scope_head(self) -> None:
        """Handle `Head task L is the oldest task owned by an open scope`."""
        ring = self.job.trouble.ring
        if ring is not None:
            ring.by_scope = True
            if ring.ring is not None:
                ring.head = raw_id(ring.ring, self._number("local"))

    def unacknowledged(self) -> None:
        self.job.trouble.unacknowledged = self._number("count")

    def deinit_timeout(self) -> Entities:
        core = self.job.run.core(self._number("core"))
        core.stuck = True
        self.job.run.changed_cores.add(core.number)
        return (self.job.names.core(core.number),)

    # failures that the host reports

    def failed(self) -> None:
        self.job.trouble.failed(self.fields, self.mark)
        if self.func in {"drain_execution", "validate_runtime_impl"} or "status" in self.fields:
            self.job.run.phase = "failed"

    def acl_failed(self) -> None:
        self.job.trouble.failed(self.fields, self.mark)
        self.job.timeouts.simulator = False
        self.job.run.phase = "failed"

    def host_error(self) -> None:
        trouble = self.job.trouble
        trouble.failed(self.fields, self.mark)
        trouble.call = self._text("call") or trouble.call
        if trouble.cann_mark is self.mark:
            trouble.who = self._whose()
        self.job.run.phase = "failed"

    def worker_failed(self) -> None:
        name = f"{self._text('kind')} worker {self._number('worker')}"
        self.job.trouble.child = (name, self._text("pid"), self.mark.line or 0)

    def remote_failed(self) -> None:
        self.job.trouble.remote = self._text("remote")

    def _whose(self) -> str:
        """Return `chip worker 3 (pid 77, device 5), in the remote session of worker 1`: whose call failed; or ""."""
        trouble = self.job.trouble
        if self._text("remote"):
            self.remote_failed()
        if self._text("worker"):
            self.worker_failed()
        device = self._text("device")
        name, pid, line = trouble.child or ("", "", 0)
        if not 0 <= (self.mark.line or 0) - line <= _NESTED:
            name = pid = ""
        if not (name or device):
            return ""
        place = ", ".join([*([f"pid {pid}"] if pid else ()), *([f"device {device}"] if device else ())])
        remote = f", in the remote session of worker {trouble.remote}" if trouble.remote else ""
        return f"{name or 'a chip process'} ({place}){remote}"

    def not_run(self) -> None:
        trouble = self.job.trouble
        if trouble.status is None:
            trouble.status, trouble.status_mark = -1, self.mark  # what validate_runtime_impl returns then
        self.job.run.phase = "failed"

    def operation_set(self) -> None:
        """Handle `aclrtSetOpExecuteTimeOutV2: requested=… us, actual=… us`."""
        self.job.timeouts.simulator = False
        actual = optional_number(self.fields, "actual")
        if actual:
            self.job.timeouts.operation = Limit(actual / 1_000_000, "as the log says")

    def stream_sync(self) -> None:
        """Handle `Stream sync timeout: stream=… timeout_ms=…`."""
        self.job.timeouts.simulator = False
        limit = Limit(self._number("limit") / 1_000, "as the log says")
        self.job.timeouts.add("stream-sync", self.mark, limit)
        self.job.trouble.device = self._number("device")
        self.job.run.phase = "failed"

    def op_execute(self) -> None:
        """Handle `HandleTaskTimeout`: CANN ended the operation."""
        self.job.timeouts.simulator = False
        self.job.timeouts.add("op-execute", self.mark, self.job.timeouts.operation)

    def reclaim(self) -> None:
        """Handle `No reclaim progress for ~500 ms (N cycles wall clock).`"""
        self.job.timeouts.add("allocator", self.mark, built_in("allocator", self._number("ms") / 1_000))

    def limits_ignored(self) -> None:
        self.job.timeouts.ignored, self.job.timeouts.ignored_mark = self._text("text"), self.mark

    def simulator(self) -> None:
        self.job.timeouts.simulator = True

    def fault_kernel(self) -> None:
        self.job.trouble.fault_kernel = self._text("kernel")

    def error_hint(self) -> None:
        self.job.trouble.hint = self._text("text")

    # the end of the process

    def core_fault(self) -> None:
        if self.job.trouble.crash is None:
            self.job.trouble.crash = Crash("AICore fault", self._text("text"), self.mark)

    def terminate(self) -> None:
        what = self._text("type") or self._text("text") or "std::terminate"
        self.job.trouble.crash = Crash(what, "", self.mark)

    def what(self) -> None:
        crash = self.job.trouble.crash
        if crash is not None and not crash.message:
            crash.message = self._text("text")
