"""Siblings that wait at one line of a barrier while one or two don't come; and what looks like it and is healthy."""

from __future__ import annotations

import pytest

from livedbg.analysis import Finding, VerdictState
from livedbg.model import Frame, Stack, TaskState, ThreadState
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

RUN = "/home/me/train2.py"
FUTEX = Frame(function="__futex_abstimed_wait", module="libc.so.6")
BARRIER = (
    FUTEX,
    Frame(function="Condition.wait", file="/usr/lib/python3.11/threading.py", line=320, language="python"),
    Frame(function="Barrier.wait", file="/usr/lib/python3.11/threading.py", line=686, language="python"),
    Frame(function="run", file=RUN, line=11, language="python"),
)
OLD_BARRIER = (
    Frame(function="_wait", file="/usr/lib/python3.10/threading.py", line=669, language="python"),
    Frame(function="wait", file="/usr/lib/python3.10/threading.py", line=650, language="python"),
    Frame(function="run", file=RUN, line=11, language="python"),
)
OTHER = (*BARRIER[:-1], Frame(function="save", file=RUN, line=30, language="python"))
ASLEEP = (FUTEX, Frame(function="run", file=RUN, line=10, language="python"))
QUEUE = (
    Frame(function="Queue.get", file="/usr/lib/python3.11/multiprocessing/queues.py", line=103, language="python"),
    Frame(function="run", file=RUN, line=12, language="python"),
)
ACCEPT = (
    Frame(function="accept", module="libc.so.6"),
    Frame(function="serve()", module="server", file="/src/s.cpp", line=9),
)
POOL = (
    Frame(function="pthread_cond_wait", module="libc.so.6"),
    Frame(function="Pool::worker()", module="server", file="/src/p.cpp", line=9),
)
BUSY = (
    Frame(function="read", module="libc.so.6"),
    Frame(function="handle()", module="server", file="/src/h.cpp", line=3),
    Frame(function="Pool::worker()", module="server", file="/src/p.cpp", line=12),
)


def stacked(world: World, thread: str, frames: tuple[Frame, ...]) -> None:
    stack = Stack(thread=thread, frames=frames, taken_mono_ns=world.now_ns, source="test")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))


def family(
    *stacks: tuple[Frame, ...], ppid: int = 1, wait_s: int = 20, odd: ThreadState = ThreadState.WAITING
) -> World:
    """Processes of one parent and program; the last of them in the state `odd`."""
    world = World()
    for number, frames in enumerate(stacks):
        world.process(2110 + number, ppid=ppid, exe="/usr/bin/python3.11")
        last = number == len(stacks) - 1
        state = odd if last else ThreadState.WAITING
        thread = world.thread(2110 + number, "python", pid=2110 + number, waits_in="sem_wait", state=state)
        stacked(world, thread, frames)
    return world.later(wait_s * SECOND)


def found(world: World) -> Finding | None:
    return world.finding("odd-one-out")


@pytest.mark.invariant("odd_one_out.O1")
@pytest.mark.parametrize("barrier", [BARRIER, OLD_BARRIER])
def test_the_process_that_does_not_come_to_a_barrier_is_named_with_both_lines(barrier: tuple[Frame, ...]) -> None:
    world = family(barrier, barrier, barrier, ASLEEP)
    finding = found(world)
    assert finding is not None
    assert finding.inferred
    assert finding.sentence == (
        "3 of 4 processes wait in Barrier.wait (train2.py:11) for 20 s or more; "
        "process 2113 does not come: sem_wait() in run (train2.py:10)."
    )
    assert finding.roots == ("thread:box/2113/2113",)
    verdict = world.diagnosis().verdict
    assert (verdict.state, verdict.sentence) == (VerdictState.UNKNOWN, finding.sentence)
    assert len(verdict.sentence.split()) <= 25


def test_of_processes_that_nothing_can_wake_the_one_that_does_not_come_is_named() -> None:
    world = World()
    pids = range(2110, 2114)
    family_of = tuple(f"process:box/{pid}" for pid in pids)
    for pid, frames in zip(pids, (BARRIER, BARRIER, BARRIER, QUEUE), strict=True):
        world.process(pid, ppid=1, exe="/usr/bin/python3.11", threads=1, outside="")
        thread = world.thread(pid, "python", pid=pid, waits_in="sem_wait", timed=False, wakers=family_of)
        stacked(world, thread, frames)
    diagnosis = world.later(20 * SECOND).diagnosis()
    verdict = diagnosis.verdict
    assert verdict.state is VerdictState.STALLED
    assert verdict.sentence == (
        "3 of 4 processes wait in Barrier.wait (train2.py:11) for 20 s or more; "
        "process 2113 does not come: Queue.get() in run (train2.py:12). Nothing can wake them."
    )
    assert verdict.roots[0] == "thread:box/2113/2113" and len(verdict.roots) == 4
    assert diagnosis.chief is not None and diagnosis.chief.rule == "odd-one-out"
    assert {"no-waker", "odd-one-out"} <= {finding.rule for finding in diagnosis.findings.values()}


