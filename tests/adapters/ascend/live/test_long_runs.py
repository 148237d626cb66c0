"""Slow, stuck or well: what is said of a run that memory shows, before and after the limit of its watchdog.

Samples are made by hand; the states are those that the real simulator was seen in (tests/targets/simpler/run.py).
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.live import state as progress
from livedbg.adapters.ascend.live.scene import Unreturned, began_mono_ns
from livedbg.adapters.ascend.live.state import Errors, LiveCore, LiveTask, Sample
from livedbg.adapters.ascend.live.view import LiveView
from livedbg.analysis import Verdict, VerdictState
from livedbg.analysis.diagnosis import Diagnosis
from livedbg.model import Edge, EdgeKey, EdgeKind, Frame, Process, Stack, TaskState, Thread, ThreadState
from livedbg.model.events import EdgesReplaced, ProcessSeen, StacksSeen, Stamp, ThreadsSeen, Tick
from livedbg.model.snapshot import Snapshot
from livedbg.session.rulebook import diagnostician
from tests.adapters.ascend.replay import NOW, Replay, dispatched, stall, summary, task_line

DONE, RUNS, READY, WAITS = TaskState.COMPLETED, TaskState.RUNNING, TaskState.READY, TaskState.SUBMITTED
PID, CORE_TID = 4711, 4730
MINUTE = {"SIMPLER_SCHEDULER_TIMEOUT_MS": "60000"}
T = "task:ascend/"


def task(raw: int, state: TaskState, core: int | None = None, **more: Any) -> LiveTask:
    cores = ((core, "aiv0"),) if core is not None else ()
    return LiveTask(raw, state, **{"kernels": (-1, 2, -1), "missing": 0, "fanin": 0, "cores": cores, **more})


def sample(*tasks: LiveTask, submitted: bool = True, **more: Any) -> Sample:
    """Sixteen AIV cores, some of which execute these tasks."""
    held = {core: one.raw for one in tasks for core, _ in one.cores}
    queued = {one.queued: one.raw for one in tasks if one.queued is not None}
    done = sum(1 for one in tasks if one.state is DONE)
    return Sample(
        changed={one.raw for one in tasks},
        tasks={one.raw: one for one in tasks},
        cores={n: LiveCore(n, "aiv0", 0, held.get(n), queued.get(n)) for n in range(8, 24)},
        **{"completed": done, "total": len(tasks) if submitted else None, "submitted": submitted, **more},
    )


class Watching:
    """A process that is sampled; its threads use CPU time all the while, as those of the simulator do."""

    def __init__(self, environment: dict[str, str] | None = None, *, age_s: float | None = None) -> None:
        self.replay = Replay()
        self.model = self.replay.model
        self.job: Job = self.model.job("pid4711")
        self.view = self.job.live = LiveView(self.job, PID)
        self.job.process, self.job.environment = f"process:box/{PID}", environment or {}
        self.age_s, self.seconds, self.taken = age_s, 0.0, 0
        self.diagnostician = diagnostician()
        self.threads = {PID: "pthread_join", CORE_TID: ""}
        process = Process(id=f"process:box/{PID}", host="box", pid=PID, target=True)
        self.replay.store.apply(ProcessSeen(process=process, **NOW))
        self.breathe(self.stamp())

    def stamp(self) -> Stamp:
        ns = int(self.seconds * 1e9)
        return {**NOW, "mono_ns": NOW["mono_ns"] + ns, "wall_ns": NOW["wall_ns"] + ns}

    def breathe(self, stamp: Stamp) -> None:
        """The main thread waits, a core's thread runs."""
        main, core = (f"thread:box/{PID}/{tid}" for tid in (PID, CORE_TID))
        shared = {"process": f"process:box/{PID}"}
        used = int(self.seconds * 5e8)
        threads = (
            Thread(
                id=main,
                tid=PID,
                state=ThreadState.WAITING,
                syscall="futex",
                waits_in="pthread_join",
                cpu_ns=1,
                **shared,
            ),
            Thread(id=core, tid=CORE_TID, state=ThreadState.RUNNING, cpu_ns=used, **shared),
        )
        self.replay.store.apply(ThreadsSeen(threads=threads, **stamp))

    def take(self, seen: Sample | None, after_s: float = 0.3) -> Diagnosis:
        """One sample, so long after the last."""
        self.seconds += after_s
        stamp = self.stamp()
        if seen is not None:
            seen.fresh = seen.fresh or not self.taken
            seen.began_mono_ns = None if self.age_s is None else -int(self.age_s * 1e9)
        self.taken += 1
        self.view.take(seen, stamp["wall_ns"])
        self.breathe(stamp)
        return self.judge()

    def judge(self) -> Diagnosis:
        stamp = self.stamp()
        self.replay.store.apply_all([Tick(**stamp), *self.model.collect(stamp, whole=True)])
        return self.diagnostician.diagnose(self.snapshot)

    def says(self, seen: Sample | None, after_s: float = 0.3) -> Verdict:
        return self.take(seen, after_s).verdict

    @property
    def snapshot(self) -> Snapshot:
        return self.replay.store.snapshot()


