"""Shared by the Ascend rules: jobs from their diagnostics; names, places and counts as text; findings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, Final, TypeVar

from msgspec import Struct

from livedbg.adapters.ascend.facts import FailureFacts, JobFacts, RingFacts, RunFacts, StallFacts, TaskFacts, scope_of
from livedbg.adapters.ascend.messages import Line, lines, read_data
from livedbg.adapters.ascend.names import is_kernel
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import function_name, line_of
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import duration, waited_ns
from livedbg.model import Diagnostic, EdgeKey, EdgeKind, EdgeState, Evidence, Severity, Task, TaskState, ids
from livedbg.model.facts import read_facts
from livedbg.model.snapshot import Snapshot
from livedbg.signatures.templates import names_in, render
from livedbg.text.wording import sentences

F = TypeVar("F", bound=JobFacts)

_NAMES_SHOWN: Final = 6
_EVIDENCE_SHOWN: Final = 8
_WAITERS_SHOWN: Final = 2
_SAMPLES_LEAST: Final = 3
_COUNTED: Final = 10_000  # of the tasks behind a root


class JobDiagnostics(Struct, frozen=True):
    """One Ascend job.

    Attributes:
        said: its `run-state` diagnostic.
        run: the facts of that.
        others: its other diagnostics.
        scope: `ascend`, or `ascend/LABEL` if there are several jobs.
        state: the state to which it belongs.
        rule: the name of the rule that judges it.
    """

    said: Diagnostic
    run: RunFacts
    others: tuple[Diagnostic, ...]
    scope: str
    state: RuleInput
    rule: str = ""

    @property
    def snapshot(self) -> Snapshot:
        return self.state.snapshot

    @property
    def alive(self) -> bool:
        """Return whether a living process may write the log."""
        return any(process.target and not process.exited for process in self.snapshot.processes.values())

    @property
    def label(self) -> str:
        """Return its name among several jobs."""
        return self.scope.partition("/")[2] or self.run.place

    @property
    def orchestrator(self) -> str:
        """Return the id of the thread that submits its tasks."""
        return f"task:{self.scope}/orchestrator"

    @property
    def task_prefix(self) -> str:
        """Return the id prefix of its tasks (without the orchestrator)."""
        return f"task:{self.scope}/r"

    @property
    def completed(self) -> bool:
        return self.run.phase == "completed"

    def unresolved(self, code: str) -> list[Diagnostic]:
        """Return its unresolved diagnostics of one code."""
        return [d for d in self.others if d.code == code and not d.resolved]

    def first(self, code: str) -> Diagnostic | None:
        """Return its first unresolved diagnostic of one code."""
        return next(iter(self.unresolved(code)), None)

    @property
    def roots(self) -> list[Task]:
        """Return the tasks that block it, as the adapter concluded."""
        tasks = self.snapshot.tasks
        return [tasks[entity] for entity in self.said.entities if entity in tasks]

    def tasks_in(self, wanted: TaskState) -> list[Task]:
        """Return its tasks in a state (not COMPLETED), without the orchestrator."""
        return [t for t in self.state.tasks_in(wanted) if t.system == "ascend" and t.id.startswith(self.task_prefix)]

    def waits_for_orchestrator(self) -> bool:
        """Return whether the orchestrator waits for one of the roots."""
        edges = self.snapshot.edges
        return any(EdgeKey(EdgeKind.WAITS_FOR, self.orchestrator, root) in edges for root in self.said.entities)

    def quiet_for_s(self) -> float:
        last_ns = self.run.last_wall_ns
        return (self.snapshot.now().wall_ns - last_ns) / 1e9 if last_ns else 0.0

    def open_for_s(self) -> float | None:
        """Return how long the run is open, by the scheduler's memory, or how long the main thread has waited.

        None if neither is known. No task of the run can have run for longer.
        """
        snapshot = self.snapshot
        if self.run.began_wall_ns:
            return max(0.0, (snapshot.now().wall_ns - self.run.began_wall_ns) / 1e9)
        process = snapshot.processes.get(self.run.process)
        main = None if process is None else snapshot.threads.get(ids.thread(process.host, process.pid, process.pid))
        waited = None if main is None else waited_ns(main, snapshot)
        return None if waited is None else waited / 1e9

    def long_s(self) -> float:
        """Return the threshold for a long-running task; higher for a kernel that is known to be slow."""
        settings, kernels = self.state.settings, self.snapshot.kernels
        known = (kernels.get(("ascend", task.kernel or "")) for task in self.roots)
        return max([settings.task_stall_s, *(settings.slow_factor * one.longest_ns / 1e9 for one in known if one)])

    def patience_s(self) -> float:
        """Return the threshold for a stalled run: at least its watchdog's limit, if known."""
        return max(self.long_s(), self.run.limit_s)

    def watchdog(self) -> Diagnostic | None:
        """Return the scheduler's report of a stall: its watchdog ended the run, or it turns without progress.

        For a living run the latter counts only after the watchdog's limit. Until then a slow kernel looks the same: the
        report comes after a number of turns (480,000: seconds), not after a time.
        """
        ended, turns = self.first("timeout-exit"), self.first("stall-summary")
        if ended is not None or turns is None:
            return ended
        told_s = read_facts(turns, StallFacts).idle_s if self.alive else None
        idle_s = self.quiet_for_s() if self.run.memory else told_s
        return None if idle_s is not None and idle_s < self.patience_s() else turns

    def limit_words(self) -> str:
        """Return `60 s (SIMPLER_SCHEDULER_TIMEOUT_MS=60000)`, the limit of the scheduler's watchdog, or ""."""
        return f"{self.run.limit_s:g} s ({self.run.limit_by})" if self.run.limit_s else ""

    def count_behind(self, roots: Sequence[Task]) -> tuple[int, int, bool]:
        """Count the tasks behind the roots: all, those that wait directly, and whether the latter is known.

        If the lists are cut, the total is the runtime's count.
        """
        ids = {task.id for task in roots}
        edges, graph = self.snapshot.edges, self.state.graph

        def waiters(task: str) -> Iterator[str]:
            for waiter in graph.waiters_of(task):
                found = (edges.get(EdgeKey(kind, waiter, task)) for kind in (EdgeKind.DEPENDS_ON, EdgeKind.WAITS_FOR))
                if waiter != self.orchestrator and any(e is not None and e.state is EdgeState.PENDING for e in found):
                    yield waiter

        direct = {waiter for root in ids for waiter in waiters(root)} - ids  # a root may wait for another one
        seen, todo = set(direct), list(direct)
        while todo and len(seen) < _COUNTED:
            for waiter in waiters(todo.pop()):
                if waiter not in seen and waiter not in ids:
                    seen.add(waiter)
                    todo.append(waiter)
        counted = 0 if self.run.memory else self.run.waiting or 0  # memory shows each task that waits, and for what
        known = self.run.graph or (len(seen) == 1 and counted <= 1)
        return max(len(seen), counted), len(direct), known

    def pid(self) -> str:
        """Return the pid of its process, for a command; `PID` if unknown, as with logs only."""
        alive = {one.id: one for one in self.snapshot.processes.values() if not one.exited}
        own = alive.get(self.run.process)
        targets = [one for one in alive.values() if one.target]
        if own is None and len(targets) == 1:
            own = targets[0]
        return str(own.pid) if own is not None else "PID"

    def progress(self) -> str:
        """Return ` 3 of 5 tasks are done.`; "" if not known."""
        done, total = self.run.completed, self.run.total
        return f" {done} of {total} tasks are done." if done is not None and total is not None else ""

    def sentence(self, code: str) -> str:
        """Return the sentence of its first unresolved diagnostic of one code, after a blank; "" for none."""
        said = self.first(code)
        return f" {said.sentence}" if said is not None else ""

    def known(self, code: str, kind: type[F]) -> F | None:
        """Return the facts of its first unresolved diagnostic of one code."""
        said = self.first(code)
        return read_facts(said, kind) if said is not None else None

    def latched_timeout(self) -> Diagnostic | None:
        """Return the watchdog's error code if it is only in memory, not in a log."""
        fatal = self.first("fatal")
        by_memory = fatal is not None and any(proof.kind == "memory" for proof in fatal.evidence)
        return fatal if fatal is not None and by_memory and read_facts(fatal, FailureFacts).error_code == 100 else None

    def fired(self) -> str:
        """Return ` The scheduler's watchdog fired first: no progress for 10 s (…). Later limits: …`, or ""."""
        busy = self.sentence("machine-busy")
        if busy:
            busy += " The cores of the simulator are threads, so a slow task can look stuck."
        return self.sentence("watchdog-fired") + busy + self.sentence("limits-ignored")

    def masked(self) -> str:
        """Return ` CANN returned 507018 (…); that code masks this cause.`, or ""."""
        code = self.first("cann-code")
        if code is None or not read_facts(code, FailureFacts).mask:
            return ""
        return f" {sentences(code.sentence, 'That code masks this cause')}"


