"""What the lines of a watchdog's round say of the tasks and cores of a run, line by line."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from livedbg.adapters.ascend.diagnostics.failures import stall_diagnostics
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.messages import Fields, Mark, classify
from livedbg.adapters.ascend.names import KernelNames, Names
from livedbg.adapters.ascend.run import Counts, Run
from livedbg.adapters.ascend.stalls import Stall, StallReader
from livedbg.adapters.ascend.watchdogs import Limit
from livedbg.linux.last_ran import Load
from livedbg.model import Diagnostic, TaskState

BEGAN, NOW = 1_000, 9_000
KERNELS = "kernels=[aic:-1 aiv0:3 aiv1:-1]"


def mark(source: str = "err.txt:1") -> Mark:
    return Mark(source, f"line of {source}", NOW, True)


class Rounds:
    """A reader of one run, in which task 1 was dispatched to core 8 before."""

    def __init__(self) -> None:
        self.run = Run(Names(), KernelNames())
        self.reader = StallReader(self.run)
        self.run.progress_wall_ns = BEGAN
        self.lines = 0

    def dispatch(self, task: int, core: int, slot: str = "idle") -> Rounds:
        self.run.dispatch(task, core, Mark("d", "", BEGAN, True), slot=slot, subslot="AIV0", place="aiv0", thread=0)
        return self

    def say(self, words: str, idle: int = 100, thread: int = 0) -> Rounds:
        """A line of the dump."""
        message = classify(f"[STALL thread={thread} idle_iterations={idle}] {words}", True)
        assert message is not None, words
        self.lines += 1
        self._read(message.kind, message.fields, mark(f"err.txt:{self.lines}"))
        return self

    def _read(self, kind: str, fields: Fields, where: Mark) -> None:
        if kind == "stall_task":
            self.reader.task(fields, where)
        elif kind == "stall_summary":
            self.reader.summary(fields, where)
        elif kind == "stall_cluster":
            self.reader.cluster(fields, where)
        else:
            assert kind == "timeout"
            self.reader.timeout(fields, where)

    def running(self, task: int, core: int = 8, more: str = "owner_thread=2 ", idle: int = 100) -> Rounds:
        cores = f"running_on=[{more}cores=[core={core}(aiv0)]]"
        return self.say(f"TASK ring=0 task_id={task} state=RUNNING fanin_met=1/1 {KERNELS} {cores}", idle)

    def open_task(self, task: int, state: str, missing: int = 0, idle: int = 100) -> Rounds:
        return self.say(
            f"TASK ring=0 task_id={task} state={state} fanin_met=1/2 {KERNELS} missing_deps={missing}", idle
        )

    def summary(self, running: int, ready: int, waiting: int, idle: int = 100, of: str = "1/4") -> Rounds:
        counts = f"scan_ready={ready} scan_waiting={waiting} scan_running={running}"
        return self.say(f"SUMMARY completed={of} last_progress_iteration=1 {counts}", idle)

    def cluster(self, aiv0: str, idle: int = 100, thread: int = 0) -> Rounds:
        return self.say(f"CLUSTER cluster_id=4 aic=core0(idle) aiv0={aiv0} aiv1=core9(idle)", idle, thread)

    @property
    def stall(self) -> Stall:
        assert self.reader.stall is not None
        return self.reader.stall

    def states(self) -> dict[int, TaskState]:
        return {raw: record.state for raw, record in sorted(self.run.tasks.items())}

    def cores(self) -> dict[int, int | None]:
        return {number: core.running for number, core in sorted(self.run.cores.items())}


def test_a_running_task_is_on_its_cores_since_the_run_s_last_progress() -> None:
    rounds = Rounds().running(1)
    task = rounds.run.tasks[1]
    assert (task.state, task.since_wall_ns, task.since_exact) == (TaskState.RUNNING, BEGAN, False)
    assert (task.cores, task.owner, task.kernels) == ({8: "aiv0"}, 2, (-1, 3, -1))
    assert (task.fanin, task.missing) == (1, 0)
    assert (task.said.source, task.said.text) == ("err.txt:1", "line of err.txt:1")
    assert rounds.cores() == {8: 1}
    assert (rounds.stall.listed, rounds.run.confirmed) == ({1}, {1})
    assert {1, 8} <= rounds.run.changed | rounds.run.changed_cores


@pytest.mark.parametrize(("said", "owner"), [("owner_thread=2 ", 2), ("owner_thread=0 ", 0), ("owner_thread=-1 ", 5)])
def test_an_owner_of_minus_one_is_not_known(said: str, owner: int) -> None:
    rounds = Rounds()
    rounds.run.task(1).owner = 5
    assert rounds.running(1, more=said).run.tasks[1].owner == owner
    assert rounds.running(1, more="").run.tasks[1].owner == owner


def test_a_task_on_a_core_is_there_instead_of_what_the_log_had_there() -> None:
    rounds = Rounds().dispatch(5, 8).dispatch(5, 9)
    rounds.run.changed.clear()
    rounds.running(1)
    assert (rounds.run.tasks[5].cores, rounds.run.tasks[1].cores) == ({9: "AIV0"}, {8: "aiv0"})
    assert rounds.cores() == {8: 1, 9: 5}
    assert {1, 5} <= rounds.run.changed


@pytest.mark.parametrize(
    ("dispatched", "submitted", "deferred", "buffered"),
    [
        ([1], "submitting", True, False),  # its kernel has returned
        ([2], "submitting", False, True),  # the log shows all dispatches, and none of it
        ([2], "unknown", False, False),  # the log begins later
        ([], "submitting", False, False),
    ],
)
def test_a_ready_task_is_on_no_core(dispatched: list[int], submitted: str, deferred: bool, buffered: bool) -> None:
    rounds = Rounds()
    rounds.run.orchestrator = submitted
    for task in dispatched:
        rounds.dispatch(task, 7 + task)
    rounds.run.changed_cores.clear()
    rounds.open_task(1, "READY")
    task = rounds.run.tasks[1]
    assert (task.state, task.deferred, task.buffered) == (TaskState.READY, deferred, buffered)
    assert task.cores == {}
    assert (task.since_wall_ns, task.since_exact) == (BEGAN, False)
    assert rounds.cores() == ({} if not dispatched else {8: None} if dispatched == [1] else {9: 2})
    assert (8 in rounds.run.changed_cores) == (dispatched == [1])
    assert rounds.stall.ready == {1} == rounds.stall.listed


def test_a_ready_task_leaves_only_the_cores_that_are_its_own() -> None:
    rounds = Rounds().dispatch(1, 8).dispatch(1, 9).dispatch(2, 10)
    rounds.run.cores[9].running = 2
    rounds.open_task(1, "READY")
    assert rounds.cores() == {8: None, 9: 2, 10: 2}
    assert rounds.run.tasks[1].cores == {}


def test_a_waiting_task_lacks_dependencies() -> None:
    rounds = Rounds().open_task(1, "WAIT", missing=1)
    task = rounds.run.tasks[1]
    assert (task.state, task.missing, task.fanin) == (TaskState.SUBMITTED, 1, 2)
    assert (task.since_wall_ns, task.since_exact) == (BEGAN, False)
    assert rounds.stall.waiting == {1} == rounds.stall.listed


@pytest.mark.parametrize(
    ("words", "missing", "fanin"),
    [
        ("fanin_refcount=1/3", 2, 2),  # of a reference count one is the runtime's own
        ("fanin_refcount=2/2", 0, 1),
        ("fanin_refcount=1/1", 0, 0),
        ("fanin_refcount=0/0", 0, 0),  # not wired yet
        ("fanin_met=1/3", 2, 3),
        ("fanin_met=0/0", 0, 0),
    ],
)
def test_how_many_dependencies_a_count_means(words: str, missing: int, fanin: int) -> None:
    task = Rounds().say(f"TASK ring=0 task_id=1 state=WAIT {words} {KERNELS}").run.tasks[1]
    assert (task.missing, task.fanin) == (missing, fanin)


def test_an_older_count_of_dependencies() -> None:
    message = classify("STUCK-WAIT   ring=0 task_id=1 kernel_id=3 refcount=2 fanin=4 state=0", True)
    assert message is not None
    rounds = Rounds()
    rounds.reader.task(message.fields, mark())
    task = rounds.run.tasks[1]
    assert (task.missing, task.fanin) == (2, 3)


def test_a_task_that_a_line_names_was_not_completed_after_all() -> None:
    rounds = Rounds().dispatch(1, 8).dispatch(2, 8)
    assert rounds.states()[1] is TaskState.COMPLETED
    assert rounds.run.done == 1
    rounds.open_task(1, "WAIT")
    assert (rounds.states()[1], rounds.run.done) == (TaskState.SUBMITTED, 0)


def test_another_number_of_iterations_is_another_round_until_the_watchdog_ends_the_run() -> None:
    rounds = Rounds().dispatch(9, 8).running(1, core=10).open_task(2, "WAIT")
    first = rounds.stall
    assert rounds.open_task(3, "WAIT").stall is first
    assert (first.idle, first.mark.source) == (100, "err.txt:1")
    second = rounds.open_task(3, "WAIT", idle=200).stall
    assert (second.idle, second.listed) == (200, {3})
    assert rounds.run.confirmed == {3}
    rounds.say("TIMEOUT_EXIT after_idle_iterations=300", 300)
    third = rounds.stall
    assert (third.idle, third.exit, third.listed) == (300, True, {3})  # without progress, the last dump counts
    rounds.open_task(4, "WAIT", idle=301)  # another thread counts on its own
    assert rounds.stall is third
    assert (third.listed, third.mark.text) == ({3, 4}, "line of err.txt:5")


SUB_CLASS = "sub_class={} completed=1/4 running={} ready=0 waiting=1 orch_done={} stuck_task_id={} stuck_core={}"


def exited(rounds: Rounds, task: int = 1, core: int = 8, *, sub: str = "S1:running-stalled", done: int = 1) -> Rounds:
    words = SUB_CLASS.format(sub, 1, done, task, core)
    return rounds.say(f"TIMEOUT_EXIT after_idle_iterations=100 {words}")


def test_the_end_of_a_run_names_the_stuck_task_and_its_core() -> None:
    rounds = exited(Rounds())
    stall = rounds.stall
    assert (rounds.run.tasks[1].since_wall_ns, rounds.run.tasks[1].since_exact) == (BEGAN, False)
    assert (stall.exit, stall.sub_class, stall.stuck_task) == (True, "S1:running-stalled", 1)
    assert (stall.orchestrator_done, stall.running) == (True, {1})
    assert exited(Rounds(), done=0).stall.orchestrator_done is False
    assert rounds.run.tasks[1].cores == {8: "?"}
    assert (rounds.states(), rounds.run.tasks[1].since_wall_ns) == ({1: TaskState.RUNNING}, BEGAN)
    assert rounds.run.counts == Counts(1, 4, 1, 0, 1)
    assert rounds.run.confirmed == {1}


def test_task_and_core_0_are_stuck_like_any_other_and_minus_one_is_none() -> None:
    zero = exited(Rounds(), 0, 0)
    assert (zero.stall.stuck_task, zero.cores()) == (0, {0: 0})
    none = exited(Rounds(), -1, -1, sub="S5:orchestrator-starvation")
    assert (none.stall.stuck_task, none.states(), none.cores()) == (None, {}, {})
    assert exited(Rounds(), -1, 8).cores() == {}
    assert exited(Rounds(), 1, -1).stall.stuck_task == 1


def test_a_stuck_task_that_is_known_to_be_on_a_core_stays_there() -> None:
    rounds = exited(Rounds().dispatch(1, 9))
    assert (rounds.cores(), rounds.run.tasks[1].cores) == ({9: 1}, {9: "AIV0"})
    rounds = Rounds().dispatch(2, 8)
    rounds.run.cores[8].running = None
    assert exited(rounds).run.tasks[1].cores == {8: "aiv0"}  # which of the three that core is, is known


def test_a_line_of_the_host_is_of_the_same_round() -> None:
    rounds = Rounds().running(1)
    message = classify("PTO2 scheduler timeout " + SUB_CLASS.format("S1:running-stalled", 1, 1, 1, 8), True)
    assert message is not None
    before = rounds.stall
    assert rounds.reader.timeout(message.fields, mark("host")) is before
    assert (before.idle, before.exit, before.mark.source) == (100, True, "host")
    rounds.reader.timeout(message.fields, mark("again"))
    assert before.mark.source == "host"  # the first line is the time of the end
    alone = Rounds()
    assert alone.reader.timeout(message.fields, mark()).idle == 0
    newer = Rounds().running(1)
    assert newer.say("TIMEOUT_EXIT after_idle_iterations=101", 101).stall.idle == 101
    assert newer.stall.running == {1}


@pytest.mark.parametrize(
    ("counts", "states"),
    [
        ((1, 0, 1), {1: "running", 2: "submitted", 3: "completed", 4: "completed"}),  # all that is open is listed
        ((1, 0, 2), {1: "running", 2: "submitted", 3: "completed", 4: "submitted"}),  # one that waits is not listed
        ((1, 1, 1), {1: "running", 2: "submitted", 3: "running", 4: "submitted"}),  # one that is ready
        ((2, 0, 1), {1: "running", 2: "submitted", 3: "running", 4: "submitted"}),  # one that runs
    ],
)
def test_what_no_line_of_a_whole_round_names_has_completed(
    counts: tuple[int, int, int], states: Mapping[int, str]
) -> None:
    rounds = Rounds().dispatch(3, 9)
    rounds.run.set_state(rounds.run.task(4), TaskState.SUBMITTED, mark())
    rounds.running(1).open_task(2, "WAIT", 1).summary(*counts)
    assert {raw: str(state) for raw, state in rounds.states().items()} == states
    if counts == (1, 0, 1):
        assert rounds.run.tasks[3].inferred == "the watchdog's dump does not list it"
        assert rounds.cores()[9] is None


def test_tasks_that_have_ended_are_left_as_they_are() -> None:
    rounds = Rounds()
    rounds.run.set_state(rounds.run.task(3), TaskState.FAILED, mark())
    rounds.running(1).summary(1, 0, 0)
    assert rounds.states() == {1: TaskState.RUNNING, 3: TaskState.FAILED}


def test_a_total_of_zero_is_none_and_what_a_line_has_not_stays() -> None:
    rounds = Rounds().summary(1, 2, 3, of="1/4")
    assert rounds.run.counts == Counts(1, 4, 1, 2, 3)
    rounds.summary(0, 0, 0, of="0/0")
    assert rounds.run.counts == Counts(0, 4, 0, 0, 0)
    rounds.say("TIMEOUT_EXIT after_idle_iterations=100")
    assert rounds.run.counts == Counts(0, 4, 0, 0, 0)


def test_a_cluster_s_busy_core_runs_its_task_and_its_idle_ones_none() -> None:
    rounds = Rounds().dispatch(5, 9).dispatch(6, 0)
    rounds.run.changed.clear()
    rounds.cluster("core8(busy kernel=3 task=1 cond_reg_state=ack)", thread=1)
    assert rounds.cores() == {0: None, 8: 1, 9: None}
    assert (rounds.run.tasks[5].cores, rounds.run.tasks[6].cores) == ({}, {})
    assert rounds.run.changed == {1, 5, 6}
    core = rounds.run.cores[8]
    assert (core.subslot, core.thread, core.cluster, core.condition) == ("aiv0", 1, 4, "ack")
    assert (rounds.run.cores[0].subslot, rounds.run.cores[9].cluster) == ("aic", 4)
    task = rounds.run.tasks[1]
    assert (task.state, task.kernels, task.since_wall_ns) == (TaskState.RUNNING, (-1, 3, -1), BEGAN)
    assert (rounds.stall.running, rounds.run.confirmed, rounds.stall.anomalies) == ({1}, {1}, {})
    assert {0, 8, 9} <= rounds.run.changed_cores


def test_a_cluster_line_keeps_what_the_line_of_the_task_says() -> None:
    rounds = Rounds().running(1).cluster("core8(busy kernel=4 task=1 cond_reg_state=ack)")
    task = rounds.run.tasks[1]
    assert (task.said.source, task.said.text, task.kernels) == ("err.txt:1", "line of err.txt:1", (-1, 3, -1))
    alone = Rounds().cluster("core8(busy kernel=-1 task=1 cond_reg_state=ack)").run.tasks[1]
    assert (alone.said.source, alone.kernels) == ("err.txt:1", ())
    zero = Rounds().cluster("core8(busy kernel=0 task=0 cond_reg_state=ack)")
    assert (zero.run.tasks[0].kernels, zero.stall.running) == ((-1, 0, -1), {0})


@pytest.mark.parametrize(
    ("core", "condition", "anomalies", "running"),
    [
        ("core8(busy kernel=3 task=1 cond_reg_state=fin ANOMALY)", "fin", {8: 1}, 1),
        ("core8(busy kernel=3 task=-1 cond_reg_state=fin ANOMALY)", "fin", {8: -1}, None),
        ("core8(busy kernel=3 task=1 cond_reg_state=fin)", "fin", {}, 1),
    ],
)
def test_a_core_that_is_done_and_not_collected_is_an_anomaly(
    core: str, condition: str, anomalies: dict[int, int], running: int | None
) -> None:
    rounds = Rounds().cluster(core)
    assert (rounds.run.cores[8].condition, rounds.stall.anomalies) == (condition, anomalies)
    assert rounds.cores()[8] == running


def test_a_core_that_is_not_understood_is_left_out_and_the_next_one_is_not() -> None:
    rounds = Rounds().dispatch(5, 9)
    rounds.say("CLUSTER cluster_id=4 aic=core0(what) aiv0=core8(busy so) aiv1=core9(idle)")
    assert (rounds.cores(), rounds.run.tasks[5].cores) == ({9: None}, {})


@pytest.mark.parametrize(
    ("counts", "done", "sub_class"),
    [
        (Counts(1, 9, 1, 1, 1), None, "S1:running-stalled"),
        (Counts(1, 9, 0, 1, 1), None, "S3:ready-but-all-idle"),
        (Counts(1, 9, 0, 0, 1), None, "S4:dependency-deadlock"),
        (Counts(1, 9, 0, 0, 0), False, "S5:orchestrator-starvation"),
        (Counts(1, 9, 0, 0, 0), True, ""),
        (Counts(1, 9, 0, 0, 0), None, ""),
        (Counts(1, 9, None, 0, 0), False, ""),
        (Counts(1, 9, 0, None, 0), False, ""),
        (Counts(1, 9, 0, 0, None), False, ""),
    ],
)
def test_the_class_that_counts_mean(counts: Counts, done: bool | None, sub_class: str) -> None:
    assert Stall(1, mark(), orchestrator_done=done).class_by(counts) == sub_class


def resolved(rounds: Rounds, counted: str) -> Stall:
    message = classify(f"Thread 1: P resolution stall ({counted} resolved)", True)
    assert message is not None
    return rounds.reader.resolution(message.fields, mark())


def test_a_stall_of_the_resolution_thread_leaves_returned_kernels_deferred() -> None:
    rounds = Rounds().dispatch(1, 8).dispatch(2, 9)
    rounds.run.counts.running = 7
    stall = resolved(rounds, "0/3")
    assert (stall.exit, stall.orchestrator_done, stall.ready, stall.idle) == (True, True, {1, 2}, 0)
    assert rounds.states() == {1: TaskState.READY, 2: TaskState.READY}
    assert all(rounds.run.tasks[raw].deferred and not rounds.run.tasks[raw].cores for raw in (1, 2))
    assert {rounds.run.tasks[raw].since_wall_ns for raw in (1, 2)} == {BEGAN}
    assert (rounds.cores(), rounds.run.confirmed, rounds.run.counts.running) == ({8: None, 9: None}, {1, 2}, 0)
    assert (rounds.run.counts.completed, rounds.run.counts.total) == (0, 3)


@pytest.mark.parametrize(("counted", "ready"), [("0/3", {2}), ("1/3", {2}), ("2/3", set())])
def test_which_of_several_have_ended_is_not_known_if_more_are_counted_than_seen(counted: str, ready: set[int]) -> None:
    rounds = Rounds().dispatch(1, 8).dispatch(2, 8)  # the first has completed
    assert resolved(rounds, counted).ready == ready
    assert rounds.stall.exit


def diagnosed(stall: Stall, **counts: int) -> dict[str, Diagnostic]:
    job = Job(Names())
    job.run.counts = Counts(**counts)
    return {said.code: said for said in stall_diagnostics(job, stall)}


def test_what_a_round_says_as_diagnostics() -> None:
    going_on = diagnosed(Stall(100, mark()))
    assert list(going_on) == ["stall-summary"]
    assert going_on["stall-summary"].sentence.endswith("no progress for 100 idle iterations; its line has no counts.")
    facts = going_on["stall-summary"].facts
    assert (facts.drained, facts.sub_class, facts.sub_class_by, facts.orch_done) == (False, "", "", None)
    assert facts.code == "code 100, SCHEDULER_TIMEOUT"
    counted = diagnosed(Stall(100, mark(), exit=True), completed=0, total=4, running=1)["timeout-exit"]
    assert counted.sentence.endswith("; 0 of 4 tasks are done.")
    assert counted.sentence.startswith("The scheduler's watchdog ended the run (S1:running-stalled: ")
    assert counted.facts.advice and not facts.advice
    classless = diagnosed(Stall(100, mark(), exit=True))["timeout-exit"]
    assert classless.sentence == "The scheduler's watchdog ended the run; its line has no counts."
    assert counted.facts.sub_class_by == "counts" and counted.facts.sub_class.startswith("S1")


@pytest.mark.parametrize("done", [True, False])
def test_whether_the_orchestrator_is_done_is_said_where_it_is_known(done: bool) -> None:
    stall = Stall(100, mark(), exit=True, orchestrator_done=done, sub_class="S3:ready-but-all-idle", drained=mark("x"))
    facts = diagnosed(stall)["timeout-exit"].facts
    assert (facts.orch_done, facts.drained, facts.sub_class_by) == (done, True, "")


def test_each_core_that_was_not_collected_is_named() -> None:
    stall = Stall(100, mark(), anomalies={9: 2, 8: 1})
    job = Job(Names())
    said = [one for one in stall_diagnostics(job, stall) if one.code == "core-anomaly"]
    assert [one.entities for one in said] == [
        ("core:ascend/8", "task:ascend/r0t1"),
        ("core:ascend/9", "task:ascend/r0t2"),
    ]


def doubted(idle: int, **changes: int) -> dict[str, Diagnostic]:
    """What is said of a watchdog that fired after 5 s, with core 9 idle."""
    job = Job(Names())
    job.timeouts.add("scheduler", mark(), Limit(5.0, "said by the log"))
    job.run.core(9)
    if "stuck" in changes:
        job.run.core(changes["stuck"]).stuck = True
    job.trouble.unacknowledged = changes.get("unacknowledged", 0)
    if "load" in changes:
        job.loads.add(NOW, Load(float(changes["load"]), changes["load"], 16))
    return {said.code: said for said in stall_diagnostics(job, Stall(idle, mark(), exit=True))}


@pytest.mark.parametrize(("idle", "starved"), [(0, False), (1, True), (1_499, True), (1_500, False)])
def test_a_scheduler_that_turned_its_loop_too_seldom_was_starved(idle: int, starved: bool) -> None:
    said = doubted(idle)
    assert ("watchdog-starved" in said) == starved
    assert not starved or said["watchdog-starved"].facts.load == ""


def test_a_core_that_hangs_proves_a_stall_however_starved_the_scheduler_was() -> None:
    assert list(doubted(10, stuck=8)) == list(doubted(10, unacknowledged=1)) == ["timeout-exit"]


def test_how_busy_the_machine_was_is_said_beside_a_time_out() -> None:
    starved, went = doubted(10, load=40), doubted(5_000, load=40)
    assert starved["watchdog-starved"].facts.load.startswith("load 40.0 on 16 CPUs")
    assert "machine-busy" not in starved and "watchdog-starved" not in went
    assert "load 40.0 on 16 CPUs" in went["machine-busy"].sentence
    assert list(doubted(5_000, load=1)) == ["timeout-exit"] == list(doubted(5_000))