@pytest.fixture(autouse=True)
def fixed_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's age is given by the tests, as a moment before 0."""
    monkeypatch.setattr(progress.time, "monotonic_ns", lambda: 0)


HUNG = (task(0, DONE), task(1, RUNS, 10), task(2, WAITS, missing=1, fanin=1))


def test_one_look_at_an_old_run_that_does_not_move_is_unknown_and_names_the_task() -> None:
    watching = Watching(MINUTE, age_s=42)
    watching.take(sample(*HUNG, waiters={1: (2,)}))
    verdict = watching.says(sample(*HUNG))
    assert (verdict.state, verdict.roots) == (VerdictState.UNKNOWN, (f"{T}r0t1",))
    assert verdict.sentence == (
        "Long: task r0t1 (func 2) has been running on core 10 (AIV0) for at most 42 s (the age of the run). "
        "livedbg can't tell slow from stuck before the limit of the scheduler's watchdog, 60 s "
        "(SIMPLER_SCHEDULER_TIMEOUT_MS=60000). 1 of 3 tasks are done."
    )


@pytest.mark.invariant("run_progress.L1")
def test_L1_an_old_run_that_moves_runs_and_so_does_a_young_one() -> None:
    watching = Watching(MINUTE, age_s=42)
    watching.take(sample(*HUNG))
    after = (task(0, DONE), task(1, DONE), task(2, RUNS, 11))
    verdict = watching.says(sample(*after))
    assert (verdict.state, "r0t2" in verdict.sentence) == (VerdictState.RUNNING, True)

    young = Watching(MINUTE, age_s=5)
    young.take(sample(*HUNG))
    assert young.says(sample(*HUNG)).state is VerdictState.RUNNING


def test_two_slow_rounds_are_never_a_stall_and_do_not_flap() -> None:
    watching, states = Watching(MINUTE), []
    for _ in range(2):  # each: 20 s of one kernel, within the limit of 60 s
        for second in range(20):
            seen = sample(task(0, RUNS, 10), fresh=second == 0)
            states.append(watching.says(seen, 1.0).state)
        states.append(watching.says(sample(task(0, DONE), over=True), 1.0).state)
        watching.take(None, 1.0)
    assert VerdictState.STALLED not in states
    changes = [(before, after) for before, after in pairwise(states) if before is not after]
    unknown, running = VerdictState.UNKNOWN, VerdictState.RUNNING
    assert changes[:2] == [(running, unknown), (unknown, running)]  # the first time nothing is known of the kernel
    assert unknown not in states[21:]


def test_what_a_kernel_took_is_known_though_the_next_run_began_between_two_samples() -> None:
    watching, states = Watching(MINUTE), []
    for _ in range(2):
        states += [watching.says(sample(task(0, RUNS, 10), fresh=second == 0), 1.0).state for second in range(20)]
    assert watching.snapshot.kernels["ascend", "func 2"].longest_ns == 20_000_000_000
    assert VerdictState.UNKNOWN in states[:20] and set(states[20:]) == {VerdictState.RUNNING}


