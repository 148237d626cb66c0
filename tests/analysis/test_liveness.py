"""What is progress and what is idle, and what only looks like it."""

from __future__ import annotations

import pytest

from livedbg.analysis import Verdict, VerdictState
from livedbg.analysis.liveness import TICK_SHARE
from livedbg.model import OUTSIDE, POLLS, UNSEEN_RUNTIME, EdgeKind, SourceHealth, SourceStatus, ThreadState
from livedbg.model import events as ev
from livedbg.model.entities import Thread
from tests.analysis.world import SECOND, World


def verdict(world: World) -> Verdict:
    return world.diagnosis().verdict


def beside(
    share: float, waits_in: str = "sem_wait", watched_ns: int = 20 * SECOND, tid: int = 2, queued: float = 0.0
) -> World:
    """A main thread that waits, beside a helper thread that uses a share of a core, and waits for one for another."""
    world = World()
    world.process(1)
    if tid != 1:
        world.thread(1, "main", waits_in=waits_in)
    world.thread(tid, "helper", waits_in="sleep 0.01 s", timed=True, cpu_ns=0)
    world.now_ns += watched_ns - SECOND
    world.thread(
        tid,
        "helper",
        waits_in="sleep 0.01 s",
        timed=True,
        cpu_ns=int(watched_ns * share),
        queued_ns=int(watched_ns * queued),
    )
    return world.later(SECOND)


@pytest.mark.invariant("liveness.L1")
@pytest.mark.parametrize(
    ("share", "state"),
    [(0.001, VerdictState.UNKNOWN), (TICK_SHARE * 0.9, VerdictState.UNKNOWN), (TICK_SHARE * 1.2, VerdictState.RUNNING)],
)
def test_L1_a_thread_that_ticks_is_no_progress(share: float, state: VerdictState) -> None:
    found = verdict(beside(share))
    assert found.state is state
    assert ("Only helper threads that tick" in found.sentence) == (state is VerdictState.UNKNOWN)


@pytest.mark.invariant("liveness.L1")
@pytest.mark.parametrize(("queued", "state"), [(0.5, VerdictState.UNKNOWN), (0.9, VerdictState.RUNNING)])
def test_L1_time_that_a_thread_waited_for_a_cpu_is_left_out(queued: float, state: VerdictState) -> None:
    assert verdict(beside(0.015, queued=queued)).state is state  # 3 % and 15 % of the time that it did not wait


def test_a_hang_is_never_excluded_while_a_main_thread_waits_for_long() -> None:
    assert "No hang found" not in verdict(beside(0.9)).sentence
    assert "Main thread 1 (main) has been in sem_wait for 20 s or more" in verdict(beside(0.9)).sentence
    assert "No hang found" in verdict(beside(0.9, watched_ns=5 * SECOND)).sentence
    assert "No hang found" in verdict(beside(0.9, waits_in="sigwait (waits for a signal)")).sentence


def test_what_others_wait_for_makes_progress_also_if_it_is_little() -> None:
    world = beside(0.001)
    world.waits("thread:box/1/1", "thread:box/1/2")
    assert verdict(world.later()).state is VerdictState.RUNNING


def test_that_others_wait_for_its_process_makes_no_progress_of_a_tick() -> None:
    world = beside(0.001)
    world.process(5)
    world.waits(world.thread(5, pid=5), "process:box/1")
    assert verdict(world.later()).state is VerdictState.UNKNOWN