def jobs(state: RuleInput, rule: str = "") -> list[JobDiagnostics]:
    """Return the Ascend jobs of a state."""
    by_scope: dict[str, list[Diagnostic]] = {}
    for diagnostic in state.snapshot.diagnostics.values():
        if diagnostic.system == "ascend":
            by_scope.setdefault(scope_of(diagnostic), []).append(diagnostic)
    found = []
    for scope, said in by_scope.items():
        main = next((d for d in said if d.code == "run-state"), None)
        if main is not None:
            others = tuple(d for d in said if d is not main)
            found.append(JobDiagnostics(main, read_facts(main, RunFacts), others, scope or "ascend", state, rule))
    return found


def name_of(task: Task) -> str:
    """Return `r1t2 (MUL, func 2, id 4294967298)`; the id only if it differs from the number."""
    known = read_facts(task, TaskFacts)
    words = [task.kernel] if task.kernel else []
    if task.kernel and known.func and not task.kernel.startswith("func "):
        words.append(f"func {known.func}")
    if known.task_id != known.local:
        words.append(f"id {known.task_id}")
    return f"{task.name} ({', '.join(words)})" if words else task.name


def names_of(tasks: Sequence[Task]) -> str:
    """Return the names of several tasks, shortened."""
    shown = ", ".join(name_of(task) for task in tasks[:_NAMES_SHOWN])
    return shown + (f" and {len(tasks) - _NAMES_SHOWN} more" if len(tasks) > _NAMES_SHOWN else "")