def test_the_limit_of_the_watchdog_is_the_threshold() -> None:
    watching = Watching(MINUTE)
    states = {second: watching.says(sample(*HUNG), 1.0).state for second in range(1, 64)}
    stalled = [second for second, state in states.items() if state is VerdictState.STALLED]
    assert (states[9], states[15], states[59]) == (VerdictState.RUNNING, VerdictState.UNKNOWN, VerdictState.UNKNOWN)
    assert stalled and min(stalled) >= 60 and states[63] is VerdictState.STALLED


RUNNING = task_line(1, "RUNNING", "1/1", tail=" running_on=[owner_thread=0 cores=[core=10(aiv0)]]")


def _log(watching: Watching) -> str:
    source = watching.replay.open(Path("/run/err.txt"))
    watching.model._of_source[source] = watching.model._of_source["pid4711"]
    return source


def test_a_round_without_progress_is_no_stall_before_the_limit_of_the_watchdog() -> None:
    watching = Watching(MINUTE)
    source, states = _log(watching), {}
    for second in range(1, 70):
        if second % 14 == 0:
            turns = second * 40_000
            lines = [stall(RUNNING, idle=turns), stall(summary("1/3", 0, 1, 1), idle=turns), ""]
            watching.replay.feed(source, "\n".join(lines).encode())
            watching.replay.end(source)
        states[second] = watching.says(sample(*HUNG), 1.0)
    assert states[9].state is VerdictState.RUNNING
    assert {states[second].state for second in range(15, 60)} == {VerdictState.UNKNOWN}
    assert "for 28 s" in states[29].sentence  # the rounds are no news of the run
    assert (states[69].state, states[69].roots) == (VerdictState.STALLED, (f"{T}r0t1",))


def _stack(watching: Watching, held_s: float, samples: int, module: str = "kernel func 2") -> None:
    """Samples of the thread that plays core 10, the first of them so long ago."""
    core, now = f"thread:box/{PID}/{CORE_TID}", watching.stamp()["mono_ns"]
    held: dict[str, Any] = {"held_mono_ns": now - int(held_s * 1e9), "held_samples": samples}
    frames = (
        Frame(function="sched_yield", module="libc.so.6", held_mono_ns=now, held_samples=1),
        Frame(function="wait_for_gate(int volatile*) [clone .constprop.0]", module=module, **held),
        Frame(function="kernel_entry", module=module, **held),
        Frame(function="aicore_execute", module="aicore_sim_abcdef", **held),
    )
    edge = Edge(kind=EdgeKind.RUNS_ON, source="core:ascend/10", target=core, evidence="thread-specific data")
    watching.replay.store.apply_all(
        [
            EdgesReplaced(scope="cores", edges=(edge,), **watching.stamp()),
            StacksSeen(
                stacks=(Stack(thread=core, frames=frames, taken_mono_ns=now, source="samples", layer="native"),),
                **watching.stamp(),
            ),
        ]
    )


@pytest.mark.parametrize(
    ("held_s", "samples", "module", "words"),
    [
        (1.2, 20, "kernel func 2 (MUL)", " Its kernel was in wait_for_gate in all of 20 samples in 1.2 s."),
        (1.2, 2, "kernel func 2", " Its kernel is in wait_for_gate."),
        (90, 20, "kernel func 2", " Its kernel is in wait_for_gate."),  # the core ran the same kernel for another task
        (1.2, 20, "libother.so", ""),
    ],
)
def test_where_the_kernel_of_a_task_stays(held_s: float, samples: int, module: str, words: str) -> None:
    watching = Watching(MINUTE)
    watching.take(sample(*HUNG))
    watching.says(sample(*HUNG), 30.0)
    _stack(watching, held_s, samples, module)
    said = watching.judge().verdict
    assert said.state is VerdictState.UNKNOWN
    assert f"on core 10 (AIV0) for 30 s.{words} livedbg can't tell" in said.sentence


def test_a_stack_from_before_the_task_says_nothing_of_it() -> None:
    watching = Watching(MINUTE)
    _stack(watching, 1.0, 20)
    watching.take(sample(*HUNG), 5.0)
    assert "Its kernel" not in watching.says(sample(*HUNG), 20.0).sentence


