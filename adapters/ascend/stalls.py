"""Parse the watchdog's dump of a run, round by round.

Only scheduler thread 0 writes TASK and SUMMARY lines; they list at most 8 RUNNING, 8 READY and 4 WAIT tasks. Every
thread writes CLUSTER lines, at most 8 each (simpler scheduler_cold_path.cpp, STALL_DUMP_*). Runtimes before 2026-05-12
and the first host_build_graph (until July 2026) print less, in other words: data/messages.toml has both.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from livedbg.adapters.ascend.messages import Fields, Mark, number, optional_number
from livedbg.adapters.ascend.run import Counts, Run
from livedbg.adapters.ascend.tasks import CoreRecord, TaskRecord
from livedbg.model import TaskState
from livedbg.text.patterns import lazy_re

_ON_CORE: Final = lazy_re(r"core=(\d{1,18})\((\w+|\?)\)")
_CORE: Final = lazy_re(
    r"core(?P<core>\d{1,18})\((?:(?P<idle>idle)|busy kernel=(?P<kernel>-?\d{1,18}) task=(?P<task>-?\d{1,18})"
    r" cond_reg_state=(?P<condition>ack|fin)(?P<anomaly> ANOMALY)?[^)]*)\)"
)


class Stall(Struct):
    """The watchdog's newest round.

    Attributes:
        idle: idle iterations of the scheduler thread so far.
        exit: the watchdog ended the run (TIMEOUT_EXIT), it didn't only report.
        sub_class: `S1:running-stalled`, …; "" if the version prints none.
        stuck_task, stuck_core: its own guess.
        anomalies: cores that are done but were not collected.
        drained: the line that shows that all cores' threads have ended since (simulator): no kernel runs any more.
    """

    idle: int
    mark: Mark
    exit: bool = False
    sub_class: str = ""
    stuck_task: int | None = None
    stuck_core: int | None = None
    orchestrator_done: bool | None = None
    running: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)
    anomalies: dict[int, int] = field(default_factory=dict)
    drained: Mark | None = None

    def class_by(self, counts: Counts) -> str:
        """Return the class by its counts, for versions that print none; "" without counts.

        Source: classify_stall_detail in simpler's pto_runtime_status.h: running before ready before waiting.
        """
        if counts.running:
            return "S1:running-stalled"
        if counts.ready:
            return "S3:ready-but-all-idle"
        if counts.waiting:
            return "S4:dependency-deadlock"
        known = None not in {counts.running, counts.ready, counts.waiting}
        return "S5:orchestrator-starvation" if known and self.orchestrator_done is False else ""

    @property
    def listed(self) -> set[int]:
        """Return the tasks that it names as not completed."""
        return self.running | self.ready | self.waiting


class StallReader:
    """Reads the rounds of one run.

    A TASK line's `core=8(aiv0)` names the task's subslot, not the core's place in its cluster, which CLUSTER lines and
    dispatch offsets give.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.stall: Stall | None = None

    def _round(self, fields: Fields, mark: Mark, *, ends: bool = False) -> Stall:
        """Return the round with these idle iterations, created if needed; older lines have no number.

        The line that ends a run may come later than the last dump: if the thread that wrote it turned on without
        progress, and so with the same counts, that dump still tells what runs.
        """
        stall, idle = self.stall, optional_number(fields, "idle")
        goes_on = ends and fields.get("thread") == "0" and self._same_counts(fields)  # each thread has its own number
        if goes_on and stall is not None and idle is not None and stall.idle < idle:
            stall.idle = idle
            return stall
        if stall is None or (idle is not None and stall.idle != idle and not stall.exit):
            stall = self.stall = Stall(idle or 0, mark)
            self.run.confirmed.clear()
        return stall

    def _same_counts(self, fields: Fields) -> bool:
        """Return whether a line has the counts that are known, or none."""
        counted = {name: optional_number(fields, name) for name in ("completed", "running", "ready", "waiting")}
        return all(value in (None, getattr(self.run.counts, name)) for name, value in counted.items())

    def task(self, fields: Fields, mark: Mark) -> int:
        """Process a line about one task; return the task's id."""
        run, stall, raw = self.run, self._round(fields, mark), number(fields, "task")
        run.confirm_open(raw)
        record = run.task(raw)
        if "aic" in fields:
            record.kernels = (number(fields, "aic"), number(fields, "aiv0"), number(fields, "aiv1"))
        else:  # the AIC slot alone is printed, -1 for a vector task; or the one of a core
            _set_kernel(record, optional_number(fields, "kernel"), (fields.get("sub") or "aic").lower())
        _depends(record, fields)
        if fields["state"] == "RUNNING":
            stall.running.add(raw)
            owner = optional_number(fields, "owner")
            record.owner = owner if owner is not None and owner >= 0 else record.owner
            for core, subslot in _ON_CORE.findall(fields.get("cores") or ""):
                self._runs_on(raw, int(core), subslot)
            if "core" in fields:
                self._runs_on(raw, number(fields, "core"), (fields["sub"] or "").lower())
            run.set_state(record, TaskState.RUNNING, mark, earlier=True)
        elif fields["state"] == "READY":
            stall.ready.add(raw)
            record.deferred = record.dispatched > 0 or record.deferred
            record.buffered = not record.deferred and run.shows_dispatches
            run.leave_cores(record)
            run.set_state(record, TaskState.READY, mark, earlier=True)
        else:
            stall.waiting.add(raw)
            run.set_state(record, TaskState.SUBMITTED, mark, earlier=True)
        return raw

    def core(self, fields: Fields, mark: Mark) -> None:
        """Process a `core=… cond=… kernel=…` line (before 2026-05-12): a busy core, without its task's id.

        The task is the one that was logged as dispatched there, or the only open one dispatched with that kernel.
        """
        run, core = self.run, self.run.core(number(fields, "core"))
        kernel, stall, raw = number(fields, "kernel"), self._round(fields, mark), core.running
        if raw is None:
            fitting = [t for t in run.in_flight() if not t.cores and kernel in {-1, *t.kernels}]
            fitting = fitting or [t for t in run.in_flight() if not t.cores and not t.kernels]
            if len(fitting) != 1:
                return
            raw = fitting[0].raw
        record = run.task(raw)
        run.confirm_open(raw)
        stall.running.add(raw)
        _set_kernel(record, kernel, core.subslot)
        self._runs_on(raw, core.number, core.subslot)
        run.set_state(record, TaskState.RUNNING, mark, earlier=True)

    def round(self, fields: Fields, mark: Mark) -> None:
        """Process a `PTO2 stall` line (before 2026-05-12), which begins a round."""
        self._round(fields, mark)
        self.counts(fields)

    def _runs_on(self, raw: int, number_: int, subslot: str) -> None:
        record = self.run.task(raw)
        core = self.run.core(number_)
        if core.running != raw:
            self._free(core)
        core.running = raw
        record.cores[number_] = subslot
        self.run.changed_cores.add(number_)

    def summary(self, fields: Fields, mark: Mark) -> None:
        """Process a SUMMARY line: the counts, and conclusions on tasks without a line."""
        self._conclude(self._counted(fields, mark), mark)

    def _counted(self, fields: Fields, mark: Mark, *, ends: bool = False) -> Stall:
        """Return the round of a line with counts; the one that ended the run stays its mark."""
        stall = self._round(fields, mark, ends=ends)
        stall.mark = mark if not stall.exit else stall.mark
        self.counts(fields)
        return stall

    def counts(self, fields: Fields) -> None:
        """Process the counts of a SUMMARY, TIMEOUT_EXIT or older line."""
        counts = self.run.counts
        for name in ("completed", "total", "running", "ready", "waiting"):
            value = optional_number(fields, name)
            if value is not None and not (name == "total" and value == 0):
                setattr(counts, name, value)

    def _conclude(self, stall: Stall, mark: Mark) -> None:
        """Conclude that tasks not listed in a complete round have completed (R2)."""
        counts = self.run.counts
        if counts.running != len(stall.running):
            return
        whole = counts.ready == len(stall.ready) and counts.waiting == len(stall.waiting)
        for raw, record in list(self.run.tasks.items()):
            if raw in stall.listed or not record.open:
                continue
            if whole or (record.dispatched and counts.ready == len(stall.ready)):
                self.run.complete(record, "the watchdog's dump does not list it", mark)

    def cluster(self, fields: Fields, mark: Mark) -> None:
        """Process a CLUSTER line: the state of three cores."""
        stall = self._round(fields, mark)
        listed = stall.listed
        for subslot in ("aic", "aiv0", "aiv1"):
            match = _CORE.fullmatch(fields[subslot] or "")
            if match is None:
                continue
            core = self.run.core(int(match["core"]), subslot, number(fields, "thread"))
            core.cluster = number(fields, "cluster")
            self.run.changed_cores.add(core.number)
            if match["idle"]:
                self._free(core)
                continue
            core.condition = match["condition"]
            task = int(match["task"])
            if task >= 0:
                self.run.confirm_open(task)
                stall.running.add(task)
                self._runs_on(task, core.number, subslot)
                record = self.run.task(task)
                said = record.said if task in listed else None
                self.run.set_state(record, TaskState.RUNNING, mark, earlier=True)
                if said is not None:
                    record.said = said  # its TASK line says more
                _set_kernel(record, int(match["kernel"]), subslot)
            if match["anomaly"]:
                stall.anomalies[core.number] = task

    def _free(self, core: CoreRecord) -> None:
        if core.running is not None:
            record = self.run.task(core.running)
            record.cores.pop(core.number, None)
            self.run.changed.add(record.raw)
            core.running = None

    def timeout(self, fields: Fields, mark: Mark) -> Stall:
        """Process a TIMEOUT_EXIT line, or the host's line about it (which has no thread and no iterations)."""
        stall = self._counted(fields, mark, ends=True)
        stall.exit = True
        if fields.get("sub_class"):
            stall.sub_class = fields["sub_class"] or ""
            stall.orchestrator_done = fields["orch_done"] == "1"
            task, core = (optional_number(fields, name) for name in ("stuck_task", "stuck_core"))
            stall.stuck_core = core if core is not None and core >= 0 else stall.stuck_core
            if task is not None and task >= 0:
                stall.stuck_task = task
                self.run.confirm_open(task)
                stall.running.add(task)
                self.run.set_state(self.run.task(task), TaskState.RUNNING, mark, earlier=True)
                if core is not None and core >= 0 and not any(c.running == task for c in self.run.cores.values()):
                    self._runs_on(task, core, _subslot_of(core, self.run))
            self._conclude(stall, mark)
        return stall

    def resolution(self, fields: Fields, mark: Mark) -> Stall:
        """Process `P resolution stall`: host_build_graph's resolution thread ends the run while no core runs a task."""
        stall = self._round(fields, mark)
        self.counts(fields)
        stall.exit = stall.orchestrator_done = True
        self.run.counts.running = 0
        if (self.run.counts.completed or 0) > self.run.done:
            return stall  # some have ended unseen: which isn't known
        for record in self.run.in_flight():
            stall.ready.add(record.raw)
            record.deferred = True
            self.run.confirm_open(record.raw)
            self.run.leave_cores(record)
            self.run.set_state(record, TaskState.READY, mark, earlier=True)
        return stall


def _depends(record: TaskRecord, fields: Fields) -> None:
    """Set a task's number of dependencies and unmet ones.

    Both sides of a reference count include the runtime's own reference, until the task is wired
    (`fanin_count = wfanin + 1`, simpler pto_orchestrator.cpp). `fanin_met` does not.
    """
    references, met = optional_number(fields, "references"), optional_number(fields, "met")
    if references is not None:
        wanted = number(fields, "wanted")
        record.fanin, record.missing = max(0, wanted - 1), max(0, wanted - references)
    elif met is not None:
        record.fanin = number(fields, "fanin")
        record.missing = max(0, record.fanin - met)
    missing = optional_number(fields, "missing")
    record.missing = record.missing if missing is None else missing


def _set_kernel(record: TaskRecord, kernel: int | None, subslot: str) -> None:
    """Set the kernel of a task by the core's place; an unknown place counts as a vector core."""
    if kernel is not None and kernel >= 0 and not record.kernels:
        place = {"aic": 0, "aiv1": 2}.get(subslot, 1)
        record.kernels = tuple(kernel if index == place else -1 for index in range(3))


def _subslot_of(core: int, run: Run) -> str:
    record = run.cores.get(core)
    return record.subslot if record is not None and record.subslot else "?"