def test_one_that_does_not_come_elsewhere_is_not_named_for_those_that_nothing_can_wake() -> None:
    world = family(BARRIER, BARRIER, BARRIER, ASLEEP)
    world.process(9, threads=1, outside="")
    world.thread(9, pid=9, waits_in="sem_wait", timed=False, wakers=("process:box/9",))
    verdict = world.later(20 * SECOND).diagnosis().verdict
    assert verdict.state is VerdictState.STALLED
    assert verdict.sentence == "Main thread 9 is blocked in sem_wait() for 20 s or more; nothing can wake it."


def test_two_may_be_missing_but_not_as_many_as_wait() -> None:
    two = found(family(BARRIER, BARRIER, BARRIER, ASLEEP, ASLEEP))
    assert two is not None
    assert "3 of 5 processes" in two.sentence
    assert "process 2113 and process 2114 do not come" in two.sentence
    assert found(family(BARRIER, BARRIER, ASLEEP, ASLEEP)) is None
    assert found(family(BARRIER, ASLEEP)) is None
    assert found(family(BARRIER, BARRIER, BARRIER)) is None


def test_three_may_not_be_missing() -> None:
    assert found(family(*[BARRIER] * 5, *[ASLEEP] * 3)) is None


@pytest.mark.parametrize("stacks", [(OTHER, BARRIER, BARRIER, BARRIER), (BARRIER, BARRIER, BARRIER, OTHER)])
def test_who_waits_at_another_barrier_is_the_odd_one(stacks: tuple[tuple[Frame, ...], ...]) -> None:
    finding = found(family(*stacks))
    assert finding is not None
    assert finding.roots == (f"thread:box/{2110 + stacks.index(OTHER)}/{2110 + stacks.index(OTHER)}",)
    assert "3 of 4 processes wait in Barrier.wait (train2.py:11)" in finding.sentence


@pytest.mark.invariant("odd_one_out.O2")
@pytest.mark.parametrize("idle", [QUEUE, ACCEPT, POOL, ASLEEP])
def test_workers_that_wait_for_work_beside_one_that_works_are_healthy(idle: tuple[Frame, ...]) -> None:
    assert found(family(idle, idle, idle, BUSY)) is None


@pytest.mark.invariant("odd_one_out.O2")
def test_a_pool_of_threads_with_one_at_work_is_healthy() -> None:
    world = World()
    world.process(1)
    for number in range(8):
        stacked(world, world.thread(10 + number, "pool", waits_in="pthread_cond_wait"), BUSY if not number else POOL)
    assert found(world.later(20 * SECOND)) is None


def test_threads_are_siblings_if_they_began_in_one_function() -> None:
    world = World()
    world.process(1)
    enter = Frame(function="worker()", module="solver", file="/src/solver.cpp", line=5)
    meet = Frame(function="___pthread_barrier_wait", module="libc.so.6")
    step = Frame(function="step()", module="solver", file="/src/solver.cpp", line=40)
    read = Frame(function="load()", module="solver", file="/src/solver.cpp", line=70)
    for tid in (11, 12, 13):
        stacked(world, world.thread(tid, f"w{tid}", waits_in="pthread_barrier_wait"), (FUTEX, meet, step, enter))
    stacked(world, world.thread(14, "w14", waits_in="read of socket 3"), (read, enter))
    stacked(world, world.thread(15, "log", waits_in="pthread_cond_wait"), POOL)
    finding = found(world.later(20 * SECOND))
    assert finding is not None
    assert finding.sentence == (
        "3 of 4 threads wait in pthread_barrier_wait (solver.cpp:40) for 20 s or more; "
        "thread 14 (w14) does not come: read of socket 3 in load (solver.cpp:70)."
    )


@pytest.mark.invariant("odd_one_out.O3")
@pytest.mark.parametrize("frames", [(), (FUTEX,)])
def test_one_that_is_blocked_in_an_unknown_place_may_have_come(frames: tuple[Frame, ...]) -> None:
    assert found(family(BARRIER, BARRIER, BARRIER, frames)) is None
    assert found(family(BARRIER, BARRIER, BARRIER, frames, odd=ThreadState.RUNNING)) is not None