def test_a_kernel_that_moves_is_in_the_function_that_all_its_samples_share() -> None:
    watching = Watching(MINUTE)
    watching.take(sample(*HUNG))
    watching.says(sample(*HUNG), 30.0)
    _stack(watching, 1.2, 20)
    stack = watching.snapshot.stacks[f"thread:box/{PID}/{CORE_TID}"]
    frames = tuple(
        structs.replace(frame, held_samples=2) if frame.function.startswith("wait") else frame for frame in stack.frames
    )
    watching.replay.store.apply(StacksSeen(stacks=(structs.replace(stack, frames=frames),), **watching.stamp()))
    assert " Its kernel was in kernel_entry in all of 20 samples in 1.2 s." in watching.judge().verdict.sentence


def test_a_job_that_runs_its_graph_again_and_again_says_how_often() -> None:
    watching = Watching(MINUTE)
    for _ in range(3):
        watching.says(sample(task(0, RUNS, 10), fresh=True), 1.0)
        watching.says(sample(task(0, DONE), over=True), 1.0)
        last = watching.says(None, 0.3)
    assert (last.state, last.sentence) == (
        VerdictState.RUNNING,
        "Running: it has completed 2 runs or more of its tasks. The run completed: 1 of 1 tasks.",
    )
    said = watching.says(sample(task(0, RUNS, 10), fresh=True), 1.0).sentence
    assert said.endswith("r0t0 (func 2) is running. 3 runs or more completed before it.")


@pytest.mark.parametrize(("number", "words"), [(1, "1 run completed"), (812, "812 runs completed")])
def test_the_host_s_spans_number_the_runs(number: int, words: str) -> None:
    watching = Watching(MINUTE)
    watching.take(sample(task(0, RUNS, 10)))
    source = _log(watching)
    watching.replay.feed(
        source,
        b"[mono_ns=9][T0x7f81a5430b80][TIMING] emit_host_span: [STRACE] v=1 pid=%d tid=%d inv=%d hid=0 depth=0 "
        b"name=chip.run ts=5 dur=3\n" % (PID, PID, number),
    )
    watching.replay.end(source)
    said = watching.says(sample(task(0, RUNS, 10), fresh=True), 1.0).sentence
    assert said.endswith(f"{words} before it.")


def test_a_log_without_dispatches_does_not_make_a_slow_run_a_stall() -> None:
    watching = Watching({})
    watching.job.last_wall_ns = NOW["wall_ns"] - 40_000_000_000  # the line of the run's begin
    watching.job.begin(on_device=True)
    watching.take(sample(*HUNG))
    assert watching.says(sample(*HUNG)).state is VerdictState.RUNNING


def test_the_watchdog_has_fired_as_memory_shows() -> None:
    watching = Watching({}, age_s=12)
    watching.take(sample(*HUNG, errors=Errors(scheduler=100), over=True))
    verdict = watching.says(sample(*HUNG, errors=Errors(scheduler=100), over=True))
    assert (verdict.state, verdict.roots) == (VerdictState.STALLED, (f"{T}r0t1",))
    assert "The scheduler's watchdog ended the run (code 100, by the scheduler's memory)." in verdict.sentence


def test_an_orchestrator_that_submits_nothing() -> None:
    done = sample(task(0, DONE), submitted=False)
    watching = Watching({}, age_s=30)
    watching.take(done)
    verdict = watching.says(sample(task(0, DONE), submitted=False))
    assert (verdict.state, verdict.roots) == (VerdictState.UNKNOWN, (f"{T}orchestrator",))
    assert verdict.sentence.startswith("Long: the orchestrator has submitted nothing for at most 30 s")
    more = sample(task(0, DONE), task(1, DONE), submitted=False)
    assert watching.says(more).state is VerdictState.RUNNING  # it did compute
    assert watching.says(more, 9.0).state is VerdictState.RUNNING
    verdict = watching.says(more, 20.0)
    assert verdict.state is VerdictState.UNKNOWN and "submitted nothing for 29 s, and all submitted" in verdict.sentence


