"""Work without progress: a task that runs too long, a counter that no longer rises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput, Settings
from livedbg.analysis.rules.words import duration, edge_evidence, many, name_of
from livedbg.model import Evidence, Severity, Task, TaskState
from livedbg.model.snapshot import Clock, Durations, Snapshot
from livedbg.text.wording import sentence_case

_PACE_NS: Final = 1_000_000_000


def limit_ns(known: Durations | None, settings: Settings) -> float:
    """Return how long a run of a kernel may take before it counts as stalled."""
    if known is None or not known.count:
        return settings.task_stall_ns
    return max(known.longest_ns * settings.slow_factor, settings.slow_floor_s * 1e9)


def _ran_ns(task: Task, now: Clock) -> int | None:
    if task.since_wall_ns is not None:
        return now.wall_ns - task.since_wall_ns
    return now.mono_ns - task.since_mono_ns if task.since_mono_ns is not None else None


class TaskStalled:
    """Rule for a running task that takes far longer than its kernel ever did."""

    name = "task-stalled"
    doc = (
        "A task has been running for much longer than the completed runs of its kernel (10 times the longest, at "
        "least 2 s), or, where none was seen, for longer than the threshold (10 s) while others wait for it. "
        "Tasks of a system that has rules of its own for them are left to these rules."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot, now = state.snapshot, state.snapshot.now()
        for task in state.tasks_in(TaskState.RUNNING):
            if task.system in state.judged.tasks or state.graph.blockers_of(task.id):
                continue
            ran = _ran_ns(task, now)
            known = snapshot.kernels.get((task.system, task.kernel or ""))
            if ran is None or ran < limit_ns(known, state.settings):
                continue
            if known is None and not state.graph.behind(task.id):
                continue
            yield self._finding(task, ran, known, state)

    def _finding(self, task: Task, ran: int, known: Durations | None, state: RuleInput) -> Finding:
        where = f" on {', '.join(name_of(place, state.snapshot) for place in task.where)}" if task.where else ""
        usual = ""
        if known is not None and known.count:
            usual = f"; its kernel's {many(known.count, 'completed run')} took {duration(known.longest_ns)} at most"
        behind, direct = state.graph.behind(task.id), len(state.graph.waiters_of(task.id))
        waits = f" {many(behind, 'task waits', 'tasks wait')} behind it, {direct} directly."
        proofs = [edge_evidence(waiter, task.id, state.snapshot) for waiter in state.graph.waiters_of(task.id)[:3]]
        now = state.snapshot.now()
        return Finding(
            rule=self.name,
            severity=Severity.ERROR,
            sentence=f"{sentence_case(name_of(task.id, state.snapshot))} has been RUNNING{where} for {duration(ran)}"
            f"{usual}.{waits if behind else ''}",
            entities=(task.id, *task.where),
            evidence=(
                Evidence(kind="counter", source="run times of its kernel", text=usual.lstrip("; ") or "none completed"),
                *[proof for proof in proofs if proof is not None],
            ),
            next=("check what this kernel waits for: its inputs, its flags, the other members of its group",),
            since_wall_ns=now.wall_ns - ran,
            state=VerdictState.STALLED,
            roots=(task.id,),
        )


class NoProgress:
    """Rule for a count of completed work that has stopped short of its end."""

    name = "no-progress"
    doc = (
        "A counter of completed work rose while it was watched (for a second or more: a log that is read shows its "
        "counts all at once), is below its total, and has not risen for longer than the threshold and than 10 times "
        "its usual step, while the watched threads together used less than half a core. It is always inferred: it "
        "reports that there is no progress, not why. Counters of a system that has rules of its own for its tasks are "
        "left to these rules."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        mono = snapshot.now().mono_ns
        short = [
            (key, counter)
            for key, counter in snapshot.counters.items()
            if counter.total is not None and counter.value < counter.total and counter.changes
            if counter.per_s is None  # a loop of a thread: it may have ended short of that, or be in a long iteration
            if key.entity.partition(":")[2].partition("/")[0] not in state.judged.tasks
            if counter.changed_mono_ns - counter.first_mono_ns >= _PACE_NS
        ]
        if not short or _busy(snapshot, state.settings):
            return
        for key, counter in short:
            still = mono - counter.changed_mono_ns
            step = (counter.changed_mono_ns - counter.first_mono_ns) / counter.changes
            if still < max(state.settings.task_stall_ns, state.settings.slow_factor * step):
                continue
            value = f"{counter.value:g} of {counter.total:g}"
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING,
                sentence=f"{key.name} of {name_of(key.entity, snapshot)} has stayed at {value} for {duration(still)}; "
                f"before that it rose every {duration(step)}.",
                entities=(key.entity,),
                evidence=(Evidence(kind="counter", source=f"{key.entity} {key.name}", text=value),),
                next=("check the running tasks and the last log lines",),
                inferred=True,
                since_wall_ns=snapshot.now().wall_ns - still,
                state=VerdictState.STALLED,
            )


def _busy(snapshot: Snapshot, settings: Settings) -> bool:
    """Return whether the threads together used a good part of a core lately: on a full machine each gets little."""
    used = sum(a.cpu_ns / a.window_ns for a in snapshot.activity.values() if a.window_ns)
    return used >= settings.busy_share


def rules() -> Sequence[Rule]:
    return (TaskStalled(), NoProgress())
