"""Closed sets of processes, and the verdict on them: each case by a state that is built by hand."""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from livedbg.analysis.closed import closed_sets
from livedbg.model import (
    UNSEEN_RUNTIME,
    Frame,
    Process,
    Severity,
    SourceHealth,
    SourceStatus,
    Stack,
    Thread,
    ThreadState,
)
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

ONE, TWO = "process:box/1", "process:box/2"


def asleep(
    woken: str | None = "", *, threads: int = 2, wait_s: int = 20, target: bool = True, **second: object
) -> World:
    """A main thread that joins another one, whose wait is `second`; nothing else could wake them."""
    world = World()
    world.process(1, threads=threads, outside=woken, target=target)
    world.thread(1, "main", waits_in="pthread_join", timed=False, wakers=(ONE,))
    what: dict[str, object] = {"waits_in": "sem_wait", "timed": False, "wakers": (ONE,), **second}
    world.thread(2, "worker", **what)  # type: ignore[arg-type]
    return world.later(wait_s * SECOND)


def test_a_process_that_nothing_can_wake_is_stalled_whatever_it_waits_for() -> None:
    world = asleep()
    verdict, found = world.diagnosis().verdict, world.found("no-waker")
    assert verdict.state is VerdictState.STALLED
    assert verdict.sentence == (
        "Main thread 1 (main) is blocked in pthread_join() for 20 s or more; nothing can wake it or the other thread."
    )
    assert verdict.roots == ("thread:box/1/1",)
    assert verdict.since_wall_ns == 10**18 + 100 * SECOND
    assert found.entities == ("thread:box/1/1", "thread:box/1/2")
    assert found.severity is Severity.ERROR and not found.inferred
    assert [proof.source for proof in found.evidence] == ["/proc/1", "/proc/1/task/1", "/proc/1/task/2"]
    assert "no signal is waited for, and none handled" in found.evidence[0].text


@pytest.mark.parametrize("others", [(), ("idle",)])
def test_the_thread_that_a_main_thread_joins_is_named_first(others: tuple[str, ...]) -> None:
    world = asleep(threads=2 + len(others))
    world.waits("thread:box/1/1", "thread:box/1/2")
    for number, name in enumerate(others, 3):
        world.thread(number, name, waits_in="sem_wait", timed=False, wakers=(ONE,))
    verdict = world.later(20 * SECOND).diagnosis().verdict
    assert verdict.sentence == (
        f"Thread 2 (worker) is blocked in sem_wait() for {20 if others else 40} s or more; main thread waits for it; "
        "nothing can wake them."
    )
    assert verdict.roots == ("thread:box/1/2",)


@pytest.mark.parametrize(
    ("lock", "places", "said"),
    [
        (
            "pylock",
            ("/app/cache.py", "/app/cache.py"),
            "Thread 2 (worker) and 1 other are blocked in futex wait in lookup (cache.py:51), "
            "main thread in pthread_join() in run (run.py:51); nothing can wake them.",
        ),
        (
            "pylock",
            ("/app/cache.py", "/app/other.py"),
            "Thread 2 (worker) is blocked in futex wait in lookup (cache.py:51), "
            "main thread in pthread_join() in run (run.py:51); nothing can wake them.",
        ),
        ("pylock", ("/usr/lib/python3.12/queue.py",) * 2, "Main thread 1 (main) is blocked in pthread_join() in run"),
        ("cond", ("/app/cache.py", "/app/cache.py"), "Main thread 1 (main) is blocked in pthread_join() in run"),
    ],
)
def test_threads_at_a_lock_that_nobody_holds_are_named_before_a_main_thread_that_waits_for_work(
    lock: str, places: tuple[str, str], said: str
) -> None:
    world = asleep(threads=3, waits_in="futex wait")
    world.thread(3, "further", waits_in="futex wait", timed=False, wakers=(ONE,))
    of_python(world, "thread:box/1/1", "run", "/app/run.py")
    for number, place in enumerate(places, 2):
        world.waits(f"thread:box/1/{number}", world.lock(0x10, lock))
        of_python(world, f"thread:box/1/{number}", "lookup", place)
    verdict = world.later(20 * SECOND).diagnosis().verdict
    assert verdict.state is VerdictState.STALLED
    assert verdict.sentence.startswith(said)
    assert verdict.roots == (f"thread:box/1/{1 if said.startswith('Main') else 2}",)


