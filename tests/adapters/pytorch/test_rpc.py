"""Requests of torch.distributed.rpc: states built by hand, and what becomes of the threads' frames."""

from __future__ import annotations

import ctypes
import os
import struct

import pytest

from livedbg.adapters.pytorch.facts import rpc_facts
from livedbg.adapters.pytorch.rpc.tasks import RpcRank, RpcThread, agent_worker, rpc_events
from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Finding
from livedbg.model import Frame, Stack, Task, ThreadState
from livedbg.model import events as ev
from tests.adapters.pytorch.test_rules import Job
from tests.analysis.world import SECOND, World

STUCK: dict[str, object] = {"waits_in": "Queue.get", "timed": False}


def asking(ident: int, to: str, function: str, serves: str = "") -> RpcThread:
    return RpcThread(ident, asks=True, to=to, function=function, serves=serves, leaves=False)


def serving(ident: int, function: str) -> RpcThread:
    return RpcThread(ident, asks=False, to="", function="", serves=function, leaves=False)


def leaving(ident: int) -> RpcThread:
    return RpcThread(ident, asks=False, to="", function="", serves="", leaves=True)


class Workers(World):
    """Workers of two or more ranks, processes 10 and on; a thread has its ident as its number."""

    def __init__(self, *ranks: tuple[RpcThread, ...]) -> None:
        super().__init__()
        self.ranks = [self.rank(number, threads) for number, threads in enumerate(ranks)]

    def rank(self, number: int, threads: tuple[RpcThread, ...]) -> RpcRank:
        pid = 10 + number
        process = self.process(pid)
        self.thread(pid, pid=pid, waits_in="Event.wait", timed=False)
        for one in threads:
            main = one.ident == pid
            self.thread(one.ident, "main" if main else "pt_thread_pool", pid=pid, waits_in="wait", timed=False)
        tids = {one.ident: f"thread:box/{pid}/{one.ident}" for one in threads}
        return RpcRank(number, process, f"worker{number}", threads, tids)

    def found(self, **threads: dict[str, object]) -> dict[str, Finding]:
        """The findings by rule, once all threads have been as they are for 11 s."""
        for name, how in threads.items():
            known = self.threads[next(one for one in self.threads if one.endswith(f"/{name[1:]}"))]
            pid = int(known.process.rpartition("/")[2])
            self.thread(known.tid, known.name, pid=pid, **how)  # type: ignore[arg-type]
        tasks, edges = rpc_events(self.ranks, {one.process: one.threads for one in self.ranks})
        self.store.apply(ev.TasksSeen(tasks=tuple(tasks), **self.stamp()))
        self.store.apply(ev.EdgesReplaced(scope="rpc", edges=tuple(edges), **self.stamp()))
        self.now_ns += 11 * SECOND
        for thread in list(self.threads.values()):
            self.store.apply(ev.ThreadsSeen(threads=(thread,), **self.stamp()))
        self.store.apply(ev.Tick(**self.stamp()))
        return {one.rule: one for one in self.diagnosis().findings.values()}


@pytest.mark.invariant("rules_rpc.Q1")
@pytest.mark.parametrize(
    ("server", "state", "words"),
    [
        (STUCK, VerdictState.STALLED, "worker1 waits in Queue.get() for 11 s."),
        ({"waits_in": "sleep 60 s", "timed": True}, VerdictState.UNKNOWN, "which ends by itself."),
        ({"state": ThreadState.RUNNING}, VerdictState.RUNNING, "worker1 computes."),
        ({"waits_in": "pause (waits for a signal)", "timed": False}, VerdictState.UNKNOWN, "which a signal may end."),
    ],
)
def test_Q1_a_request_is_what_its_server_does(server: dict[str, object], state: VerdictState, words: str) -> None:
    one = Workers((asking(10, "worker1", "f"),), (serving(31, "f"),)).found(t31=server)["rpc-request"]
    assert one.state is state
    assert one.sentence.startswith("Rank 0 waits for f of worker1 for 11 s: ") and one.sentence.endswith(words)


@pytest.mark.invariant("rules_rpc.Q1")
def test_Q1_one_of_several_that_goes_on_may_be_the_one_that_was_meant() -> None:
    workers = Workers((asking(10, "worker1", "f"),), (serving(31, "f"), serving(32, "f"), serving(33, "g")))
    one = workers.found(t31=STUCK, t32={"waits_in": "sleep 60 s", "timed": True}, t33=STUCK)["rpc-request"]
    assert one.state is VerdictState.UNKNOWN


@pytest.mark.invariant("rules_rpc.Q1")
def test_Q1_another_thread_of_the_worker_may_end_it() -> None:
    workers = Workers((asking(10, "worker1", "f"),), (serving(31, "f"),))
    one = workers.found(t31=STUCK, t11={"waits_in": "sleep 60 s", "timed": True})["rpc-request"]
    assert one.state is VerdictState.UNKNOWN and "while thread 11" in one.sentence


@pytest.mark.invariant("rules_rpc.Q1")
def test_Q1_a_request_that_nobody_carries_out_may_be_on_its_way() -> None:
    one = Workers((asking(10, "worker1", "f"),), (serving(31, "g"),))
    one.thread(32, "pt_thread_pool", pid=11, waits_in="wait", timed=False)
    found = one.found(t31=STUCK)["rpc-request"]
    assert found.state is VerdictState.UNKNOWN and "no thread of worker1 carries it out" in found.sentence


