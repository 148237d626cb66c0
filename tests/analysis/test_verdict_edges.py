"""Edges of the verdict: which of several findings, threads and processes it names, and from which time on."""

from __future__ import annotations

import pytest

from livedbg.analysis import Verdict, VerdictState
from livedbg.model import EdgeKind, ThreadState
from tests.analysis.test_verdicts import holder
from tests.analysis.world import SECOND, World


def verdict(world: World) -> Verdict:
    return world.diagnosis().verdict


def busy(**used_s: float) -> World:
    """Threads that have used so many seconds of CPU time in ten; t1 is the main thread."""
    world = World()
    world.process(1)
    for after in (0, 10):
        world.now_ns += after * SECOND
        for name, seconds in used_s.items():
            cpu_ns = int(seconds * SECOND) if after else 0
            world.thread(int(name[1:]), name, waits_in="sleep 1 s", timed=True, cpu_ns=cpu_ns)
    return world


def test_the_busiest_thread_is_named_with_how_many_others_were_busy() -> None:
    sentence = verdict(busy(t1=2, t2=5, t3=0)).sentence
    assert sentence.startswith(
        "Running: 2 of 3 threads used CPU time while watched, most thread 2 (t2) (50% of a core)"
    )


@pytest.mark.parametrize(("used_s", "share"), [(0.05, " (0% of a core)"), (0.049, ""), (0.06, " (1% of a core)")])
def test_a_share_of_a_core_is_given_from_half_a_percent_on(used_s: float, share: str) -> None:
    assert f"most thread 1 (t1){share}. " in verdict(busy(t1=used_s)).sentence


def test_how_long_was_watched_is_counted_from_the_first_thread_that_was_seen() -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="poll of 2 descriptors")
    world.later(3 * SECOND)
    world.thread(2, "late", waits_in="sem_wait")
    assert "No thread used CPU time in 4.0 s of watching" in verdict(world.later(SECOND)).sentence


def test_the_busiest_of_those_that_only_tick_is_named() -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sem_wait")
    for after, used in ((0, 0), (20, 1)):
        world.now_ns += after * SECOND
        for tid in (2, 3, 4):
            cpu_ns = used * (tid if tid != 4 else 1) * SECOND // 100
            world.thread(tid, waits_in="sleep 1 s", timed=True, cpu_ns=cpu_ns)
    assert "Only helper threads that tick used CPU time in 20 s of watching (thread 3)" in verdict(world).sentence


def test_the_three_commonest_waits_are_shown() -> None:
    world = World()
    world.process(1)
    waits = ["sem_wait", "poll", "poll", "poll", "read", "read", "futex wait", "futex wait"]
    for tid, waits_in in enumerate(waits, 1):
        world.thread(tid, waits_in=waits_in)
    assert "(3 in poll, 2 in read, 2 in futex wait)" in verdict(world.later()).sentence


@pytest.mark.parametrize(("wait_s", "said"), [(9.9, False), (10, True)])
def test_a_long_wait_of_a_main_thread_is_said_from_the_threshold_on(wait_s: float, said: bool) -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sem_wait")
    assert ("Main thread 1 (main) has been in sem_wait" in verdict(world.later(int(wait_s * SECOND))).sentence) == said


def test_a_long_wait_is_said_also_if_another_main_thread_has_a_time_limit() -> None:
    world = World()
    for pid, timed in ((1, True), (2, False)):
        world.process(pid)
        world.thread(pid, f"main{pid}", pid=pid, waits_in="sem_wait", timed=timed)
    assert "Main thread 2 (main2) has been in sem_wait for 20 s or more" in verdict(world.later(20 * SECOND)).sentence


def shell(*targets: bool) -> World:
    """A shell that waits for children, which sleep; those that are no targets are not watched."""
    world = World()
    world.process(1)
    me = world.thread(1, "sh", waits_in="waitpid of any child")
    for pid, target in enumerate(targets, 2):
        world.process(pid, ppid=1, target=target)
        world.thread(pid, pid=pid, waits_in="sleep 100 s", timed=True)
    world.waits(me, *(f"process:box/{pid}" for pid in range(2, 2 + len(targets))))
    return world.later(20 * SECOND)


@pytest.mark.parametrize(
    ("targets", "state"),
    [((True,), VerdictState.RUNNING), ((True, True), VerdictState.RUNNING), ((True, False), VerdictState.UNKNOWN)],
)
def test_a_shell_is_idle_only_if_all_its_children_are_watched_and_asleep(
    targets: tuple[bool, ...], state: VerdictState
) -> None:
    found = verdict(shell(*targets))
    assert found.state is state
    assert ("and thread 1 (sh) waits for its end" in found.sentence) == (state is VerdictState.RUNNING)


def test_of_two_findings_alike_the_one_with_more_behind_it_comes_first() -> None:
    world = holder("read of socket 3", 0)
    world.holds(world.lock(0x20), world.thread(21, "hub", waits_in="read of socket 4"))
    for tid in (22, 23):
        world.waits(world.thread(tid), "mutex:box/1/0x20")
    found = verdict(world.later(20 * SECOND))
    assert found.sentence.startswith("Thread 21 (hub) holds ")
    assert found.roots == ("thread:box/1/21", "thread:box/1/11")


@pytest.mark.parametrize(
    ("statuses", "state", "words"),
    [
        ((0,), VerdictState.EXITED, "Process 1 (prog1) ended with status 0."),
        ((0, 0), VerdictState.EXITED, "Process 1 (prog1) and 1 other ended with status 0."),
        ((0, None), VerdictState.UNKNOWN, "Process 2 (prog2) has ended; its exit status is not known"),
        ((None, 0), VerdictState.UNKNOWN, "Process 1 (prog1) has ended; its exit status is not known"),
    ],
)
def test_all_have_exited_only_if_each_status_is_known(
    statuses: tuple[int | None, ...], state: VerdictState, words: str
) -> None:
    world = World()
    for pid in range(1, len(statuses) + 1):
        world.process(pid)
    for pid, status in enumerate(statuses, 1):
        world.exits(f"process:box/{pid}", status)
    found = verdict(world)
    assert found.state is state
    assert found.sentence.startswith(words)


def test_a_part_of_something_does_not_wait_for_it() -> None:
    world = World()
    world.process(1)
    whole, inner = world.lock(0x30, "pylock"), world.lock(0x31, "sem")
    world.edge(EdgeKind.PART_OF, inner, whole)
    world.waits(world.thread(11), inner)
    world.holds(whole, world.thread(12, state=ThreadState.WAITING, waits_in="read"))
    assert inner in world.later(20 * SECOND).diagnosis().graph.blockers_of("thread:box/1/11")
    assert not list(world.diagnosis().graph.blockers_of(inner))
