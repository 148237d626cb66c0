"""What memory says joins what the log says: the same names, and memory wins for the present."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.ascend.live.view import LiveView
from livedbg.analysis import VerdictState
from livedbg.model import EdgeKey, EdgeKind, EdgeState, Process, TaskState
from livedbg.model.events import ProcessSeen, Stamp, Tick
from livedbg.model.snapshot import CounterKey, Snapshot
from livedbg.session.rulebook import diagnostician
from tests.adapters.ascend.live.conftest import Simulator
from tests.adapters.ascend.replay import NOW, Replay, dispatched, timeout

Start = Callable[..., Simulator]
T = "task:ascend/"


class Joined:
    """A log and a live process, in one model and store."""

    def __init__(self, simulator: Simulator) -> None:
        self.replay = Replay()
        self.simulator = simulator
        self.source = self.replay.open(Path("/run/err.txt"))
        process = Process(id=f"process:box/{simulator.pid}", host="box", pid=simulator.pid, exe="python3")
        self.replay.store.apply(ProcessSeen(process=process, **NOW))
        self.view: LiveView | None = None
        self.seconds = 0.0

    def log(self, *lines: str) -> None:
        self.replay.feed(self.source, "\n".join([*lines, ""]).encode())

    def sample(self, after_s: float = 0.5) -> Snapshot:
        """One look, so long after the last."""
        self.seconds += after_s
        ns = int(self.seconds * 1e9)
        stamp: Stamp = {**NOW, "mono_ns": NOW["mono_ns"] + ns, "wall_ns": NOW["wall_ns"] + ns}
        if self.view is None:
            self.replay.flush()
            world = self.replay.model.job(self.source)
            self.view = world.live = LiveView(world, self.simulator.pid)
        self.view.take(self.simulator.try_sample(), stamp["wall_ns"])
        self.replay.store.apply_all([Tick(**stamp), *self.replay.model.collect(stamp, whole=True)])
        return self.replay.store.snapshot()


@pytest.fixture
def joined(simulator: Start) -> Joined:
    return Joined(simulator())


def _edge(snapshot: Snapshot, source: str, target: str) -> EdgeState | None:
    edge = snapshot.edges.get(EdgeKey(EdgeKind.DEPENDS_ON, T + source, T + target))
    return edge.state if edge is not None else None


def test_a_run_without_a_log(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "submit 1 1 0.0", "submit 1 2 1.0", "run 8 0.0")
    state = joined.sample()
    assert {name: task.state for name, task in state.tasks.items() if name.startswith(T + "r")} == {
        f"{T}r0t0": TaskState.RUNNING,
        f"{T}r1t0": TaskState.SUBMITTED,
        f"{T}r1t1": TaskState.SUBMITTED,
    }
    task = state.tasks[f"{T}r0t0"]
    assert (task.where, task.owner, task.kernel) == (("core:ascend/8",), "scheduler thread 0", "func 0")
    assert task.facts.evidence == f"memory of process {joined.simulator.pid}"
    assert (_edge(state, "r1t0", "r0t0"), _edge(state, "r1t1", "r1t0")) == (EdgeState.PENDING, EdgeState.PENDING)
    assert state.resources["core:ascend/8"].state == "busy" and state.resources["core:ascend/9"].state == "idle"

    joined.simulator.tell("done 0.0", "run 9 1.0", "submitted")
    state = joined.sample()
    assert state.tasks[f"{T}r0t0"].state is TaskState.COMPLETED
    assert state.tasks[f"{T}r1t0"].since_wall_ns == NOW["wall_ns"] + 1_000_000_000
    assert state.tasks[f"{T}r0t0"].since_wall_ns == NOW["wall_ns"] + 1_000_000_000
    assert state.kernels["ascend", "func 0"].longest_ns == 500_000_000  # between two looks
    assert (_edge(state, "r1t0", "r0t0"), _edge(state, "r1t1", "r1t0")) == (EdgeState.SATISFIED, EdgeState.PENDING)
    counter = state.counters[CounterKey("run:ascend/main", "completed")]
    assert (counter.value, counter.total) == (1, 3)
    assert (state.tasks[f"{T}r1t1"].fanin_left, state.tasks[f"{T}r1t1"].fanin_total) == (1, 1)

    joined.simulator.tell("done 1.0", "run 9 1.1", "done 1.1", "over")
    state = joined.sample()
    assert all(task.state is TaskState.COMPLETED for task in state.tasks.values())
    assert state.diagnostics["ascend/run-complete"].sentence == "The run completed: 3 of 3 tasks."


@pytest.mark.invariant("live_view.V1")
def test_what_the_log_knows_stays_and_memory_wins(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "submit 0 1 0.0", "run 8 0.0")
    joined.log(dispatched(0, 8, "-1,0,-1"))
    state = joined.sample()
    task = state.tasks[f"{T}r0t0"]
    assert (task.state, task.facts.evidence) == (TaskState.RUNNING, "err.txt:1")  # the log has the line
    joined.simulator.tell("done 0.0", "run 9 0.1")
    state = joined.sample()
    assert state.tasks[f"{T}r0t0"].state is TaskState.COMPLETED  # no line ever says so
    assert state.tasks[f"{T}r0t1"].where == ("core:ascend/9",)
    joined.log(dispatched(1, 10, "-1,1,-1"))  # not what memory says
    state = joined.sample()
    assert state.tasks[f"{T}r0t1"].where == ("core:ascend/9",)


@pytest.mark.invariant("live_view.V1")
def test_memory_wins_where_it_contradicts_a_stall(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "submit 0 1 0.0", "run 8 0.0", "done 0.0", "run 9 0.1")
    joined.log(timeout("S1:running-stalled", "0/2", 1, 0, 1, task=0, core=8))
    state = joined.sample()
    assert state.diagnostics["ascend/run-state"].entities == (f"{T}r0t1",)  # who holds it up now


def test_who_holds_a_run_up_is_certain(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "submit 0 1", "submit 0 2 0.1", "run 8 0.0", "run 9 0.1", "defer 0.0")
    state = joined.sample()
    said = state.diagnostics["ascend/run-state"]
    assert said.entities == (f"{T}r0t0", f"{T}r0t1") and said.facts.certain
    deferred = state.tasks[f"{T}r0t0"]
    assert (deferred.state, deferred.facts.deferred) == (TaskState.READY, True)
    assert deferred.facts.waits_for.endswith("is 0, waits for 1 (ROCE)")


def test_silence_needs_that_nothing_moves(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "submit 0 1", "run 8 0.0")
    joined.sample()
    for number in range(30):
        joined.simulator.tell("submit 0 2")
        assert joined.sample().diagnostics["ascend/run-state"].facts.quiet is False, number
    assert joined.sample(11).diagnostics["ascend/run-state"].facts.quiet
    joined.simulator.tell("done 0.0")
    assert joined.sample().diagnostics["ascend/run-state"].facts.quiet is False


def test_a_stall_is_found_without_any_log(joined: Joined) -> None:
    joined.simulator.tell("submit 0 2", "submit 0 0 0.0", "run 8 0.0", "submitted")
    assert diagnostician().diagnose(joined.sample()).verdict.state is not VerdictState.STALLED
    verdict = diagnostician().diagnose(joined.sample(11)).verdict
    assert (verdict.state, verdict.roots) == (VerdictState.STALLED, (f"{T}r0t0",))
    assert "Task r0t0 (func 2) has been running on core 8 (AIV0) since 08:00:00 UTC or earlier" in verdict.sentence
    assert "1 task waits behind it, 1 directly. 0 of 2 tasks are done." in verdict.sentence


def test_a_scheduler_that_does_not_turn_is_paused_or_starved(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "run 8 0.0", "turn")
    joined.sample()
    joined.simulator.tell("turn")
    assert "ascend/scheduler-still" not in joined.sample(4).diagnostics
    said = joined.sample(4).diagnostics["ascend/scheduler-still"]
    assert "paused or starved, not stalled" in said.sentence and "for 4.0 s" in said.sentence
    joined.simulator.tell("turn")
    assert joined.sample().diagnostics["ascend/scheduler-still"].resolved


def test_the_next_run_in_the_same_process(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "submit 0 1 0.0", "run 8 0.0", "done 0.0", "run 9 0.1", "done 0.1", "submitted")
    joined.sample()
    joined.simulator.tell("reset", "submit 0 4", "submit 0 5", "submit 0 6 0.1", "run 10 0.0")
    state = joined.sample()
    assert state.tasks[f"{T}r0t0"].state is TaskState.RUNNING
    assert state.tasks[f"{T}r0t0"].kernel == "func 4"
    assert _edge(state, "r0t2", "r0t1") is EdgeState.PENDING
    assert _edge(state, "r0t1", "r0t0") is None


def test_the_log_begins_the_run_after_memory_has_seen_it(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "submit 0 1 0.0", "run 8 0.0")
    joined.sample()
    joined.replay.model.job(joined.source).begin(on_device=True)
    state = joined.sample()
    assert state.tasks[f"{T}r0t0"].state is TaskState.RUNNING
    assert _edge(state, "r0t1", "r0t0") is EdgeState.PENDING


def test_a_run_that_ends_between_two_looks_leaves_nothing_pending(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "submit 0 1 0.0", "run 8 0.0")
    assert _edge(joined.sample(), "r0t1", "r0t0") is EdgeState.PENDING
    joined.simulator.tell("idle")
    state = joined.sample()
    assert _edge(state, "r0t1", "r0t0") is EdgeState.SATISFIED
    assert all(task.state is TaskState.COMPLETED for task in state.tasks.values())
    assert all(core.state == "idle" for core in state.resources.values())


def test_a_run_that_was_ended_keeps_what_the_log_says_of_its_end(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "submit 0 1 0.0", "run 8 0.0", "error 100")
    joined.log(
        timeout("S1:running-stalled", "0/2", 1, 0, 1, task=0, core=8),
        "[ERROR] aicpu_execute: [aicpu_executor.cpp:1040] aicpu_execute: PTO2 runtime failed with rc=-100",
    )
    state = joined.sample()
    assert state.diagnostics["ascend/timeout-exit"].entities == (f"{T}r0t0",)
    assert state.tasks[f"{T}r0t0"].state is TaskState.RUNNING


def test_an_error_code_that_no_log_tells(joined: Joined) -> None:
    joined.simulator.tell("submit 0 0", "run 8 0.0", "error 104")
    said = joined.sample().diagnostics["ascend/fatal"]
    assert "104 (READY_QUEUE_OVERFLOW)" in said.sentence
    assert said.evidence[0].text == "error code 104 is latched"
