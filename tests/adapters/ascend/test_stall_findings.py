"""The rule of stalled Ascend runs on states made by hand: what makes a stall, what leaves it open, what it says."""

from __future__ import annotations

import pytest

from livedbg.adapters.ascend.rules.jobs import jobs
from livedbg.adapters.ascend.rules.stalls import stall
from livedbg.analysis import Finding, VerdictState
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import Diagnostic, EdgeKind, Evidence, Severity, Task, TaskState
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

R1, R2, R3, R4 = (f"task:ascend/r0t{number}" for number in (1, 2, 3, 4))
BEGAN = 10**18 + 100 * SECOND


class Job(World):
    """A run of tasks 1 (running on core 8), 2 and 3 (waiting for it), and the time of its log's last line."""

    def __init__(self, roots: tuple[str, ...] = (R1,), **state: str) -> None:
        super().__init__()
        self.state = {
            "scope": "ascend",
            "phase": "running",
            "certain": "yes",
            "completed": "1",
            "total": "4",
            "last_wall_ns": str(BEGAN),
            **state,
        }
        self.set_task(1, TaskState.RUNNING, where=("core:ascend/8",))
        for number in (2, 3):
            self.set_task(number, TaskState.SUBMITTED)
            self.edge(EdgeKind.DEPENDS_ON, f"task:ascend/r0t{number}", R1)
        self.say("run-state", "", *roots, **self.state)

    def set_task(self, number: int, state: TaskState, where: tuple[str, ...] = (), **attributes: str) -> Job:
        task = Task(
            id=f"task:ascend/r0t{number}",
            system="ascend",
            name=f"r0t{number}",
            kernel=f"K{number}",
            state=state,
            since_wall_ns=BEGAN + number,
            where=where,
            attributes={"local": str(number), "task_id": str(number), **attributes},
        )
        self.store.apply(ev.TasksSeen(tasks=(task,), **self.stamp()))
        return self

    def say(self, kind: str, sentence: str, *entities: str, resolved: bool = False, **attributes: str) -> Job:
        said = Diagnostic(
            id=f"ascend/{kind}",
            system="ascend",
            code=kind,
            severity=Severity.WARNING,
            sentence=sentence,
            entities=entities,
            attributes={"scope": "ascend", **attributes},
            resolved=resolved,
        )
        self.store.apply(ev.DiagnosticSeen(diagnostic=said, **self.stamp()))
        return self

    def stalls(self) -> list[Finding]:
        snapshot = self.snapshot()
        state = RuleInput(snapshot, GraphKeeper().graph_of(snapshot))
        [job] = jobs(state, "ascend-stall")
        return list(stall(job))

    def stalled(self) -> Finding:
        [finding] = self.stalls()
        return finding


def quiet(seconds: float = 20, **state: str) -> Job:
    job = Job(quiet="yes", **state)
    job.later(int(seconds * SECOND))
    return job


def dumped(roots: tuple[str, ...] = (R1,), **state: str) -> Job:
    """The watchdog has reported."""
    return Job(roots, **state).say("stall-summary", "The scheduler reports no progress.")


@pytest.mark.parametrize(
    ("job", "found"),
    [
        (quiet(9.9), False),
        (quiet(10), True),
        (quiet(59, limit_s="60"), False),
        (quiet(60, limit_s="60"), True),
        (quiet(10, limit_s="5"), True),
        (Job(quiet="no"), False),
        (dumped(), True),
    ],
)
def test_a_run_is_stalled_once_its_watchdog_says_so_or_could_have(job: Job, found: bool) -> None:
    assert bool(job.stalls()) is found


def test_without_a_living_process_the_end_of_a_log_is_open() -> None:
    alone, ended, other, alive = quiet(), quiet(), quiet(), quiet()
    ended.exits(ended.process(7), 0)
    other.process(7, target=False)
    alive.process(7)
    for job in (alone, ended, other):
        found = job.stalled()
        assert (found.state, found.decides, found.roots) == (VerdictState.UNKNOWN, True, (R1,))
        assert found.sentence.startswith(
            "Task r0t1 (K1) was running on core:ascend/8 where the log ends: hung, or died"
        )
        assert (found.inferred, found.since_wall_ns, found.severity) == (True, BEGAN + 1, Severity.ERROR)
        assert "2 tasks wait behind it" in found.sentence
    found = alive.stalled()
    assert (found.state, found.roots, found.severity) == (VerdictState.STALLED, (R1,), Severity.CRITICAL)
    reported = dumped()
    assert reported.stalled().state is VerdictState.STALLED  # the watchdog's word needs no process