@pytest.mark.invariant("rules_rpc.Q1")
def test_Q1_a_worker_that_is_stopped_or_has_ended() -> None:
    stopped = Workers((asking(10, "worker1", "f"),), (serving(31, "f"),))
    assert "worker1 is stopped" in stopped.found(t11={"state": ThreadState.STOPPED})["rpc-request"].sentence
    ended = Workers((asking(10, "worker1", "f"),), (serving(31, "f"),))
    ended.store.apply(ev.ProcessExited(id="process:box/11", status=-9, **ended.stamp()))
    one = ended.found()["rpc-request"]
    assert (one.state, "worker1 has ended" in one.sentence) == (VerdictState.STALLED, True)


def circle(*, free: bool) -> Finding:
    workers = Workers((asking(40, "worker1", "f", "f"),), (asking(31, "worker0", "f", "f"),))
    for pid in (10, 11) if free else ():
        workers.thread(50 + pid, "pt_thread_pool", pid=pid, waits_in="wait", timed=False)
    return workers.found()["rpc-request"]


@pytest.mark.invariant("rules_rpc.Q2")
def test_Q2_workers_that_ask_each_other_are_stuck_only_without_a_free_thread() -> None:
    one = circle(free=False)
    assert one.state is VerdictState.STALLED and "is free, and they wait for this one" in one.sentence
    assert circle(free=True).state is VerdictState.UNKNOWN


@pytest.mark.invariant("rules_rpc.Q2")
@pytest.mark.invariant("rpc_tasks.T2")
def test_Q2_T2_a_function_that_asks_itself_over_two_workers_goes_on() -> None:
    workers = Workers((asking(40, "worker1", "f", "f"), serving(41, "f")), (asking(31, "worker0", "f", "f"),))
    found = workers.found(t41={"state": ThreadState.RUNNING})
    assert found["rpc-request"].state is VerdictState.RUNNING
    assert not {"task-cycle", "lock-cycle"} & found.keys()


@pytest.mark.invariant("rules_rpc.Q3")
def test_Q3_who_does_not_come_to_shutdown_is_a_stall_only_by_its_own_wait() -> None:
    one = Workers((), (leaving(11),)).found(t10=STUCK)["rpc-shutdown"]
    assert one.state is VerdictState.STALLED
    assert one.sentence == (
        "Rank 1 waits in rpc.shutdown for rank 0, which does not call it: it waits in Queue.get() for 11 s."
    )
    assert "rpc-shutdown" not in Workers((), (leaving(11),)).found(t10={"waits_in": "sleep 60 s", "timed": True})
    asks = Workers((asking(10, "worker1", "f"),), (leaving(11), serving(31, "f")))
    found = asks.found(t31={"state": ThreadState.RUNNING})
    assert "rpc-shutdown" not in found and found["rpc-request"].state is VerdictState.RUNNING


@pytest.mark.invariant("rules_rpc.Q3")
@pytest.mark.parametrize("function", ["torch::distributed::rpc::PyRRef::toHere(float)", "c10::ivalue::Future::wait()"])
def test_Q3_who_waits_inside_of_torch_may_wait_for_the_one_in_shutdown(function: str) -> None:
    workers = Workers((), (leaving(11),))
    frames = (Frame(function="pthread_cond_wait", language="c"), Frame(function=function, language="c++"))
    stack = Stack(thread="thread:box/10/10", layer="native", frames=frames, taken_mono_ns=workers.now_ns, source="copy")
    workers.store.apply(ev.StacksSeen(stacks=(stack,), **workers.stamp()))
    assert "rpc-shutdown" not in workers.found(t10={"waits_in": "pthread_cond_wait", "timed": False})
    assert "rpc-shutdown" not in Workers((), (leaving(11),)).found(
        t10={"waits_in": "pthread_cond_wait", "timed": False}
    )


def test_a_missing_rank_that_waits_for_a_request_is_no_stall_by_itself() -> None:
    job = Job()
    job.waits("thread:box/12/12", "task:rpc/2.1")
    one = job.missing(waits_in="pthread_cond_wait", timed=False)
    assert one.state is VerdictState.UNKNOWN and "until another worker answers" in one.sentence


def requests(now: RpcThread, before: RpcThread) -> list[Task]:
    one = RpcRank(0, "process:box/10", "worker0", (now,), {now.ident: "thread:box/10/10"})
    other = RpcRank(1, "process:box/11", "worker1", (), {})
    return rpc_events([one, other], {"process:box/10": (before,)})[0]


@pytest.mark.invariant("rpc_tasks.T1")
def test_T1_only_the_same_request_at_two_looks_is_one() -> None:
    (task,) = requests(asking(1, "worker1", "f"), asking(1, "worker1", "f"))
    assert (rpc_facts(task).to, rpc_facts(task).function) == ("worker1", "f")
    assert requests(asking(1, "worker1", "f"), asking(1, "worker1", "g")) == []
    (unknown,) = requests(asking(1, "", ""), asking(1, "", ""))
    assert (rpc_facts(unknown).to, rpc_facts(unknown).function) == ("worker1", "")


@pytest.mark.invariant("rpc_tasks.N1")
def test_N1_a_worker_has_the_number_of_its_rank() -> None:
    text = ctypes.create_string_buffer(b"worker3")
    agent = ctypes.create_string_buffer(struct.pack("<24xQQ16xh", ctypes.addressof(text), 7, 3) + bytes(8))
    pointer = ctypes.create_string_buffer(struct.pack("<Q", ctypes.addressof(agent)))
    place, none = ctypes.addressof(pointer), ctypes.create_string_buffer(8)
    assert agent_worker(os.getpid(), place, 3) == ("worker3", 3) == agent_worker(os.getpid(), place, None)
    assert agent_worker(os.getpid(), place, 2) is None is agent_worker(os.getpid(), ctypes.addressof(none), 3)
    text[0:1] = b"\x07"
    assert agent_worker(os.getpid(), place, 3) is None
