"""The watchdog's dump in the shapes of runtimes before 2026-05-12, and of the first host_build_graph."""

from __future__ import annotations

from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.messages import Fields, number, optional_number
from livedbg.adapters.ascend.stalls import Stall, StallReader
from livedbg.model import TaskState

__all__ = ["AnyStallReader"]


class AnyStallReader(StallReader):
    """Reads the rounds of one run, in the present shapes and in the older ones (`old_…`)."""

    def old_task(self, fields: Fields, mark: Mark) -> int:
        """A `STUCK-READY` or `STUCK-WAIT` line; returns the task's id."""
        stall = self.stall or self._round(0, mark)
        raw = number(fields, "task")
        self.run.confirm_open(raw)
        record = self.run.task(raw)
        kernel = number(fields, "kernel")  # the AIC slot only: -1 for a vector task
        if kernel >= 0 and not record.kernels:
            record.kernels = (kernel, -1, -1)
        record.met, record.fanin = number(fields, "met"), number(fields, "fanin")
        record.missing = max(0, record.fanin - record.met)
        if fields["state"] == "READY":
            stall.ready.add(raw)
            record.deferred = record.dispatched > 0
            record.buffered = not record.deferred and self.run.shows_dispatches
            self._leave_cores(raw)
            self.run.set_state(record, TaskState.READY, mark, earlier=True)
        else:
            stall.waiting.add(raw)
            self.run.set_state(record, TaskState.SUBMITTED, mark, earlier=True)
        return raw

    def old_core(self, fields: Fields, mark: Mark) -> None:
        """A `core=… cond=… kernel=…` line: a core that is busy, without its task's id. The task is the
        one that the log saw go there, or the only open one that was dispatched with that kernel."""
        core = self.run.core(number(fields, "core"))
        kernel = number(fields, "kernel")
        stall = self.stall or self._round(0, mark)
        raw = core.running
        if raw is None:
            fitting = [t for t in self.run.in_flight() if not t.cores and kernel in {-1, *t.kernels}]
            fitting = fitting or [t for t in self.run.in_flight() if not t.cores and not t.kernels]
            if len(fitting) != 1:
                return
            raw = fitting[0].raw
        record = self.run.task(raw)
        self.run.confirm_open(raw)
        stall.running.add(raw)
        if not record.kernels and kernel >= 0:
            record.kernels = (-1, kernel, -1) if core.subslot != "aic" else (kernel, -1, -1)
        self._runs_on(raw, core.number, core.subslot)
        self.run.set_state(record, TaskState.RUNNING, mark, earlier=True)

    def old_running(self, fields: Fields, mark: Mark) -> int:
        """A `Core 8 [AIV, RUNNING]: … running_id=3, func_id=2` line; returns the task's id."""
        raw, core, kernel = number(fields, "task"), number(fields, "core"), number(fields, "kernel")
        stall = self.stall or self._round(0, mark)
        record = self.run.task(raw)
        self.run.confirm_open(raw)
        stall.running.add(raw)
        kind = (fields["sub"] or "").lower()
        if not record.kernels and kernel >= 0:
            record.kernels = (kernel, -1, -1) if kind == "aic" else (-1, kernel, -1)
        self._runs_on(raw, core, kind)
        self.run.set_state(record, TaskState.RUNNING, mark, earlier=True)
        return raw

    def old_waiting(self, fields: Fields, mark: Mark) -> int:
        """A `Task 4: fanin=1 (waiting for dependencies)` line; returns the task's id."""
        raw = number(fields, "task")
        stall = self.stall or self._round(0, mark)
        record = self.run.task(raw)
        self.run.confirm_open(raw)
        stall.waiting.add(raw)
        record.missing = number(fields, "fanin")
        self.run.set_state(record, TaskState.SUBMITTED, mark, earlier=True)
        return raw

    def old_round(self, fields: Fields, mark: Mark) -> Stall:
        """A `PTO2 stall: no progress` line."""
        stall = self._round(optional_number(fields, "idle") or 0, mark)
        self.counts(fields)
        return stall