def test_several_that_were_open_where_a_log_ends() -> None:
    job = Job((R3, R2, R1), quiet="yes")
    job.later(20 * SECOND)
    found = job.stalled()
    assert found.sentence.startswith("3 tasks (r0t3 (K3), r0t2 (K2), r0t1 (K1)) had not completed where the log ends")
    assert found.since_wall_ns == BEGAN + 1
    job.set_task(2, TaskState.RUNNING).set_task(3, TaskState.RUNNING)
    assert "were running where" in job.stalled().sentence
    one = Job((R2,), quiet="yes")
    one.later(20 * SECOND)
    assert "Task r0t2 (K2) had not completed where" in one.stalled().sentence


def test_what_another_rule_judges_is_left_to_it() -> None:
    assert dumped(phase="completed").stalls() == []
    for code in ("terminate", "watchdog-starved", "core-anomaly"):
        assert dumped().say(code, "x").stalls() == []
    for key in ("by_scope", "host_built"):
        assert dumped().say("ring-full", "Full: x", **{key: "yes"}).stalls() == []
        assert dumped().say("ring-full", "Full: x", **{key: "no"}).stalls() != []
    assert dumped().say("terminate", "x", resolved=True).stalls() != []


@pytest.mark.parametrize(
    ("code", "found"),
    [("ring-full", True), ("tensor-wait-timeout", True), ("timeout-exit", True), ("machine-busy", False)],
)
def test_any_report_of_no_progress_is_one(code: str, found: bool) -> None:
    assert bool(Job().say(code, "Full: x").stalls()) is found


def test_a_run_whose_tasks_ended_after_the_watchdog_was_slow() -> None:
    drained = Job().say("timeout-exit", "The watchdog ended the run.", drained="yes", sub_class="S1:running-stalled")
    assert drained.stalled().state is not VerdictState.STALLED
    ready = Job((R1, R2)).say("timeout-exit", "x", drained="yes")
    assert ready.stalled().state is VerdictState.STALLED
    assert Job().say("timeout-exit", "x", drained="no").stalled().state is VerdictState.STALLED


def test_a_stall_names_its_task_its_core_and_those_behind() -> None:
    found = dumped().stalled()
    assert found.sentence.startswith("Task r0t1 (K1) has been running on core:ascend/8 since ")
    assert "suspected" not in found.sentence
    assert " 2 tasks wait behind it" in found.sentence and "1 of 4 tasks are done." in found.sentence
    assert (found.entities, found.inferred, found.since_wall_ns) == ((R1, "core:ascend/8"), False, BEGAN + 1)
    guessed = dumped(certain="no", reason="its kernel is slow").stalled()
    assert guessed.inferred and "It is suspected: its kernel is slow." in guessed.sentence


@pytest.mark.parametrize(("certain", "words"), [("yes", "2 tasks have"), ("no", "One of 2 tasks has")])
def test_a_stall_of_several(certain: str, words: str) -> None:
    job = dumped((R4, R1), certain=certain).set_task(4, TaskState.RUNNING, where=("core:ascend/9",))
    found = job.stalled()
    assert found.sentence.startswith(f"{words} not completed: r0t4 (K4), r0t1 (K1).")
    assert (found.since_wall_ns, found.roots) == (BEGAN + 1, (R4, R1))
    assert found.entities == (R4, R1, "core:ascend/9", "core:ascend/8")
    assert "2 tasks wait behind them" in found.sentence
    job.edge(EdgeKind.DEPENDS_ON, R4, R1)  # a root that waits for another one is not behind them
    assert "2 tasks wait behind them" in job.stalled().sentence
    alone = dumped((R4,)).set_task(4, TaskState.RUNNING)
    assert "behind" not in alone.stalled().sentence
    alone.edge(EdgeKind.DEPENDS_ON, R3, R4)
    assert "1 task waits behind it, 1 directly." in alone.stalled().sentence


def test_of_two_roots_that_wait_for_each_other_neither_is_behind() -> None:
    job = dumped((R4, R1)).set_task(4, TaskState.RUNNING)
    for one, other in ((R1, R4), (R4, R1)):
        job.edge(EdgeKind.DEPENDS_ON, one, other)
    assert (
        "2 tasks wait behind them, 2 directly"
        in job.say("run-state", "", R4, R1, **job.state, graph="yes").stalled().sentence
    )