def where_of(task: Task, job: JobDiagnostics) -> str:
    """Return `on core 8 (AIV0)`."""
    known = job.snapshot.resources
    cores = [known[core].name if core in known else core for core in task.where]
    return f"on {', '.join(cores)}" if cores else "on an unknown core"


def place_of(task: Task, job: JobDiagnostics) -> str:
    """Return ` Its kernel was in wait_for_gate in all of 20 samples in 0.6 s.`, from its core's thread; "" if not
    known.

    Only samples of this task count: a core runs one task after another, with the same functions.
    """
    snapshot = job.snapshot
    if len(task.where) != 1 or task.since_wall_ns is None:
        return ""
    on = (name for name in snapshot.stacks if EdgeKey(EdgeKind.RUNS_ON, task.where[0], name) in snapshot.edges)
    stack = snapshot.stacks.get(next(on, ""))
    if stack is None:
        return ""
    now = snapshot.now()
    began_ns = now.mono_ns - (now.wall_ns - task.since_wall_ns)
    frames = [frame for frame in stack.frames if is_kernel(frame.module)]
    if not frames or stack.taken_mono_ns < began_ns:
        return ""
    entry = frames[-1]
    held = next(frame for frame in frames if frame.held_samples >= entry.held_samples)
    counted = held.held_mono_ns is not None and held.held_mono_ns >= began_ns and held.held_samples >= _SAMPLES_LEAST
    line = line_of(held)
    where = f"{function_name(held.function, held.language)}{f' ({line})' if line else ''}"
    if not counted:
        return f" Its kernel is in {where}."
    lasted = duration(stack.taken_mono_ns - (held.held_mono_ns or 0))
    return f" Its kernel was in {where} in all of {held.held_samples} samples in {lasted}."


