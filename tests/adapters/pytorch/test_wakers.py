"""Who may still end the wait of a rank: states built by hand, each beside the one that is a stall."""

from __future__ import annotations

import pytest

from livedbg.adapters.pytorch.facts import ENQUEUED
from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Finding
from livedbg.model import Frame, ThreadState
from livedbg.model import events as ev
from tests.adapters.pytorch.test_rules import Job

LIBRARY = "/usr/lib/python3.11"
TORCH = "/venv/lib/python3.11/site-packages/torch"
LOADER = ("_MultiProcessingDataLoaderIter._try_get_data", f"{TORCH}/utils/data/dataloader.py")
WORKER = ("_worker_loop", f"{TORCH}/utils/data/_utils/worker.py")
FETCH = ("_MapDatasetFetcher.fetch", f"{TORCH}/utils/data/_utils/fetch.py")
USER = ("load", "/job/train.py")


class Rank2(Job):
    """Rank 2 has a main thread in `Queue.get`, for 20 s, and others beside it."""

    def __init__(self, **main: object) -> None:
        super().__init__()
        self.thread(12, pid=12, **({"waits_in": "Queue.get", "timed": False} | main))  # type: ignore[arg-type]

    def python(self, tid: int, *frames: tuple[str, str], pid: int = 12, **thread: object) -> str:
        """A thread with Python frames, innermost first."""
        name = self.thread(tid, pid=pid, **({"waits_in": "Queue.get", "timed": False} | thread))  # type: ignore[arg-type]
        self.frames(name, *frames)
        return name

    def frames(self, thread: str, *frames: tuple[str, str]) -> None:
        found = (Frame(function=function, file=file, line=7, language="python") for function, file in frames)
        self.stack(thread, *found)

    def absence(self) -> Finding:
        return self.found("collective-missing")


def test_a_thread_that_wakes_by_itself_may_end_it() -> None:
    rank = Rank2()
    rank.python(20, ("poll", USER[1]), ("Thread.run", f"{LIBRARY}/threading.py"), waits_in="sleep 1 s", timed=True)
    one = rank.absence()
    assert one.state is VerdictState.UNKNOWN and one.decides
    assert "it waits in Queue.get() for 11 s, while thread 20 waits in sleep 1 s in poll (train.py:7)" in one.sentence


def test_a_thread_that_is_stuck_too_ends_nothing() -> None:
    rank = Rank2()
    rank.python(20, ("poll", USER[1]))
    assert rank.absence().state is VerdictState.STALLED


@pytest.mark.invariant("rules_wakers.W1")
@pytest.mark.parametrize(
    "frames",
    [
        (("Event.wait", f"{LIBRARY}/threading.py"), ("TMonitor.run", "/venv/lib/site-packages/tqdm/_monitor.py")),
        (("_worker", f"{LIBRARY}/concurrent/futures/thread.py"),),
        (("_serve", f"{LIBRARY}/multiprocessing/resource_sharer.py"), ("Thread.run", f"{LIBRARY}/threading.py")),
    ],
)
def test_W1_idle_workers_and_those_that_look_on_end_nothing(frames: tuple[tuple[str, str], ...]) -> None:
    rank = Rank2()
    rank.python(20, *frames, waits_in="sem_wait", timed=True)
    assert rank.absence().state is VerdictState.STALLED


@pytest.mark.invariant("rules_wakers.W1")
@pytest.mark.parametrize(("name", "state"), [("gloo_tcp_loop", VerdictState.STALLED), ("zmq", VerdictState.UNKNOWN)])
def test_W1_native_threads_count_by_what_they_wait_for(name: str, state: VerdictState) -> None:
    rank = Rank2()
    thread = rank.thread(20, name, pid=12, waits_in="epoll_wait of 2 descriptors", timed=False)
    rank.waits(thread, rank.resource("socket:box/77", protocol="tcp"))
    one = rank.absence()
    assert one.state is state
    if state is VerdictState.UNKNOWN:
        assert "which the other end of the socket may end" in one.sentence


@pytest.mark.parametrize(
    ("child", "state"),
    [
        ({"waits_in": "sleep 300 s", "timed": True}, VerdictState.UNKNOWN),
        ({"waits_in": "futex", "timed": False}, VerdictState.STALLED),
        ({"waits_in": "sigwait (waits for a signal)", "timed": False}, VerdictState.UNKNOWN),
    ],
)
def test_a_child_may_end_it_unless_it_is_stuck(child: dict[str, object], state: VerdictState) -> None:
    rank = Rank2(waits_in="read of pipe 5")
    rank.process(30, ppid=12)
    rank.thread(30, pid=30, **child)  # type: ignore[arg-type]
    assert rank.absence().state is state