@pytest.mark.parametrize(
    ("state", "attributes", "words", "step"),
    [
        ("READY", {"deferred": "yes"}, "has returned, but its deferred (asynchronous) completion", "find what should"),
        ("READY", {"deferred": "yes", "waits_for": "flag 3"}, "All cores are idle. It waits for: flag 3.", "find what"),
        ("READY", {"buffered": "yes"}, "is ready, but the scheduler has not dispatched it", "check whether K1 must"),
        ("READY", {}, "is ready and on no core", "find what should signal"),
        ("SUBMITTED", {}, "Task r0t1 (K1) has not completed since", "check K1 for an endless loop"),
        ("SUBMITTED", {"deferred": "yes", "buffered": "no"}, "Task r0t1 (K1) has not completed since", "check K1"),
    ],
)
def test_what_a_task_that_runs_nowhere_waits_for(state: str, attributes: dict[str, str], words: str, step: str) -> None:
    job = dumped()
    job.set_task(1, TaskState[state], where=("core:ascend/8",), **attributes)
    found = job.stalled()
    assert words in found.sentence
    assert found.next[0].startswith(step)
    assert found.entities == (R1,)


def test_the_orchestrator_waits_for_what_is_full_or_for_a_tensor() -> None:
    ring = (
        dumped()
        .say("ring-full", "Ring 1 is full: 16 of 16.", "ring:ascend/1", code="code 3", full="Ring 1 is full")
        .stalled()
    )
    assert "reports “Ring 1 is full” (code 3). That is a symptom: a slot is freed" in ring.sentence
    assert ring.entities == (R1, "core:ascend/8", "ring:ascend/1")
    assert any(step.startswith("do not raise PTO2_RING_TASK_WINDOW") for step in ring.next)
    heap = dumped().say("ring-full", "The heap is full: x", "ring:ascend/1", what="heap").stalled()
    assert "memory of the heap is freed" in heap.sentence
    tensor = dumped().say("tensor-wait-timeout", "x", code="code 8").stalled()
    assert "The orchestrator waited for its output until a time-out (code 8)." in tensor.sentence
    assert tensor.entities[-1] == "task:ascend/orchestrator"
    job = dumped()
    job.waits("task:ascend/orchestrator", R1)
    assert "The orchestrator waits for it, and has more tasks to submit." in job.stalled().sentence
    assert job.stalled().entities[-1] == "task:ascend/orchestrator"
    assert dumped().stalled().entities[-1] == "core:ascend/8"


def test_next_steps_lead_to_what_is_not_known_yet() -> None:
    recipes = [step for step in dumped().stalled().next if "--recipe" in step]
    assert [step.split()[3] for step in recipes] == ["ascend-deps=enable-dep-gen"]
    assert not any("--recipe" in step for step in dumped(graph="yes").stalled().next)


def waiting(**report: str) -> Job:
    """No task runs or is ready: all that is open waits."""
    job = Job((), waiting="2")
    job.set_task(1, TaskState.COMPLETED)
    return job.say("timeout-exit", "The scheduler's watchdog ended the run.", **report)


def test_tasks_that_all_wait_can_never_go_on() -> None:
    found = waiting(sub_class="S4:dependency-deadlock").stalled()
    assert found.sentence.startswith("2 tasks wait, and none is running or ready: their dependencies can never be met")
    assert (found.entities, found.state) == ((R2, R3), VerdictState.STALLED)
    listed = waiting()
    listed.set_task(2, TaskState.SUBMITTED, evidence="err.txt:3")
    assert "can never be met" in listed.stalled().sentence
    assert "does not name the stuck task" in waiting().stalled().sentence  # they may be its future


def crowd(tasks: int) -> Finding:
    """So many tasks that all wait."""
    job = waiting(sub_class="S4:dependency-deadlock")
    job.say("run-state", "", **job.state | {"waiting": str(tasks)})
    for number in range(4, tasks + 2):
        job.set_task(number, TaskState.SUBMITTED, evidence=f"err.txt:{number}", evidence_text="[STALL] TASK")
    return job.stalled()


def test_of_many_tasks_that_all_wait_the_first_are_named_and_the_others_counted() -> None:
    found = crowd(20)
    assert found.sentence.startswith("20 tasks wait, and none is running or ready")
    assert "(r0t2 (K2), r0t3 (K3), r0t4 (K4), r0t5 (K5), r0t6 (K6), r0t7 (K7) and 14 more)" in found.sentence
    assert len(found.entities) == 20
    assert [one.source for one in found.evidence] == [f"err.txt:{number}" for number in range(4, 10)]