@pytest.mark.invariant("live_view.V2")
def test_V3_what_waits_for_a_core_is_behind_the_task_that_has_it_and_counted_once() -> None:
    hung = [task(number, RUNS, 8 + number) for number in range(16)]
    queued = task(16, READY, queued=8)
    ready = [task(17, READY), task(18, READY)]
    behind = task(19, WAITS, missing=1, fanin=1)
    seen = sample(*hung, queued, *ready, behind, waiters={16: (19,)})
    watching = Watching({})
    watching.take(seen)
    stalled = watching.take(sample(*hung, queued, *ready, behind), 11.0)
    edges = watching.snapshot.edges

    def waits(source: str, target: str) -> Edge | None:
        return edges.get(EdgeKey(EdgeKind.WAITS_FOR, T + source, T + target))

    first = waits("r0t16", "r0t0")
    assert first is not None and "queued on core 8, which executes r0t0" in first.evidence and not first.any_of
    assert waits("r0t16", "r0t1") is None
    every = [waits("r0t17", f"r0t{number}") for number in range(16)]
    assert all(edge is not None and edge.any_of for edge in every)
    assert " 4 tasks wait behind them, 3 directly." in stalled.verdict.sentence

    free = sample(*hung[1:], task(0, DONE), task(16, RUNS, 8), *ready, behind)  # the scheduler has not run since
    watching.take(free)
    assert EdgeKey(EdgeKind.WAITS_FOR, f"{T}r0t16", f"{T}r0t0") not in watching.snapshot.edges
    one_idle = sample(*hung[1:], task(0, DONE), task(16, DONE), *ready, behind)
    watching.take(one_idle)
    kinds = [edge for edge in watching.snapshot.edges.values() if edge.kind is EdgeKind.WAITS_FOR and edge.any_of]
    assert kinds == []  # a core is free: they wait for the scheduler, not for a task


def test_a_line_that_comes_late_does_not_bring_back_a_task_whose_slot_was_given_back() -> None:
    watching = Watching({})
    watching.take(sample(task(5, RUNS, 8), tails={0: 5}))
    source = _log(watching)
    watching.replay.feed(source, f"{dispatched(3, 9)}\n".encode())
    watching.replay.end(source)
    watching.replay.flush()
    assert watching.snapshot.tasks[f"{T}r0t3"].state is RUNS  # so the line says
    watching.take(sample(task(5, RUNS, 8), tails={0: 5}))
    assert watching.snapshot.tasks[f"{T}r0t3"].state is DONE


def _unreturned(watching: Watching, *, joined: bool, after_s: float) -> Verdict:
    watching.view.take_unreturned([Unreturned(CORE_TID, 10, 1, 2)])
    if joined:
        main, core = (f"thread:box/{PID}/{tid}" for tid in (PID, CORE_TID))
        edge = Edge(kind=EdgeKind.WAITS_FOR, source=main, target=core, evidence="futex")
        watching.replay.store.apply(EdgesReplaced(scope="test", edges=(edge,), **watching.stamp()))
    return watching.says(None, after_s)


def test_a_kernel_that_has_not_returned_when_the_scheduler_ended() -> None:
    watching = Watching({})
    watching.take(None)
    assert (
        _unreturned(watching, joined=False, after_s=30.0).state is not VerdictState.STALLED
    )  # a run is set up, or ends
    watching = Watching({})
    watching.take(None)
    assert _unreturned(watching, joined=True, after_s=3.0).state is VerdictState.UNKNOWN
    verdict = watching.says(None, 10.0)
    assert (verdict.state, verdict.roots) == (VerdictState.STALLED, (f"{T}r0t1",))
    assert verdict.sentence.startswith(
        "Task r0t1 (func 2) on core 10 has not returned since the scheduler ended the run, 13 s ago or more."
    )
    task = watching.snapshot.tasks[f"{T}r0t1"]
    assert (task.state, task.where, task.kernel) == (RUNS, ("core:ascend/10",), "func 2")
    watching.view.take_unreturned([])  # the kernel was slow, and has returned
    assert watching.says(None, 1.0).state is not VerdictState.STALLED
    assert watching.snapshot.tasks[f"{T}r0t1"].state is TaskState.FAILED


def test_the_begin_of_a_run_on_the_chips_counter() -> None:
    now = 1_000_000_000_000
    assert began_mono_ns(int(0.99 * now) // 20, now) == int(0.99 * now)  # a2a3: 50 MHz
    assert began_mono_ns(int(0.99 * now), now) == int(0.99 * now)  # a5: 1 GHz
    assert began_mono_ns(0, now) is None and began_mono_ns(2 * now, now) is None