def test_a_pipe_is_written_to_by_who_has_its_other_end() -> None:
    for holder, state in (("process:box/12", VerdictState.STALLED), ("process:box/99", VerdictState.UNKNOWN)):
        rank = Rank2(waits_in="read of pipe 5")
        rank.process(99, target=False)
        pipe = rank.resource("pipe:box/5")
        rank.waits("thread:box/12/12", pipe)
        rank.holds(pipe, holder)
        assert rank.absence().state is state


@pytest.mark.invariant("rules_wakers.W2")
@pytest.mark.parametrize(
    ("launcher", "state"),
    [
        ({"waits_in": "waitpid of 12", "timed": False}, VerdictState.STALLED),
        ({"waits_in": "waitpid of 12", "timed": True}, VerdictState.UNKNOWN),
        ({"waits_in": "read of pipe 0", "timed": False}, VerdictState.UNKNOWN),
    ],
)
def test_W2_a_launcher_that_waits_for_its_ranks_types_nothing(launcher: dict[str, object], state: VerdictState) -> None:
    rank = Rank2(waits_in="read of pipe 0")
    rank.process(5)
    rank.thread(5, pid=5, **launcher)  # type: ignore[arg-type]
    rank.resource("pipe:box/77")
    rank.waits("thread:box/12/12", "pipe:box/77")
    rank.holds("pipe:box/77", "process:box/5")
    one = rank.absence()
    assert one.state is state
    assert "it waits for input (read of pipe 0) for 11 s" in one.sentence


@pytest.mark.invariant("rules_wakers.W2")
@pytest.mark.parametrize(
    ("waits_in", "frames", "state"),
    [
        ("pthread_cond_wait", (), VerdictState.STALLED),
        ("pthread_cond_wait", (USER,), VerdictState.UNKNOWN),
        ("read of terminal 0", (), VerdictState.UNKNOWN),
    ],
)
def test_W2_another_thread_of_the_launcher_may_type(
    waits_in: str, frames: tuple[tuple[str, str], ...], state: VerdictState
) -> None:
    """Not one of a native pool, such as that of a library for linear algebra."""
    rank = Rank2(waits_in="read of pipe 0")
    rank.process(5)
    rank.thread(5, pid=5, waits_in="waitpid of 12", timed=False)
    rank.python(6, *frames, pid=5, waits_in=waits_in)
    rank.resource("pipe:box/77")
    rank.waits("thread:box/12/12", "pipe:box/77")
    rank.holds("pipe:box/77", "process:box/5")
    one = rank.absence()
    assert (one.state, "which process 5 (prog5) may end" in one.sentence) == (state, state is VerdictState.UNKNOWN)


def test_a_rank_in_a_debugger_says_so() -> None:
    rank = Rank2(waits_in="read of pipe 0")
    frames = (("Pdb.interaction", f"{LIBRARY}/pdb.py"), ("Bdb.trace_dispatch", f"{LIBRARY}/bdb.py"), USER)
    rank.frames("thread:box/12/12", *frames)
    assert "it is in Python's debugger in load (train.py:7) for 11 s" in rank.absence().sentence


@pytest.mark.parametrize(("other", "said"), [("process:box/13", True), ("process:box/10", False)])
def test_the_output_of_a_child_is_waited_for_if_nobody_else_has_its_end(other: str, said: bool) -> None:
    rank = Rank2(waits_in="poll of 2 descriptors")
    rank.process(13, ppid=12)
    rank.thread(13, pid=13, waits_in="open of /tmp/shard.fifo for reading", timed=False)
    for number, holder in ((1, "process:box/13"), (2, other)):
        rank.resource(f"pipe:box/{number}")
        rank.holds(f"pipe:box/{number}", holder)
    rank.waits("thread:box/12/12", "pipe:box/1", "pipe:box/2")
    words = "and the child prog13 waits in open of /tmp/shard.fifo for reading"
    assert (words in rank.absence().sentence) is said