def test_of_very_many_tasks_that_all_wait_a_thousand_are_listed() -> None:
    assert [len(crowd(tasks).entities) for tasks in (999, 1_000, 1_001)] == [999, 1_000, 1_000]


def test_of_several_roots_the_first_is_that_of_the_next_step() -> None:
    def steps(*roots: str) -> str:
        job = dumped(roots).set_task(4, TaskState.READY, buffered="yes")
        return job.stalled().next[0]

    assert steps(R1, R4).startswith("check K1 for an endless loop")
    assert steps(R4, R1).startswith("check whether K4 must start on more cores at once")
    nameless = dumped(("task:ascend/r0t9",))
    unknown = Task(id="task:ascend/r0t9", system="ascend", name="r0t9", state=TaskState.RUNNING)
    nameless.store.apply(ev.TasksSeen(tasks=(unknown,), **nameless.stamp()))
    recipes = [step.split()[3] for step in nameless.stalled().next if "--recipe" in step]
    assert nameless.stalled().next[0].startswith("check its kernel for an endless loop")
    assert recipes == ["ascend-log", "ascend-deps=enable-dep-gen"]


@pytest.mark.parametrize(("first", "last", "log"), [(R1, R4, False), (R4, R1, True)])
def test_of_several_roots_the_kernel_of_the_first_is_to_be_known(first: str, last: str, log: bool) -> None:
    job = dumped((first, last))
    unknown = Task(id=R4, system="ascend", name="r0t4", state=TaskState.RUNNING)
    job.store.apply(ev.TasksSeen(tasks=(unknown,), **job.stamp()))
    assert any("--recipe ascend-log" in step for step in job.stalled().next) == log


def test_a_run_whose_orchestration_code_has_not_returned() -> None:
    def built(**state: str) -> Job:
        job = Job((), quiet="yes", building="yes", **state)
        for number in (1, 2, 3):
            job.set_task(number, TaskState.COMPLETED)
        job.later(20 * SECOND)
        return job

    alive = built()
    alive.process(7)
    found, open_end = alive.stalled(), built().stalled()
    assert (found.state, open_end.state) == (VerdictState.STALLED, VerdictState.UNKNOWN)
    assert found.sentence.startswith("The orchestration code has not returned, and no task has started.")
    assert open_end.sentence.endswith("It hung, or died: no exit status.")
    reported = built().say("timeout-exit", "The watchdog ended the run.").stalls()
    assert len(reported) == 1 and "does not name the stuck task" in reported[0].sentence


def test_what_reports_a_stall_is_its_evidence() -> None:
    def line(source: str) -> Evidence:
        return Evidence(kind="log", source=source, text=source)

    job = Job()
    for place, code in enumerate(("stall-summary", "tensor-wait-timeout", "runtime-failed", "cann-code")):
        said = Diagnostic(
            id=f"ascend/{code}",
            system="ascend",
            code=code,
            severity=Severity.WARNING,
            sentence="x",
            attributes={"scope": "ascend"},
            evidence=(line(f"err.txt:{place}"),),
        )
        job.store.apply(ev.DiagnosticSeen(diagnostic=said, **job.stamp()))
    assert [one.place for one in job.stalled().evidence] == [f"err.txt:{place}" for place in range(4)]


def test_a_deadlock_of_flags_is_said_after_the_task() -> None:
    plain = dumped().stalled().sentence
    found = dumped().say("flag-cycle", "Cores 8 and 9 wait for each other's flags.").stalled()
    assert found.sentence == f"{plain} Cores 8 and 9 wait for each other's flags."


def test_an_orchestrator_that_waits_for_a_full_ring_is_not_named_beside_it() -> None:
    job = dumped().say("ring-full", "Ring 1 is full: 16 of 16.", "ring:ascend/1")
    job.waits("task:ascend/orchestrator", R1)
    assert job.stalled().entities == (R1, "core:ascend/8", "ring:ascend/1")


def test_an_orchestrator_that_submits_no_more_hangs() -> None:
    found = waiting(sub_class="S5:orchestrator-starvation").stalled()
    assert found.sentence.startswith("The orchestrator hangs: all submitted tasks are done")
    assert found.entities == ("task:ascend/orchestrator",)
    other = waiting(sub_class="S3:ready-but-all-idle", advice="look there").stalled()
    assert "does not name the stuck task" in other.sentence and other.next[0] == "look there"
    assert "tasks are done" not in other.sentence
    nothing = Job((), quiet="yes")
    nothing.later(20 * SECOND)
    assert nothing.stalls() == []