def of_python(world: World, thread: str, function: str, file: str) -> None:
    frames = (Frame(function=function, file=file, line=51, language="python"),)
    stack = Stack(thread=thread, frames=frames, taken_mono_ns=world.now_ns, source="py-spy", layer="python")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (
            "/usr/lib/python3.12/multiprocessing/connection.py",
            "Main thread 1 (main) is blocked in waitpid of 2 in merge (merge.py:51) for 20 s or more",
        ),
        (
            "/app/merge.py",
            "Thread 3 (feeder) is blocked in write to pipe 4 in send (merge.py:51) for 20 s or more",
        ),
    ],
)
def test_who_waits_for_the_end_of_a_child_waits_for_what_that_one_waits_for(place: str, said: str) -> None:
    world = World()
    both = (ONE, TWO)
    world.process(1, threads=1, outside="")
    world.process(2, threads=2, outside="", ppid=1)
    main = world.thread(1, "main", waits_in="waitpid of 2", timed=False, wakers=(TWO,))
    child = world.thread(2, "child", pid=2, waits_in="sem_wait", timed=False, wakers=(TWO,))
    feeder = world.thread(3, "feeder", pid=2, waits_in="write to pipe 4", timed=False, wakers=both)
    world.waits(main, TWO)
    world.waits(child, feeder)
    of_python(world, main, "merge", "/app/merge.py")
    of_python(world, feeder, "send", place)
    verdict = world.later(20 * SECOND).diagnosis().verdict
    assert verdict.state is VerdictState.STALLED
    assert verdict.sentence.startswith(said) and "nothing can wake these 2 processes" in verdict.sentence


@pytest.mark.invariant("closed.C1")
@pytest.mark.invariant("closed.C2")
@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (asleep("handles SIGTERM"), "process 1 (prog1) handles SIGTERM"),
        (asleep(threads=3), "not all threads of process 1 (prog1) can be seen"),
        (asleep(state=ThreadState.RUNNING), "thread 2 (worker) may go on by itself"),
        (asleep(state=ThreadState.DISK), "thread 2 (worker) may go on by itself"),
        (asleep(state=ThreadState.TRACED), "thread 2 (worker) may go on by itself"),
        (asleep(timed=True), "thread 2 (worker) may go on by itself"),
        (asleep(timed=None), "thread 2 (worker) may be woken from outside (what could end its wait is not known)"),
        (asleep(wakers=()), "thread 2 (worker) may be woken from outside (what could end its wait is not known)"),
        (asleep(outside="a signal"), "thread 2 (worker) may be woken from outside (a signal)"),
        (asleep(wakers=(ONE, TWO)), "process 2 could wake process 1 (prog1)"),
    ],
)
def test_C1_C2_anything_else_leaves_it_open_and_is_named(world: World, reason: str) -> None:
    closed = closed_sets(world.snapshot())
    assert closed.sets == []
    assert closed.open_because == {ONE: reason}
    verdict = world.diagnosis().verdict
    assert verdict.state in (VerdictState.UNKNOWN, VerdictState.RUNNING)
    assert verdict.state is VerdictState.RUNNING or reason[1:] in verdict.sentence


def test_what_was_not_looked_at_is_neither_closed_nor_open() -> None:
    closed = closed_sets(asleep(None).snapshot())
    assert not closed.sets and not closed.open_because


def test_an_ended_main_thread_wakes_nobody_and_the_first_other_one_is_named() -> None:
    world = asleep()
    world.thread(1, "main", state=ThreadState.ZOMBIE, waits_in=None)
    assert closed_sets(world.snapshot()).sets[0].threads[0].tid == 2
    assert (
        world.later(20 * SECOND).diagnosis().verdict.sentence.startswith("Thread 2 (worker) is blocked in sem_wait()")
    )


def test_a_runtime_that_can_t_be_seen_is_never_closed() -> None:
    world = asleep()
    status = SourceStatus(
        source="proc", target=ONE, health=SourceHealth.DEGRADED, code=UNSEEN_RUNTIME, sentence="A JVM.", remedy="jcmd 1"
    )
    world.store.apply(ev.StatusSeen(status=status, **world.stamp()))
    assert world.diagnosis().verdict.state is VerdictState.UNKNOWN


@pytest.mark.parametrize(("wait_s", "stalled"), [(9, False), (10, True)])
def test_it_is_a_stall_from_the_threshold_on(wait_s: int, stalled: bool) -> None:
    assert (asleep(wait_s=wait_s).finding("no-waker") is not None) == stalled


def test_one_look_proves_nothing() -> None:
    world = World()
    world.process(1, threads=1, outside="")
    thread = Thread(
        id="thread:box/1/1",
        process=ONE,
        tid=1,
        state=ThreadState.WAITING,
        syscall="futex",
        timed=False,
        wakers=(ONE,),
        last_ran_mono_ns=SECOND,
    )
    world.threads[thread.id] = thread
    world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    assert closed_sets(world.snapshot()).sets[0].waited_ns > 20 * SECOND
    assert world.finding("no-waker") is None
    assert world.later().finding("no-waker") is not None