def test_what_a_checkpoint_thread_opens_is_told_with_the_line_of_who_waits_for_it() -> None:
    rank = Rank2(waits_in="Future.result")
    rank.frames("thread:box/12/12", ("Future.result", f"{LIBRARY}/concurrent/futures/_base.py"), USER)
    writes = ("FileSystemWriter.write", f"{TORCH}/distributed/checkpoint/filesystem.py")
    task = ("_WorkItem.run", f"{LIBRARY}/concurrent/futures/thread.py")
    rank.python(20, writes, task, waits_in="open of /ckpt/__1_0.distcp for writing", timed=False)
    assert "has been opening __1_0.distcp for writing for 11 s (train.py:7)" in rank.absence().sentence


def test_a_key_and_a_signal_come_from_outside() -> None:
    rank = Rank2(waits_in="read of /dev/pts/3")
    rank.waits("thread:box/12/12", rank.resource("file:box/12.0", idle="a key"))
    assert "which a key may end" in rank.absence().sentence
    waits = Rank2(waits_in="pause (waits for a signal)").absence()
    assert (waits.state, "which a signal may end" in waits.sentence) == (VerdictState.UNKNOWN, True)


def loader(*workers: dict[str, object]) -> Finding:
    """What is said of a rank that waits for the workers of its DataLoader, which all fetch something."""
    rank = Rank2(waits_in="poll of 1 descriptor", timed=True)
    rank.frames("thread:box/12/12", LOADER, USER)
    rank.process(29, ppid=12)
    rank.python(29, WORKER, pid=29, waits_in="poll of 1 descriptor", timed=True)
    for number, worker in enumerate(workers, 30):
        rank.process(number, ppid=12)
        rank.python(number, USER, FETCH, WORKER, pid=number, **worker)
    return rank.absence()


def test_a_loader_waits_for_the_workers_that_fetch() -> None:
    one = loader({})
    assert (one.state, one.roots) == (VerdictState.STALLED, ("thread:box/30/30",))
    assert "its DataLoader waits for a worker: it waits in Queue.get() in load (train.py:7) for 11 s" in one.sentence
    assert loader({}, {}).state is VerdictState.STALLED


def test_a_loader_goes_on_as_long_as_one_of_its_workers_may() -> None:
    assert loader({}, {"waits_in": "sleep 300 s", "timed": True}).state is VerdictState.UNKNOWN
    assert loader({}, {"state": ThreadState.RUNNING}).state is VerdictState.RUNNING
    assert loader().state is VerdictState.UNKNOWN


def test_ranks_that_a_rank_has_begun_are_not_its_helpers() -> None:
    """They wait in the collective."""
    rank = Rank2()
    rank.process(11, ppid=12)
    rank.thread(11, pid=11, waits_in="pthread_cond_wait", timed=True)
    assert rank.absence().state is VerdictState.UNKNOWN
    rank.store.apply(ev.CounterSeen(entity="process:box/11", name=ENQUEUED, value=1.0, **rank.stamp()))
    assert rank.absence().state is VerdictState.STALLED


POOL = f"{LIBRARY}/concurrent/futures"
RESULT = (("Condition.wait", f"{LIBRARY}/threading.py"), ("Future.result", f"{POOL}/_base.py"), USER)
TASK = (("_WorkItem.run", f"{POOL}/thread.py"), ("_worker", f"{POOL}/thread.py"))


def waits_for_result(*tasks: dict[str, object]) -> Finding:
    rank = Rank2()
    rank.python(12, *RESULT, waits_in="Future.result")
    for number, task in enumerate(tasks):
        rank.python(20 + number, ("decode", USER[1]), *TASK, **task)  # type: ignore[arg-type]
    return rank.absence()


def test_a_task_of_a_thread_pool_is_what_its_result_is_waited_for() -> None:
    one = waits_for_result({})
    assert one.state is VerdictState.STALLED
    assert "it waits for a task of a thread pool: it waits in Queue.get() in decode (train.py:7) for" in one.sentence


def test_a_task_that_may_go_on_lets_its_caller_wait() -> None:
    one = waits_for_result({}, {"waits_in": "sleep 9 s", "timed": True})
    assert one.state is VerdictState.UNKNOWN and "thread pool: it waits in sleep 9 s in decode" in one.sentence


@pytest.mark.parametrize("call", ["msgrcv (System V message queue)", "semop (System V semaphore)"])
def test_what_any_process_may_use_is_no_stall(call: str) -> None:
    one = Rank2(waits_in=call).absence()
    assert one.state is VerdictState.UNKNOWN and "which any other process may end" in one.sentence