def clock(task: Task) -> str:
    """Return when a task entered its state: `03:10:17`, `03:10:17 or a little later`, `03:10:17 or earlier`."""
    at = time.strftime("%H:%M:%S", time.gmtime((task.since_wall_ns or 0) // 1_000_000_000))
    words = {"exact": "", "not after": " or earlier"}
    return f"{at} UTC{words.get(read_facts(task, TaskFacts).since, ' or a little later')}"


def evidence(*said: Diagnostic | Task | None) -> tuple[Evidence, ...]:
    """Return the evidence of diagnostics and tasks; each line once."""
    found: dict[tuple[str, str], Evidence] = {}
    for one in said:
        for item in () if one is None else one.evidence if isinstance(one, Diagnostic) else _lines_of(one):
            found.setdefault((item.place, item.text), item)
    return tuple(found.values())[:_EVIDENCE_SHOWN]


def _lines_of(task: Task) -> Iterator[Evidence]:
    """Yield the line that shows the state of a task, and the one that gave it to its core."""
    known = read_facts(task, TaskFacts)
    for place, text, at in (
        (known.entered, known.entered_text, known.entered_wall_ns),
        (known.evidence, known.evidence_text, known.evidence_wall_ns),
    ):
        if place:
            kind = "memory" if place.startswith("memory of ") else "log"
            yield Evidence(kind=kind, source=place, text=text, at_wall_ns=at)


def waiters_of(roots: Sequence[Task], job: JobDiagnostics) -> list[Task]:
    """Return the first tasks that wait directly for the roots."""
    tasks = job.snapshot.tasks
    found = dict.fromkeys(waiter for root in roots for waiter in job.state.graph.waiters_of(root.id))
    return [tasks[waiter] for waiter in islice(found, _WAITERS_SHOWN) if waiter in tasks]


def code_of(said: Diagnostic) -> str:
    """Return ` (code 3, FLOW_CONTROL_DEADLOCK)`; "" if no code is known."""
    code = read_facts(said, RingFacts).code or read_facts(said, FailureFacts).code
    return f" ({code})" if code else ""


def ended_by(watchdog: Diagnostic | None) -> str:
    """Return ` The scheduler's watchdog ended the run (code 100, …; S1:running-stalled).`, or ""."""
    if watchdog is not None and watchdog.code == "fatal":
        return " The scheduler's watchdog ended the run (code 100, by the scheduler's memory)."
    if watchdog is None or watchdog.code != "timeout-exit":
        return ""
    said = read_facts(watchdog, StallFacts)
    sub_class = f"{said.sub_class} by its counts" if said.sub_class_by == "counts" else said.sub_class
    words = "; ".join(word for word in (said.code, sub_class) if word)
    return f" The scheduler's watchdog ended the run ({words})."


class Text(Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of finding: as `Finding`, but `sentence` and `next` are templates."""

    severity: Severity
    sentence: str
    state: VerdictState | None = None
    decides: bool = False
    inferred: bool = False
    topic: str = ""
    next: tuple[str | Line, ...] = ()


@cache
def texts() -> Mapping[str, Text]:
    """Return the texts by name."""
    return read_data("findings.toml", dict[str, Text])


@cache
def _asked(name: str) -> frozenset[str]:
    """Return the value names that a text uses."""
    text = texts()[name]
    steps = [step.text if isinstance(step, Line) else step for step in text.next]
    conditions = [word for step in text.next if isinstance(step, Line) for word in (*step.needs, *step.lacks)]
    return frozenset(conditions).union(*map(names_in, (text.sentence, *steps)))


def flag(known: object) -> str:
    """Return a template value for a condition: non-empty if it holds."""
    return "known" if known else ""


def written(name: str, job: JobDiagnostics, values: Mapping[str, str], /, **more: Any) -> Finding:
    """Return a finding.

    Args:
        name: in data/findings.toml.
        values: for the templates, in addition to those of every job.
        more: other fields of the finding; they override the file's.
    """
    text = texts()[name]
    known = {
        "pid": job.pid(),
        "progress": job.progress(),
        "fired": job.fired(),
        "masked": job.masked(),
        "shared": job.sentence("shared-log"),
        "limit": job.limit_words(),
        **values,
    }
    assert _asked(name) <= known.keys(), f"{name}: {_asked(name) - known.keys()}"
    steps = (Line(step) if isinstance(step, str) else step for step in text.next)
    given = {"severity": text.severity, "state": text.state, "decides": text.decides, "inferred": text.inferred}
    return Finding(
        rule=job.rule,
        sentence=render(text.sentence, known),
        next=tuple(dict.fromkeys(lines(steps, "", known))),
        topic=text.topic,
        **{**given, **more},
    )