@pytest.mark.invariant("odd_one_out.O3")
def test_while_one_has_come_only_now_nobody_is_named() -> None:
    """The fourth of five has come, and the fifth not yet."""
    world = family(BARRIER, BARRIER, BARRIER, wait_s=5)
    for pid, frames in ((2113, BARRIER), (2114, ASLEEP)):
        world.process(pid, ppid=1, exe="/usr/bin/python3.11")
        stacked(world, world.thread(pid, "python", pid=pid, waits_in="sem_wait"), frames)
    assert found(world.later(6 * SECOND)) is None
    finding = found(world.later(6 * SECOND))
    assert finding is not None
    assert "4 of 5 processes" in finding.sentence and "process 2114 does not come" in finding.sentence


def test_a_step_that_takes_less_than_the_threshold_is_no_finding() -> None:
    assert found(family(BARRIER, BARRIER, BARRIER, ASLEEP, wait_s=9)) is None
    assert found(family(BARRIER, BARRIER, BARRIER, ASLEEP, wait_s=10)) is not None


def test_processes_of_other_parents_or_programs_are_no_siblings() -> None:
    world = family(BARRIER, BARRIER, BARRIER)
    for pid, ppid, exe in ((2120, 9, "/usr/bin/python3.11"), (2121, 1, "/usr/bin/bash")):
        world.process(pid, ppid=ppid, exe=exe)
        stacked(world, world.thread(pid, pid=pid), ASLEEP)
    assert found(world.later()) is None


@pytest.mark.parametrize(
    ("ranks", "helper"),
    [
        (
            ("python3", "-B", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle={})"),
            ("python3", "-B", "-c", "from multiprocessing.resource_tracker import main;main(5)"),
        ),
        (("python3", "-u", "train.py", "--rank", "{}"), ("python3", "-u", "-m", "logger")),
        (("python3", "-m", "worker{}"), ("python3", "-m", "tracker")),
    ],
)
def test_a_helper_that_another_command_started_is_no_sibling(ranks: tuple[str, ...], helper: tuple[str, ...]) -> None:
    world = World()
    for pid, frames in zip(range(2110, 2114), (BARRIER, BARRIER, BARRIER, ASLEEP), strict=True):
        world.process(pid, ppid=1, exe="/bin/python3", command=tuple(word.format(pid) for word in ranks))
        stacked(world, world.thread(pid, pid=pid, waits_in="sem_wait"), frames)
    world.process(2109, ppid=1, exe="/bin/python3", command=helper)
    stacked(world, world.thread(2109, pid=2109, waits_in="read of pipe 5"), ASLEEP)
    finding = found(world.later(20 * SECOND))
    assert finding is not None
    assert finding.sentence.startswith("3 of 4 processes wait in Barrier.wait (train2.py:11)")
    assert finding.roots == ("thread:box/2113/2113",)


def test_one_that_works_on_is_a_note() -> None:
    world = family(BARRIER, BARRIER, BARRIER, ASLEEP, odd=ThreadState.RUNNING)
    world.thread(2113, "python", pid=2113, state=ThreadState.RUNNING, cpu_ns=15 * SECOND, switches=900)
    finding = found(world.later())
    assert finding is not None
    assert finding.state is None
    assert "process 2113 does not come: it runs in run (train2.py:10)." in finding.sentence
    assert world.diagnosis().verdict.state is VerdictState.UNKNOWN  # three main threads are blocked for the threshold


def test_the_sentence_stays_the_same_from_sample_to_sample() -> None:
    said = set()
    for order in ((BARRIER, BARRIER, BARRIER, ASLEEP), (BARRIER, BARRIER, BARRIER, ASLEEP)):
        world = family(*order)
        for _ in range(3):
            stacked(world, "thread:box/2110/2110", BARRIER)
            said.add((found(world) or pytest.fail("no finding")).sentence)
    assert len(said) == 1


@pytest.mark.invariant("odd_one_out.O4")
@pytest.mark.parametrize(("system", "said"), [("pytorch", False), ("toy", True)])
def test_O4_who_waits_for_a_task_of_a_system_with_rules_of_its_own_is_left_to_these(system: str, said: bool) -> None:
    world = family(BARRIER, BARRIER, BARRIER, ASLEEP)
    task = world.task("all_reduce", TaskState.RUNNING, None, system=system)
    for pid in (2110, 2111):
        world.waits(f"thread:box/{pid}/{pid}", task)
    assert (found(world) is not None) is said
