"""What is progress and what is idle, and what only looks like it."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.analysis import Verdict, VerdictState
from livedbg.analysis.behaviour import TICK_SHARE, awaits_children, family_threads
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import (
    POLLS,
    UNSEEN_RUNTIME,
    EdgeKind,
    Frame,
    LoopWay,
    Process,
    SourceHealth,
    SourceStatus,
    Stack,
    TaskState,
    ThreadState,
)
from livedbg.model import events as ev
from livedbg.model.entities import Thread
from livedbg.model.facts import LockFacts, SocketFacts
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
    world.thread(tid, "helper", waits_in="read of /data", cpu_ns=0)
    world.now_ns += watched_ns - SECOND
    world.thread(
        tid,
        "helper",
        waits_in="read of /data",
        cpu_ns=int(watched_ns * share),
        queued_ns=int(watched_ns * queued),
    )
    return world.later(SECOND)


def test_a_family_has_grandchildren_and_nobody_of_another_host() -> None:
    world = World()
    for pid, ppid in ((1, None), (2, 1), (3, 2), (4, 1)):
        world.process(pid, ppid=ppid)
        world.thread(pid * 10, pid=pid)
    world.store.apply(ev.ProcessSeen(process=Process(id="process:far/9", host="far", pid=9, ppid=1), **world.stamp()))
    far = Thread(id="thread:far/9/9", process="process:far/9", tid=9, state=ThreadState.WAITING)
    world.store.apply(ev.ThreadsSeen(threads=(far,), **world.stamp()))
    state = RuleInput(world.store.snapshot(), GraphKeeper().graph_of(world.store.snapshot()))
    process = state.snapshot.processes["process:box/1"]
    assert sorted(thread.tid for thread in family_threads(process, state)) == [10, 20, 30, 40]
    without = family_threads(process, state, without={"process:box/2"})
    assert sorted(thread.tid for thread in without) == [10, 40]


_LIBRARY = "/usr/lib/python3.11"


@pytest.mark.invariant("behaviour.L1")
@pytest.mark.parametrize(
    ("share", "state"),
    [(0.001, VerdictState.UNKNOWN), (TICK_SHARE * 0.9, VerdictState.UNKNOWN), (TICK_SHARE * 1.2, VerdictState.RUNNING)],
)
def test_L1_a_thread_that_ticks_is_no_progress(share: float, state: VerdictState) -> None:
    found = verdict(beside(share))
    assert found.state is state
    assert ("Only helper threads that tick" in found.sentence) == (state is VerdictState.UNKNOWN)


@pytest.mark.invariant("behaviour.L1")
@pytest.mark.parametrize(("queued", "state"), [(0.5, VerdictState.UNKNOWN), (0.9, VerdictState.RUNNING)])
def test_L1_time_that_a_thread_waited_for_a_cpu_is_left_out(queued: float, state: VerdictState) -> None:
    assert verdict(beside(0.015, queued=queued)).state is state  # 3 % and 15 % of the time that it did not wait


def test_a_hang_is_never_excluded_while_a_main_thread_waits_for_long() -> None:
    assert "No hang found" not in verdict(beside(0.9)).sentence
    assert "Main thread 1 (main) has been in sem_wait for 20 s or more" in verdict(beside(0.9)).sentence
    assert "No hang found" in verdict(beside(0.9, watched_ns=5 * SECOND)).sentence
    assert "no hang found" in verdict(beside(0.9, waits_in="sigwait (waits for a signal)")).sentence


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
    world.waits(helper, world.resource("socket:box/7", "listening", listening=True))
    if joins:
        world.waits(me, helper)
    return world.later(20 * SECOND)


@pytest.mark.invariant("behaviour.L2")
def test_L2_one_helper_thread_does_not_decide_that_a_process_is_idle() -> None:
    assert verdict(server("poll of 2 descriptors")).state is VerdictState.UNKNOWN
    assert verdict(server("pthread_join", joins=True)).state is VerdictState.RUNNING
    assert verdict(server("sigsuspend (waits for a signal)")).state is VerdictState.RUNNING
    assert verdict(server("epoll_wait of 1 descriptor", timed=True)).state is VerdictState.UNKNOWN


@pytest.mark.invariant("behaviour.L3")
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
    world = own_pipe(outside="process 1 handles SIGTERM")
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
    assert verdict(crossed(outside="process 2 has a timer")).state is VerdictState.UNKNOWN


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


@pytest.mark.invariant("behaviour.L6")
@pytest.mark.parametrize("joined", [False, True])
def test_L6_a_thread_that_only_naps_is_no_progress_and_no_stall(joined: bool) -> None:
    verdict = napper(2_000_000, joined=joined).diagnosis().verdict
    assert verdict.state is VerdictState.UNKNOWN
    assert "wakes about 95 times a second and sleeps again" in verdict.sentence
    assert napper(30_000_000, joined=joined).diagnosis().verdict.state is VerdictState.RUNNING  # it works between
    assert napper(2_000_000, joined=joined, looks=1).diagnosis().verdict.state is not VerdictState.STALLED
    for place in ("sem_timedwait", "pthread_cond_timedwait", "futex wait"):  # `join(0.01)`, `Event.wait(0.01)`
        waits = napper(2_000_000, joined=joined, waits_in=place)
        assert waits.diagnosis().verdict.state is VerdictState.UNKNOWN
        assert "a second and waits again" in waits.diagnosis().verdict.sentence
        assert napper(30_000_000, joined=joined, waits_in=place).diagnosis().verdict.state is VerdictState.RUNNING
    polled = napper(2_000_000, joined=False, waits_in="poll of 1 descriptor").diagnosis().verdict
    assert polled.state is VerdictState.RUNNING  # what comes may be handled


@pytest.mark.invariant("behaviour.L6")
def test_L6_one_wait_that_ran_out_is_no_progress_beside_a_hang() -> None:
    """A server of `multiprocessing.Manager` looks once a second whether to stop, whatever its threads wait for."""
    world = World()
    world.process(1)
    world.thread(2, "serves", waits_in="sem_wait", timed=False)
    for cpu_ns, runs in ((0, 0), (80_000, 1)):
        world.thread(1, "server", waits_in="sem_timedwait", timed=True, cpu_ns=cpu_ns, switches=runs)
        world.later(SECOND)
    found = verdict(world)
    assert found.state is VerdictState.UNKNOWN
    assert "thread 1 (server) wakes 1 time in 2 s and waits again" in found.sentence


@pytest.mark.invariant("behaviour.L6")
@pytest.mark.parametrize("hung", [True, False])
def test_L6_a_main_thread_that_sleeps_says_nothing_of_the_thread_it_looks_after(hung: bool) -> None:
    """`while worker.is_alive(): time.sleep(5)`."""
    world = World()
    world.process(1)
    if hung:
        world.thread(2, "worker", waits_in="sem_wait", timed=False)
    for cpu_ns, runs in ((0, 0), (80_000, 1)):
        world.thread(1, "main", waits_in="sleep 5 s", timed=True, cpu_ns=cpu_ns, switches=runs)
        world.later(SECOND)
    found = verdict(world)
    assert found.state is (VerdictState.UNKNOWN if hung else VerdictState.RUNNING)
    said = "Only threads that wake for a moment used CPU time" if hung else "Asleep: thread 1 (main) is in sleep 5 s"
    assert said in found.sentence


@pytest.mark.invariant("behaviour.L7")
@pytest.mark.parametrize(
    ("place", "timed", "cpu_ns", "waited_s", "state"),
    [
        ("sem_wait", False, 80_000, 20, VerdictState.UNKNOWN),
        ("sem_wait", False, 80_000, 5, VerdictState.RUNNING),  # not for long
        ("sem_timedwait", True, 80_000, 20, VerdictState.RUNNING),  # it looks itself
        ("sem_wait", False, 900_000, 20, VerdictState.RUNNING),  # what comes is handled
        ("sigwait (waits for a signal)", False, 80_000, 20, VerdictState.RUNNING),
    ],
)
def test_L7_an_event_loop_with_a_time_limit_says_nothing_of_the_thread_beside_it(
    place: str, timed: bool, cpu_ns: int, waited_s: int, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    world.thread(2, "worker", waits_in=place, timed=timed)
    for turn in range(3):
        world.thread(1, "main", waits_in="select of 1 descriptor", timed=True, cpu_ns=turn * cpu_ns, switches=turn)
        world.later(waited_s * SECOND // 3)
    assert verdict(world).state is state


@pytest.mark.invariant("behaviour.L7")
@pytest.mark.parametrize(
    ("function", "timed", "cpu_ns", "waited_s", "state"),
    [
        ("Barrier.wait", False, 10_000_000, 20, VerdictState.UNKNOWN),
        ("Barrier.wait", False, 10_000_000, 5, VerdictState.RUNNING),  # not for long
        ("Barrier.wait", True, 10_000_000, 20, VerdictState.RUNNING),  # it looks itself
        ("Barrier.wait", False, 900_000_000, 20, VerdictState.RUNNING),  # the loop has much to do
        ("Condition.wait", False, 10_000_000, 20, VerdictState.RUNNING),  # so waits a worker for work
    ],
)
def test_L7_an_event_loop_that_ticks_says_nothing_of_the_job_that_a_thread_of_another_process_is_held_up_in(
    function: str, timed: bool, cpu_ns: int, waited_s: int, state: VerdictState
) -> None:
    """A worker of dask: its event loop sends heartbeats, whatever the thread that it gave a job to does."""
    world = World()
    world.process(1)
    world.process(2, ppid=1)
    worker = world.thread(3, "worker", pid=2, waits_in="sem_wait", timed=timed)
    calls(world, worker, (function, f"{_LIBRARY}/threading.py"), ("job", "job.py"))
    for turn in range(3):
        world.thread(1, "main", waits_in="epoll_wait of 5 descriptors", timed=True, cpu_ns=turn * cpu_ns, switches=turn)
        world.later(waited_s * SECOND // 3)
    assert verdict(world).state is state


def listening(world: World, pid: int) -> str:
    """The main thread of a process that waits for connections."""
    world.process(pid)
    thread = world.thread(pid, f"server{pid}", pid=pid, waits_in="accept on *:80", timed=False)
    world.waits(thread, world.resource(f"socket:box/{pid}", "listening", listening=True))
    return thread


def calls(world: World, thread: str, *names: tuple[str, str]) -> None:
    """The stack of a thread of Python: functions and files."""
    frames = tuple(Frame(function=name, file=file, line=1, language="python") for name, file in names)
    stack = Stack(thread=thread, frames=frames, taken_mono_ns=world.now_ns, source="py-spy", layer="python")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))


@pytest.mark.invariant("behaviour.L8")
@pytest.mark.parametrize(
    ("call", "timed", "waited_s", "idle"),
    [
        (("Semaphore.acquire", f"{_LIBRARY}/threading.py"), False, 20, False),
        (("Barrier.wait", f"{_LIBRARY}/threading.py"), False, 20, False),
        (("Semaphore.acquire", f"{_LIBRARY}/threading.py"), False, 5, True),  # not for long
        (("Semaphore.acquire", f"{_LIBRARY}/threading.py"), True, 20, True),  # with a time limit
        (("Semaphore.acquire", "/app/pool.py"), False, 20, True),
        (("Queue.get", f"{_LIBRARY}/queue.py"), False, 20, True),  # a worker without a job
        (("Event.wait", f"{_LIBRARY}/threading.py"), False, 20, True),  # until it shall end
    ],
)
def test_L8_a_server_is_not_idle_while_a_thread_waits_for_a_semaphore(
    call: tuple[str, str], timed: bool, waited_s: int, idle: bool
) -> None:
    world = World()
    listening(world, 1)
    worker = world.thread(2, "worker", waits_in="sem_wait", timed=timed)
    calls(world, worker, ("Condition.wait", f"{_LIBRARY}/threading.py"), call, ("serve", "/app/server.py"))
    found = verdict(world.later(waited_s * SECOND))
    assert found.state is (VerdictState.RUNNING if idle else VerdictState.UNKNOWN)
    assert (
        "Idle: " if idle else f"Inconclusive: thread 2 (worker) has been in {call[0]} in serve (server.py:1) for 20 s"
    ) in found.sentence


@pytest.mark.invariant("behaviour.L8")
@pytest.mark.parametrize("kind", ["mutex", "rwlock", "pylock", "barrier"])
def test_L8_a_server_is_not_idle_while_a_thread_waits_for_a_lock(kind: str) -> None:
    world = World()
    listening(world, 1)
    world.waits(world.thread(2, "worker", waits_in="futex wait", timed=False), world.lock(0x10, kind))
    assert verdict(world.later(5 * SECOND)).state is VerdictState.RUNNING
    assert verdict(world.later(20 * SECOND)).state is VerdictState.UNKNOWN


@pytest.mark.invariant("behaviour.L8")
@pytest.mark.parametrize(
    ("function", "idle"),
    [
        ("absl::Mutex::LockSlow(absl::MuHow)", False),
        ("nsync::nsync_mu_lock_slow_", False),
        ("std::sync::mutex::futex::Mutex::lock_contended", False),
        ("Pool::take_job(Queue<std::mutex::lock>&)", True),
        ("Channel::block_until_news", True),
        ("spin::Lock::unlock_waiters", True),
        ("std::__atomic_semaphore::_M_acquire", True),  # of jobs, perhaps
    ],
)
def test_L8_a_server_is_not_idle_while_a_thread_waits_for_a_lock_of_its_own(function: str, idle: bool) -> None:
    world = World()
    listening(world, 1)
    worker = world.thread(2, "worker", waits_in="futex wait", timed=False)
    frames = (
        Frame(function="syscall", module="/lib/libc.so.6", line=None, language="native"),
        Frame(function=function, file="/app/lock.cpp", line=8, language="native", module="/app/serve"),
        Frame(function="serve", file="/app/serve.cpp", line=80, language="native", module="/app/serve"),
    )
    stack = Stack(thread=worker, frames=frames, taken_mono_ns=world.now_ns, source="livedbg", layer="native")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    assert verdict(world.later(20 * SECOND)).state is (VerdictState.RUNNING if idle else VerdictState.UNKNOWN)


@pytest.mark.invariant("behaviour.L8")
@pytest.mark.parametrize(
    ("contended", "function", "module", "idle"),
    [
        (True, "Slot::enter", "serve", False),
        (False, "Slot::enter", "serve", True),  # an event, perhaps
        (True, "rml::worker_sleeps", "libtbb.so.12", True),  # a library's worker (L20)
    ],
)
def test_L8_a_server_is_not_idle_while_a_thread_waits_for_a_word_that_is_contended(
    contended: bool, function: str, module: str, idle: bool
) -> None:
    world = World()
    listening(world, 1)
    worker = world.thread(2, "worker", waits_in="futex wait", timed=False)
    world.waits(worker, world.lock(0x10, "futex", facts=LockFacts(contended=True) if contended else None))
    frames = (
        Frame(function="syscall", module="libc.so.6", language="native"),
        Frame(function=function, module=module, language="native"),
        Frame(function="start_thread", module="libc.so.6", language="native"),
    )
    stack = Stack(thread=worker, frames=frames, taken_mono_ns=world.now_ns, source="livedbg", layer="native")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    assert verdict(world.later(20 * SECOND)).state is (VerdictState.RUNNING if idle else VerdictState.UNKNOWN)


@pytest.mark.invariant("behaviour.L2")
def test_L2_a_server_does_not_make_a_process_beside_it_idle() -> None:
    world = World()
    listening(world, 1)
    assert verdict(world.later(20 * SECOND)).sentence.startswith("Idle: thread 1 (server1) waits for connections")
    world.process(2)
    world.thread(2, "stuck", pid=2, waits_in="sem_wait", timed=False)
    found = verdict(world.later(20 * SECOND))
    assert found.state is VerdictState.UNKNOWN
    assert found.sentence.startswith(
        "Inconclusive: main thread 2 (stuck) has been in sem_wait for 20 s or more: idle or"
    )


def test_of_two_servers_the_first_is_named() -> None:
    world = World()
    listening(world, 1)
    listening(world, 2)
    found = verdict(world.later(20 * SECOND))
    assert found.sentence.startswith("Idle: thread 1 (server1) waits for connections")


def test_helpers_serve_for_one_main_thread_that_waits_for_a_signal() -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sigsuspend (waits for a signal)", timed=False)
    world.process(2)
    world.thread(2, "other", pid=2, waits_in="poll of 1 descriptor", timed=True)
    helper = world.thread(3, "acceptor", waits_in="accept on *:80", timed=False)
    world.waits(helper, world.resource("socket:box/7", "listening", listening=True))
    found = verdict(world.later(20 * SECOND))
    assert found.sentence.startswith("Idle: thread 3 (acceptor) waits for connections")


def test_workers_of_a_pool_that_all_wait_for_a_job_are_idle_and_one_that_works_is_not() -> None:
    world = World()
    frames = (
        Frame(function="recv", file="/usr/lib/python3.12/multiprocessing/connection.py", line=1, language="python"),
        Frame(function="worker", file="/usr/lib/python3.12/multiprocessing/pool.py", line=1, language="python"),
    )
    for pid in (1, 2):
        world.process(pid)
        thread = world.thread(pid, f"pool{pid}", pid=pid, waits_in="read of pipe 3", timed=False)
        stack = Stack(thread=thread, frames=frames, source="py-spy", taken_mono_ns=world.now_ns)
        world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    idle = verdict(world.later(20 * SECOND))
    assert idle.sentence.startswith("Idle: thread 1 (pool1) waits for a job (read of pipe 3)")
    world.process(3)
    world.thread(3, "other", pid=3, waits_in="read of pipe 4", timed=False)
    assert verdict(world.later(20 * SECOND)).state is VerdictState.UNKNOWN


@pytest.mark.parametrize(
    ("waits_in", "exited", "target", "main", "awaits"),
    [
        ("waitpid of any child", False, True, "alive", True),
        ("waitid of any child", False, True, "alive", True),
        ("sem_wait", False, True, "alive", False),
        (None, False, True, "alive", False),
        ("waitpid of any child", True, True, "alive", False),
        ("waitpid of any child", False, False, "alive", False),
        ("waitpid of any child", False, True, "over", False),
        ("waitpid of any child", False, True, "unknown", False),
    ],
)
def test_a_shell_waits_for_children_only_if_they_are_watched_and_alive(
    waits_in: str | None, exited: bool, target: bool, main: str, awaits: bool
) -> None:
    world = World()
    world.process(1)
    shell = world.thread(1, "sh", waits_in=waits_in, timed=False)
    child = world.process(2, ppid=1, target=target)
    if main != "unknown":
        thread = Thread(id="thread:box/2/2", process=child, tid=2, exited=main == "over")
        world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    world.waits(shell, child)
    if exited:
        world.exits(child, 0)
    snapshot = world.snapshot()
    state = RuleInput(snapshot, GraphKeeper().graph_of(snapshot))
    assert awaits_children(snapshot.threads[shell], state) is awaits


def test_a_shell_that_waits_for_nobody_awaits_no_children() -> None:
    world = World()
    shell = world.thread(1, "sh", waits_in="waitpid of any child", timed=False)
    snapshot = world.snapshot()
    assert not awaits_children(snapshot.threads[shell], RuleInput(snapshot, GraphKeeper().graph_of(snapshot)))


@pytest.mark.invariant("behaviour.L10")
@pytest.mark.parametrize(
    ("age_s", "state"),
    [(30, VerdictState.RUNNING), (1, VerdictState.UNKNOWN)],  # it dies at once, and is started again and again
)
def test_L10_a_child_that_began_after_the_wait_is_not_who_is_waited_for(age_s: int, state: VerdictState) -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="sem_wait", timed=False)
    world.waits(main, world.resource("sem:box/1/0x90"))
    helper = world.thread(3, "results", waits_in="poll of 1 descriptor", timed=False)
    pipe = world.resource("pipe:box/9")
    world.waits(helper, pipe)
    world.holds(pipe, world.process(2, ppid=1))
    world.later(20 * SECOND)
    began = world.stamp()["wall_ns"] - age_s * SECOND
    child = structs.replace(world.snapshot().processes["process:box/2"], start_wall_ns=began)
    world.store.apply(ev.ProcessSeen(process=child, **world.stamp()))
    for cpu_ns in (0, SECOND):
        world.thread(2, "worker", pid=2, state=ThreadState.RUNNING, cpu_ns=cpu_ns)
        world.later(SECOND // 2)
    found = verdict(world)
    assert found.state is state
    assert "main thread 1 (main) has been in sem_wait for" in found.sentence.lower()
    assert "No hang found" not in found.sentence


@pytest.mark.invariant("behaviour.L10")
@pytest.mark.parametrize(
    ("target", "waited_s", "state", "words"),
    [
        (False, 20, VerdictState.UNKNOWN, "main thread 1 (main) is in read of pipe 3"),
        (
            False,
            1,
            VerdictState.RUNNING,
            "thread 1 (main) waits in read of pipe 3 for thread 2 (feeder) of process 2, ",
        ),
        (True, 20, VerdictState.RUNNING, "1 of 2 threads used CPU time while watched, most thread 2 (feeder)"),
    ],
)
def test_L10_that_somebody_beside_the_job_is_busy_does_not_say_that_he_will_write(
    target: bool, waited_s: int, state: VerdictState, words: str
) -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="read of pipe 3", timed=False)
    pipe = world.resource("pipe:box/9")
    world.waits(main, pipe)
    world.holds(pipe, world.process(2, target=target))
    world.later(waited_s * SECOND)
    for cpu_ns in (0, SECOND // 2):
        world.thread(2, "feeder", pid=2, state=ThreadState.RUNNING, cpu_ns=cpu_ns)
        world.later(SECOND // 2)
    found = verdict(world)
    assert (found.state, words in found.sentence) == (state, True), found


@pytest.mark.invariant("behaviour.L10")
@pytest.mark.parametrize(
    ("for_a_lock", "holder_works", "state"),
    [
        (True, False, VerdictState.UNKNOWN),  # who computes beside does not hold the lock
        (True, True, VerdictState.RUNNING),
        (False, False, VerdictState.RUNNING),  # the main thread waits for a result: that one may be computing it
    ],
)
def test_L10_only_its_holder_ends_the_wait_for_a_lock(
    for_a_lock: bool, holder_works: bool, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="sem_wait", timed=False)
    holder = world.thread(2, "holder", waits_in="sem_wait", timed=False)
    event = world.resource("cond:box/1/0x90")
    if for_a_lock:
        lock = world.resource("pylock:box/1/0x80")
        world.waits(main, lock)
        world.holds(lock, holder)
    else:
        world.waits(main, event)
    world.waits(holder, event)
    world.later(20 * SECOND)
    busy = 2 if holder_works else 3
    for cpu_ns in (0, SECOND // 4):
        world.thread(busy, "busy", state=ThreadState.RUNNING, cpu_ns=cpu_ns)
        world.later(SECOND // 2)
    found = verdict(world)
    assert found.state is state, found


@pytest.mark.invariant("behaviour.L10")
@pytest.mark.parametrize(
    ("rests_in", "share", "joined", "state"),
    [
        ("sleep 0.1 s", 0.3, False, VerdictState.UNKNOWN),
        ("sem_wait", 0.3, False, VerdictState.UNKNOWN),  # Event.wait(timeout) of Python
        ("sleep 0.1 s", 0.9, False, VerdictState.RUNNING),  # it works most of the time
        ("sleep 0.1 s", 0.3, True, VerdictState.RUNNING),  # somebody waits for its end
        ("read of /data", 0.3, False, VerdictState.RUNNING),  # it waits for its input
    ],
)
def test_L10_who_sleeps_between_bursts_is_not_who_ends_a_wait(
    rests_in: str, share: float, joined: bool, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="pthread_cond_wait", timed=False)
    timed = rests_in != "read of /data"
    world.waits(main, "thread:box/1/2" if joined else world.resource("cond:box/1/0x90"))
    world.later(20 * SECOND)
    for used in (0.0, share / 2, share):
        world.thread(2, "metrics", waits_in=rests_in, timed=timed, cpu_ns=int(used * SECOND), switches=int(used * 100))
        world.later(SECOND // 2)
    assert verdict(world).state is state, verdict(world)
    # it ran on while it was looked at: its state was read as it slept, its wait after that
    world.thread(2, "metrics", waits_in=None, cpu_ns=int(share * 1.2 * SECOND), switches=int(share * 120))
    assert verdict(world.later(SECOND // 5)).state is state, verdict(world)


def waits_for_ever() -> World:
    """A process whose main thread waits for a condition that nobody signals."""
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="pthread_cond_wait", timed=False)
    world.waits(main, world.resource("cond:box/1/0x90"))
    return world.later(20 * SECOND)


@pytest.mark.invariant("behaviour.L10")
@pytest.mark.parametrize(
    ("bursts", "state"),
    [
        (4000, VerdictState.UNKNOWN),  # it wakes for a tenth of a millisecond, again and again
        (4, VerdictState.RUNNING),  # and this one works for a tenth of a second
    ],
)
def test_L10_on_a_busy_box_who_wakes_for_moments_is_never_seen_asleep(bursts: int, state: VerdictState) -> None:
    world = waits_for_ever()
    for part in (0, 1, 2):
        used = {"cpu_ns": SECOND * part // 5, "queued_ns": SECOND * part * 3 // 2, "switches": bursts * part // 2}
        world.thread(2, "metrics", state=ThreadState.RUNNING, **used)
        world.later(2 * SECOND)
    assert verdict(world).state is state, verdict(world)


@pytest.mark.invariant("behaviour.L10")
def test_L10_a_few_milliseconds_are_no_share_of_a_core() -> None:
    world = waits_for_ever()
    for part in (0, 1, 2):
        used = {"cpu_ns": SECOND * part // 1000, "queued_ns": SECOND * part * 3 // 2, "switches": 3 * part}
        world.thread(2, "metrics", waits_in="epoll_wait of 3 descriptors", timed=False, **used)
        world.later(SECOND)
    assert verdict(world).state is VerdictState.UNKNOWN, verdict(world)


@pytest.mark.invariant("behaviour.L11")
@pytest.mark.parametrize(
    ("function", "state"),
    [
        ("ThreadPoolExecutor.shutdown", VerdictState.UNKNOWN),
        ("Future.result", VerdictState.UNKNOWN),
        ("_python_exit", VerdictState.RUNNING),  # main has ended, and its pool serves
        ("main", VerdictState.RUNNING),  # it joins the thread of a server
    ],
)
def test_L11_a_job_that_serves_holds_up_who_waits_for_its_end(function: str, state: VerdictState) -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="sem_wait", timed=False)
    job = listening(world, 3)
    world.waits(main, job)
    file = "/app/main.py" if function == "main" else f"/usr/lib/python3.12/concurrent/futures/{FILES[function]}.py"
    calls(world, main, ("Thread.join", "/usr/lib/python3.12/threading.py"), (function, file), ("main", "/app/main.py"))
    assert verdict(world.later(20 * SECOND)).state is state


FILES = {"ThreadPoolExecutor.shutdown": "thread", "Future.result": "_base", "_python_exit": "thread"}


POOL = "/usr/lib/python3.12/multiprocessing/pool.py"


@pytest.mark.invariant("behaviour.L11")
@pytest.mark.parametrize(
    ("awaits", "job", "beside", "state"),
    [
        (True, "worker", "Pool._handle_results", VerdictState.RUNNING),
        (False, "worker", "Pool._handle_results", VerdictState.UNKNOWN),  # main waits for something else
        (True, "fetch", "Pool._handle_results", VerdictState.UNKNOWN),  # no job of the pool sleeps
        (True, "worker", "collect", VerdictState.UNKNOWN),  # a thread of the user's own may be stuck
    ],
)
def test_L11_who_waits_for_a_job_that_sleeps_goes_on(awaits: bool, job: str, beside: str, state: VerdictState) -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="sem_wait", timed=False)
    world.waits(main, world.resource("sem:box/1/0x90"))
    calls(world, main, ("IMapIterator.next", POOL if awaits else "/app/a.py"), ("main", "/app/main.py"))
    sleeps = world.thread(2, "worker", waits_in="sleep 5 s", timed=True)
    calls(world, sleeps, ("fetch", "/app/main.py"), (job, POOL if job == "worker" else "/app/main.py"))
    other = world.thread(3, "handler", waits_in="poll of 3 descriptors", timed=False)
    calls(world, other, (beside, POOL if beside.startswith("Pool") else "/app/main.py"))
    assert verdict(world.later(20 * SECOND)).state is state


GRPC = "/venv/lib/python3.12/site-packages/grpc/_server.py"


@pytest.mark.invariant("behaviour.L17")
@pytest.mark.parametrize(
    ("function", "file", "listens", "of_task", "state"),
    [
        ("_Server.wait_for_termination", GRPC, True, False, VerdictState.RUNNING),
        ("Server.wait_for_termination", GRPC, True, True, VerdictState.RUNNING),
        ("_Server.wait_for_termination", GRPC, False, False, VerdictState.UNKNOWN),  # nobody waits for a client
        ("Job.wait_for_termination", "/app/main.py", True, False, VerdictState.UNKNOWN),  # the user's own: of whom?
        ("Future.result", GRPC, True, False, VerdictState.UNKNOWN),
    ],
)
def test_L17_who_waits_until_a_server_is_stopped_serves(
    function: str, file: str, listens: bool, of_task: bool, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="sem_timedwait", timed=False)
    world.waits(main, world.resource("sem:box/1/0x90"))
    waiter = main
    if of_task:
        waiter = world.task("Task-1", TaskState.SUBMITTED, None, kernel="", system="asyncio")
        world.edge(EdgeKind.RUNS_ON, waiter, main)
    calls(world, waiter, (function, file), ("main", "/app/main.py"))
    accepts = world.thread(2, "event_engine", waits_in="epoll_wait of 2 descriptors", timed=False)
    world.waits(accepts, world.resource("socket:box/9", listening=listens))
    assert verdict(world.later(20 * SECOND)).state is state


@pytest.mark.invariant("behaviour.L12")
@pytest.mark.parametrize(
    ("facts", "looked_at", "wait_s", "state"),
    [
        (SocketFacts(other_end=8), True, 20, VerdictState.RUNNING),
        (SocketFacts(other_end=8, unread=1), True, 20, VerdictState.UNKNOWN),
        (SocketFacts(other_end=8), False, 20, VerdictState.UNKNOWN),
        (SocketFacts(unread=1), False, 20, VerdictState.RUNNING),  # it isn't known which end that is
        (SocketFacts(other_end=8, unread=1), False, 9, VerdictState.RUNNING),
    ],
)
def test_L12_a_server_that_does_not_look_at_a_connection_is_not_idle(
    facts: SocketFacts, looked_at: bool, wait_s: int, state: VerdictState
) -> None:
    world = World()
    for pid in (1, 2):
        world.process(pid, threads=1)
    client = world.thread(1, "asks", waits_in="read of socket 3", timed=False)
    server = world.thread(2, "serves", pid=2, waits_in="epoll_wait of 2 descriptors", timed=False)
    mine = world.resource("socket:box/7", facts=facts)
    world.waits(client, mine)
    world.holds(mine, "process:box/2")
    its = (world.resource("socket:box/8"),) if looked_at else ()
    world.waits(server, world.resource("socket:box/9", listening=True), *its)
    found = world.later(wait_s * SECOND).diagnosis()
    assert found.verdict.state is state, found.verdict.sentence
    assert (world.finding("ignored-connection") is not None) is (state is VerdictState.UNKNOWN)


@pytest.mark.invariant("behaviour.L13")
@pytest.mark.parametrize(
    ("accepted", "looked_at", "place", "waited_s", "state"),
    [
        ((7,), False, "sem_wait", 20, VerdictState.UNKNOWN),
        ((7,), True, "sem_wait", 20, VerdictState.RUNNING),  # its next request is waited for
        ((), False, "sem_wait", 20, VerdictState.RUNNING),
        ((7,), False, "sem_wait", 9, VerdictState.RUNNING),
        ((7,), False, "sem_timedwait", 20, VerdictState.RUNNING),
        ((7,), False, "read of socket 9", 20, VerdictState.RUNNING),  # somebody else owes that
    ],
)
def test_L13_a_server_is_not_idle_beside_a_connection_that_nobody_looks_at(
    accepted: tuple[int, ...], looked_at: bool, place: str, waited_s: int, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="accept on 127.0.0.1:80", timed=False)
    world.waits(main, world.resource("socket:box/5", listening=True, facts=SocketFacts(accepted=accepted)))
    world.thread(2, "answers", waits_in=place, timed="timed" in place)
    if looked_at:
        world.waits(world.thread(3, "reads", waits_in="read of socket 4", timed=False), world.resource("socket:box/7"))
    found = verdict(world.later(waited_s * SECOND))
    assert found.state is state, found.sentence
    assert state is VerdictState.RUNNING or "thread 2 (answers) has been in sem_wait for 20 s" in found.sentence


_JOB = ("_worker", f"{_LIBRARY}/concurrent/futures/thread.py")


@pytest.mark.invariant("behaviour.L13")
@pytest.mark.parametrize(
    ("call", "outermost", "state"),
    [
        (("Event.wait", f"{_LIBRARY}/threading.py"), _JOB, VerdictState.UNKNOWN),
        (("Event.wait", f"{_LIBRARY}/threading.py"), ("run", "/app/server.py"), VerdictState.RUNNING),
        (("Queue.get", f"{_LIBRARY}/queue.py"), _JOB, VerdictState.RUNNING),  # a job that takes items itself
        (("Queue.join", f"{_LIBRARY}/queue.py"), _JOB, VerdictState.UNKNOWN),
        (("SimpleQueue.get", f"{_LIBRARY}/multiprocessing/queues.py"), _JOB, VerdictState.RUNNING),
        (("get", "/app/pool.py"), _JOB, VerdictState.UNKNOWN),
    ],
)
def test_L13_a_server_is_not_idle_beside_a_job_that_waits(
    call: tuple[str, str], outermost: tuple[str, str], state: VerdictState
) -> None:
    world = World()
    listening(world, 1)
    worker = world.thread(2, "worker", waits_in="sem_wait", timed=False)
    waits = ("Condition.wait", f"{_LIBRARY}/threading.py")
    calls(world, worker, waits, call, ("fetch", "/app/server.py"), outermost)
    assert verdict(world.later(20 * SECOND)).state is state


@pytest.mark.invariant("behaviour.L13")
@pytest.mark.parametrize(
    ("unread", "looked_at", "own", "state"),
    [
        (1, False, True, VerdictState.UNKNOWN),
        (0, False, True, VerdictState.RUNNING),
        (1, True, True, VerdictState.RUNNING),
        (1, False, False, VerdictState.RUNNING),  # its client is slow
    ],
)
def test_L13_a_server_that_leaves_unread_what_it_sent_to_itself_is_not_idle(
    unread: int, looked_at: bool, own: bool, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="epoll_wait of 2 descriptors", timed=False)
    facts = SocketFacts(other_end=8, unread=unread)
    client = world.resource("socket:box/7", wakes_itself=own, facts=facts)
    other = (world.resource("socket:box/8", wakes_itself=True),) if looked_at else ()
    world.waits(main, world.resource("socket:box/5", listening=True), client, *other)
    assert verdict(world.later(20 * SECOND)).state is state


@pytest.mark.invariant("behaviour.L14")
@pytest.mark.parametrize(
    ("parent", "limited", "turns", "state"),
    [
        (None, True, 3, VerdictState.UNKNOWN),  # a client that asks a queue again and again for its result
        (None, True, 1, VerdictState.UNKNOWN),  # it did not wake while it was watched
        (1, True, 3, VerdictState.RUNNING),  # who looks after a server
        (None, False, 3, VerdictState.RUNNING),  # it waits for jobs
    ],
)
def test_L14_who_asks_a_server_again_and_again_is_not_idle(
    parent: int | None, limited: bool, turns: int, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    world.process(2, ppid=parent, target=False)
    server = world.thread(2, "serves", pid=2, waits_in="accept on *:80", timed=False)
    world.waits(server, world.resource("socket:box/9", "listening", listening=True))
    mine = world.resource("socket:box/7", facts=SocketFacts(other_end=9))
    world.holds(mine, "process:box/2")
    for turn in range(turns):
        main = world.thread(1, "main", waits_in="epoll_wait of 5 descriptors", timed=limited, switches=turn, moved=0)
        world.later(20 * SECOND // 3)
    world.waits(main, mine)
    found = verdict(world.later(SECOND))
    assert found.state is state, found.sentence


@pytest.mark.parametrize(
    ("waited_s", "timed", "state"),
    [
        (1, False, VerdictState.RUNNING),  # a pipeline whose source sleeps
        (20, False, VerdictState.UNKNOWN),  # who sleeps may only have inherited an end of the pipe
        (1, True, VerdictState.UNKNOWN),
    ],
)
def test_who_has_just_begun_to_wait_for_one_that_sleeps_is_idle_as_well(
    waited_s: int, timed: bool, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    pipe = world.resource("pipe:box/9")
    world.holds(pipe, world.process(2, ppid=1))
    world.thread(2, "source", pid=2, waits_in="sleep 60 s", timed=True)
    world.waits(world.thread(1, "main", waits_in="read of pipe 3", timed=timed), pipe)
    found = verdict(world.later(waited_s * SECOND))
    assert found.state is state, found.sentence


@pytest.mark.invariant("behaviour.L14")
@pytest.mark.parametrize(
    ("connected", "turns", "state"),
    [
        (True, 1, VerdictState.UNKNOWN),  # it awaits an answer beside a timer
        (True, 3, VerdictState.UNKNOWN),
        (False, 1, VerdictState.RUNNING),  # who looks after a server
    ],
)
def test_L14_who_has_a_connection_to_a_server_of_its_family_is_not_idle(
    connected: bool, turns: int, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    world.process(2, ppid=1)
    server = world.thread(2, "serves", pid=2, waits_in="epoll_wait of 2 descriptors", timed=True)
    world.waits(server, world.resource("socket:box/9", "listening", listening=True))
    if connected:
        client = world.resource("socket:box/8")
        world.waits(server, client)
        world.holds(client, "process:box/1")
    for turn in range(turns):
        world.thread(1, "main", waits_in="epoll_wait of 1 descriptor", timed=True, switches=turn, moved=0)
        world.later(20 * SECOND // 3)
    found = verdict(world.later(SECOND))
    assert found.state is state, found.sentence


@pytest.mark.invariant("behaviour.L15")
@pytest.mark.parametrize(
    ("asks_in", "share", "outside", "state"),
    [
        ("sleep 0.2 s", 0.01, "", VerdictState.UNKNOWN),  # "is the job done?", "no", again and again
        ("sleep 0.2 s", 0.2, "", VerdictState.RUNNING),  # it works for what it is asked
        ("sleep 0.2 s", 0.01, "any process that may open /fifo", VerdictState.RUNNING),
    ],
)
def test_L15_who_only_answers_a_thread_that_polls_makes_no_progress(
    asks_in: str, share: float, outside: str, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    named = structs.replace(world.snapshot().processes["process:box/1"], named=True)
    world.store.apply(ev.ProcessSeen(process=named, **world.stamp()))
    world.process(2, ppid=1)
    asked = world.resource("socket:box/9", outside=outside)
    world.holds(asked, "process:box/1")
    for turn in range(5):
        cpu_ns = int(turn * share * SECOND)
        world.thread(1, "main", waits_in=asks_in, timed=True, switches=turn, cpu_ns=turn * 1000)
        answers = world.thread(2, "answers", pid=2, waits_in="read of socket 4", timed=False, cpu_ns=cpu_ns)
        world.later(SECOND)
    world.waits(answers, asked)
    found = verdict(world.later(SECOND // 10))
    assert found.state is state, found.sentence


def test_of_what_a_poll_waits_for_who_is_blocked_decides_in_whatever_order_it_became_known() -> None:
    for order in ((2, 3), (3, 2)):
        world = World()
        world.process(1)
        ends = {}
        for pid in (2, 3):
            world.process(pid, target=False)
            ends[pid] = world.resource(f"pipe:box/{pid}")
            world.holds(ends[pid], f"process:box/{pid}")
        server = world.thread(2, "serves", pid=2, waits_in="accept on *:80", timed=False)
        world.waits(server, world.resource("socket:box/9", "listening", listening=True))
        world.thread(3, "worker", pid=3, waits_in="read of socket 7", timed=False)
        main = world.thread(1, "main", waits_in="epoll_wait of 5 descriptors", timed=False)
        for pid in order:
            world.waits(main, ends[pid])
        assert "thread 3 (worker) has been in read of socket 7" in verdict(world.later(20 * SECOND)).sentence


@pytest.mark.invariant("behaviour.L14")
@pytest.mark.parametrize(("parent", "state"), [(1, VerdictState.UNKNOWN), (None, VerdictState.RUNNING)])
def test_L14_a_parent_may_have_lost_the_signal_of_a_child_that_waits_for_it(
    parent: int | None, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    world.process(2, ppid=parent)
    world.thread(1, "main", waits_in="pause (waits for a signal)", timed=False)
    pipe = world.resource("pipe:box/9")
    world.holds(pipe, "process:box/1")
    world.waits(world.thread(2, "child", pid=2, waits_in="read of pipe 3", timed=False), pipe)
    found = verdict(world.later(20 * SECOND))
    assert found.state is state, found.sentence


@pytest.mark.invariant("behaviour.L14")
@pytest.mark.parametrize(
    ("client", "server", "waited_s", "state"),
    [
        (1, 2, 20, VerdictState.UNKNOWN),  # the rest of an answer does not come
        (1, 2, 5, VerdictState.RUNNING),
        (2, 1, 20, VerdictState.RUNNING),  # a worker that waits for orders
    ],
)
def test_L14_a_parent_that_waits_for_its_child_to_answer_is_not_idle(
    client: int, server: int, waited_s: int, state: VerdictState
) -> None:
    world = World()
    world.process(1)
    world.process(2, ppid=1)
    serves = world.thread(server, "serves", pid=server, waits_in="epoll_wait of 2 descriptors", timed=False)
    world.waits(serves, world.resource("socket:box/9", "listening", listening=True))
    mine = world.resource("socket:box/7", facts=SocketFacts(other_end=8))
    world.holds(mine, f"process:box/{server}")
    world.waits(serves, world.resource("socket:box/8", facts=SocketFacts(other_end=7)))
    world.waits(world.thread(client, "asks", pid=client, waits_in="recv on socket 5", timed=False), mine)
    found = verdict(world.later(waited_s * SECOND))
    assert found.state is state, found.sentence


@pytest.mark.invariant("behaviour.L11")
@pytest.mark.parametrize(
    ("way", "waits_in", "state"),
    [
        (LoopWay.WORKS, "pthread_cond_wait", VerdictState.RUNNING),
        (LoopWay.RESTS, "pthread_cond_wait", VerdictState.UNKNOWN),  # in a job
        (LoopWay.WORKS, "read of pipe 3", VerdictState.UNKNOWN),
    ],
)
def test_L11_a_worker_of_a_pool_in_cpp_has_no_job(way: LoopWay, waits_in: str, state: VerdictState) -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sleep 60 s", timed=True)
    worker = world.thread(2, "worker", waits_in=waits_in, timed=False)
    inner = Frame(function="pthread_cond_wait", module="libc.so.6", language="native")
    place = Frame(function="Pool::work", file="/src/pool.cpp", line=35, language="native", module="job", loop=way)
    stack = Stack(thread=worker, frames=(inner, place), taken_mono_ns=world.now_ns, source="drgn", layer="native")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    found = verdict(world.later(20 * SECOND))
    assert found.state is state, found.sentence


OPENMP = (
    Frame(function="pthread_cond_wait", module="libc.so.6", language="native"),
    Frame(function="0x7f21b41e0e9b", module="libgomp.so.1", language="native"),
    Frame(function="start_thread", module="libc.so.6", language="native"),
)
OF_USER = Frame(function="solve", file="/src/solve.cpp", line=35, language="native", module="job")
NAMELESS = Frame(function="0x7f21b41e0e9b", module="libsolve.so", language="native")


@pytest.mark.invariant("behaviour.L20")
@pytest.mark.parametrize(
    ("frames", "waits_in", "state"),
    [
        (OPENMP, "pthread_cond_wait", VerdictState.RUNNING),
        (OPENMP, "pthread_mutex_lock", VerdictState.UNKNOWN),
        (OPENMP, "read of pipe 3", VerdictState.UNKNOWN),
        (OPENMP[:-1], "pthread_cond_wait", VerdictState.UNKNOWN),  # the user's code may be further out
        ((*OPENMP[:2], OF_USER, OPENMP[-1]), "pthread_cond_wait", VerdictState.UNKNOWN),
        ((*OPENMP[:2], NAMELESS, OPENMP[-1]), "pthread_cond_wait", VerdictState.UNKNOWN),  # of a file that may be his
        ((OPENMP[0], OPENMP[-1]), "pthread_cond_wait", VerdictState.UNKNOWN),
    ],
)
def test_L20_a_thread_of_a_library_has_no_job(frames: tuple[Frame, ...], waits_in: str, state: VerdictState) -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sleep 60 s", timed=True)
    helper = world.thread(2, "helper", waits_in=waits_in, timed=False)
    stack = Stack(thread=helper, frames=frames, taken_mono_ns=world.now_ns, source="drgn", layer="native")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    found = verdict(world.later(20 * SECOND))
    assert found.state is state, found.sentence