def two(second: str | None = "", *, wakers: tuple[str, ...] = (ONE,), target: bool = True) -> World:
    """Process 1 waits for process 2, a child of it, and this for `wakers`."""
    world = World()
    world.process(1, threads=1, outside="", target=target)
    world.process(2, threads=1, outside=second, target=target)
    world.thread(1, "parent", waits_in="waitpid of 2", timed=False, wakers=(TWO,))
    world.thread(2, "child", pid=2, waits_in="read of pipe 3", timed=False, wakers=wakers)
    return world.later(20 * SECOND)


def test_processes_that_only_each_other_could_wake_are_one_closed_set() -> None:
    assert two().diagnosis().verdict.sentence == (
        "Main thread 1 (parent) is blocked in waitpid of 2 for 20 s or more; nothing can wake these 2 processes."
    )
    assert two().diagnosis().verdict.roots == ("thread:box/1/1", "thread:box/2/2")


def test_a_process_is_open_if_what_could_wake_it_is() -> None:
    for world in (two("has a timer"), two(None), two(wakers=(ONE, "process:box/3"))):
        assert closed_sets(world.snapshot()).sets == []
        assert "process 2 (prog2) could wake process 1 (prog1)" in closed_sets(world.snapshot()).open_because.values()


def test_what_is_stuck_in_itself_is_so_whoever_waits_for_it() -> None:
    world = two(wakers=(TWO,))
    world.process(1, threads=1, outside="handles SIGCHLD")
    [found] = closed_sets(world.later().snapshot()).sets
    assert [process.pid for process in found.processes] == [2]


def test_processes_that_have_nothing_to_do_with_each_other_are_sets_of_their_own() -> None:
    world = two(wakers=(TWO,))
    world.thread(1, "parent", timed=False, wakers=(ONE,))
    assert [[p.pid for p in found.processes] for found in closed_sets(world.later().snapshot()).sets] == [[1], [2]]


def test_a_set_without_a_target_is_not_reported() -> None:
    assert two(target=False).finding("no-waker") is None


def test_a_deadlock_is_reported_as_that_alone() -> None:
    world = asleep()
    world.waits("thread:box/1/1", "thread:box/1/2")
    world.waits("thread:box/1/2", "thread:box/1/1")
    assert world.diagnosis().verdict.state is VerdictState.DEADLOCK
    assert world.finding("no-waker") is None


def test_of_many_sets_those_after_the_first_are_one_finding() -> None:
    world = World()
    for pid in range(1, 21):
        world.process(pid, threads=1, outside="")
        world.thread(pid, pid=pid, timed=False, wakers=(f"process:box/{pid}",))
    found = [f for f in world.later(20 * SECOND).diagnosis().findings.values() if f.rule == "no-waker"]
    assert len(found) == 17
    assert found[-1].sentence == "Nothing can wake 4 more processes."


@pytest.mark.parametrize("works", [True, False])
def test_a_parent_whose_child_makes_progress_may_only_wait_for_ctrl_c(works: bool) -> None:
    world = asleep()
    world.process(3, ppid=1)
    world.thread(3, "child", pid=3, waits_in="sleep 1 s", timed=True)
    world.later(SECOND)
    world.thread(3, "child", pid=3, waits_in="sleep 1 s", timed=True, cpu_ns=SECOND if works else 0)
    world.later(SECOND)
    found = world.found("no-waker")
    assert (found.severity, found.state) == ((Severity.INFO, None) if works else (Severity.ERROR, VerdictState.STALLED))
    assert ("a child, makes progress" in found.sentence) == works
    assert (world.diagnosis().verdict.state is VerdictState.UNKNOWN) == works  # a child may work on, whatever hangs


def test_what_the_user_named_comes_first_in_a_closed_set_then_other_targets_by_number() -> None:
    world = World()
    for pid, named, target in ((1, False, False), (2, False, True), (3, False, True), (4, True, True)):
        process = Process(
            id=f"process:box/{pid}", host="box", pid=pid, named=named, target=target, thread_count=1, outside=""
        )
        world.store.apply(ev.ProcessSeen(process=process, **world.stamp()))
        world.thread(pid, pid=pid, timed=False, wakers=(f"process:box/{pid % 4 + 1}",))
    [found] = closed_sets(world.later().snapshot()).sets
    assert [process.pid for process in found.processes] == [4, 2, 3, 1]
    assert [thread.tid for thread in found.threads] == [4, 2, 3, 1]


def test_a_wait_of_which_it_is_not_known_how_long_it_has_lasted_counts_from_now_on() -> None:
    world = World()
    world.process(1, threads=1, outside="")
    thread = Thread(id="thread:box/1/1", process=ONE, tid=1, state=ThreadState.WAITING, timed=False, wakers=(ONE,))
    world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    world.threads[thread.id] = thread
    assert [found.waited_ns for found in closed_sets(world.later(60 * SECOND).snapshot()).sets] == [0]
    assert world.finding("no-waker") is None