def test_a_main_thread_makes_progress_also_if_it_is_little() -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sleep 1 s", timed=True, cpu_ns=0)
    world.now_ns += 10 * SECOND
    world.thread(1, "main", waits_in="sleep 1 s", timed=True, cpu_ns=SECOND // 1000)
    assert verdict(world.later()).state is VerdictState.RUNNING


def server(main: str, *, joins: bool = False, timed: bool | None = None) -> World:
    """A main thread beside a helper thread that waits for connections."""
    world = World()
    world.process(1)
    me, helper = world.thread(1, "main", waits_in=main, timed=timed), world.thread(2, "sharer", waits_in="accept on x")
    world.waits(helper, world.resource("socket:box/7", "listening", listening="yes"))
    if joins:
        world.waits(me, helper)
    return world.later(20 * SECOND)


@pytest.mark.invariant("liveness.L2")
def test_L2_one_helper_thread_does_not_decide_that_a_process_is_idle() -> None:
    assert verdict(server("poll of 2 descriptors")).state is VerdictState.UNKNOWN
    assert verdict(server("pthread_join", joins=True)).state is VerdictState.RUNNING
    assert verdict(server("sigsuspend (waits for a signal)")).state is VerdictState.RUNNING
    assert verdict(server("epoll_wait of 1 descriptor", timed=True)).state is VerdictState.UNKNOWN


@pytest.mark.invariant("liveness.L3")
@pytest.mark.parametrize(
    ("code", "share", "state"),
    [
        ("", 0.01, VerdictState.RUNNING),
        (UNSEEN_RUNTIME, 0.01, VerdictState.UNKNOWN),
        (UNSEEN_RUNTIME, 0.5, VerdictState.RUNNING),
        (POLLS, 0.99, VerdictState.UNKNOWN),
    ],
)
def test_L3_in_an_unseen_runtime_little_is_no_progress(code: str, share: float, state: VerdictState) -> None:
    world = beside(share, tid=1)
    status = SourceStatus(
        source="proc",
        target="process:box/1",
        health=SourceHealth.DEGRADED,
        code=code,
        sentence="Process 1 runs in a JVM: livedbg does not see monitors.",
        remedy="jcmd 1 Thread.print",
    )
    world.store.apply(ev.StatusSeen(status=status, **world.stamp()))
    found = verdict(world.later())
    assert found.state is state
    assert ("`jcmd 1 Thread.print` would tell" in found.sentence) == (state is VerdictState.UNKNOWN)


def test_a_thread_that_a_launcher_joins_ticks_in_an_unseen_runtime_too() -> None:
    world = beside(0.001)
    world.waits("thread:box/1/1", "thread:box/1/2")
    status = SourceStatus(
        source="proc", target="process:box/1", health=SourceHealth.DEGRADED, code=UNSEEN_RUNTIME, sentence="A JVM."
    )
    world.store.apply(ev.StatusSeen(status=status, **world.stamp()))
    assert verdict(world.later()).state is VerdictState.UNKNOWN


def test_what_the_command_that_would_tell_does_to_the_program_is_said() -> None:
    world = beside(0.001)
    status = SourceStatus(
        source="proc",
        target="process:box/1",
        health=SourceHealth.DEGRADED,
        code=UNSEEN_RUNTIME,
        sentence="Process 1 runs in the Go runtime: livedbg does not see goroutines.",
        remedy="kill -QUIT 1   prints all goroutines and ends the program",
    )
    world.store.apply(ev.StatusSeen(status=status, **world.stamp()))
    assert "`kill -QUIT 1` (prints all goroutines and ends the program) would tell" in verdict(world.later()).sentence


def own_pipe(**attributes: str) -> World:
    world = World()
    reader = world.thread(1, waits_in="read of pipe 3")
    world.process(1)
    pipe = world.resource("pipe:box/9", "empty", **attributes)
    world.waits(reader, pipe)
    world.holds(pipe, "process:box/1")
    return world.later(20 * SECOND)


def test_a_pipe_that_something_outside_may_serve_is_no_deadlock() -> None:
    assert verdict(own_pipe()).state is VerdictState.DEADLOCK
    world = own_pipe(**{OUTSIDE: "process 1 handles SIGTERM"})
    assert verdict(world).state is VerdictState.UNKNOWN
    assert "idle if something outside wakes it (process 1 handles SIGTERM), else stuck" in verdict(world).sentence
    assert world.found("own-channel").inferred


def test_of_two_processes_one_that_handles_signals_is_enough() -> None:
    def crossed(**attributes: str) -> World:
        world = World()
        for pid in (1, 2):
            world.process(pid)
            world.waits(world.thread(pid, pid=pid), world.resource(f"pipe:box/{pid}", **attributes))
        for pid in (1, 2):
            world.holds(f"pipe:box/{pid}", f"process:box/{3 - pid}")
        return world.later(20 * SECOND)

    assert verdict(crossed()).state is VerdictState.DEADLOCK
    assert verdict(crossed(**{OUTSIDE: "process 2 has a timer"})).state is VerdictState.UNKNOWN


def test_the_kernel_s_clock_says_since_when_a_thread_waits() -> None:
    world = World()
    world.process(1)
    lock = world.lock(0x10)
    for tid, last_ran in ((11, 3 * SECOND), (12, None)):
        thread = Thread(
            id=f"thread:box/1/{tid}",
            process="process:box/1",
            tid=tid,
            state=ThreadState.WAITING,
            syscall="futex",
            waits_in="pthread_mutex_lock",
            cpu_ns=0,
            last_ran_mono_ns=last_ran,
        )
        world.threads[thread.id] = thread
        world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    began = world.now_ns
    world.edge(EdgeKind.WAITS_FOR, "thread:box/1/11", lock)
    activity = world.later().snapshot().activity
    assert activity["thread:box/1/11"].waiting_since_mono_ns == 3 * SECOND
    assert activity["thread:box/1/12"].waiting_since_mono_ns == began


def napper(cpu_ns: int, *, joined: bool, looks: int = 20, waits_in: str = "sleep 0.01 s") -> World:
    """A thread that sleeps 30 times between two samples; with `joined`, a helper that the main thread waits for."""
    world = World()
    world.process(1)
    tid = 2 if joined else 1
    if joined:
        world.thread(1, "main", waits_in="pthread_join", timed=False)
    for look in range(looks):
        done = {"cpu_ns": look * cpu_ns, "switches": look * 30}
        world.thread(tid, "naps", waits_in=waits_in, timed=True, **done)
        world.later()
    if joined:
        world.waits("thread:box/1/1", "thread:box/1/2")
    return world


@pytest.mark.invariant("liveness.L6")
@pytest.mark.parametrize("joined", [False, True])
def test_L6_a_thread_that_only_naps_is_no_progress_and_no_stall(joined: bool) -> None:
    verdict = napper(2_000_000, joined=joined).diagnosis().verdict
    assert verdict.state is VerdictState.UNKNOWN
    assert "wakes about 95 times a second for a moment and sleeps again" in verdict.sentence
    assert napper(30_000_000, joined=joined).diagnosis().verdict.state is VerdictState.RUNNING  # it works between
    assert napper(2_000_000, joined=joined, looks=1).diagnosis().verdict.state is not VerdictState.STALLED
    polled = napper(2_000_000, joined=False, waits_in="poll of 1 descriptor").diagnosis().verdict
    assert polled.state is VerdictState.RUNNING  # what comes may be handled
