"""Edges of the rules about collectives, on states built by hand."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.adapters.pytorch.facts import ENQUEUED
from livedbg.adapters.pytorch.rules.calls import rank_list
from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Finding
from livedbg.model import Frame, Stack, Task, TaskState, ThreadState
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

CALL = "task:collective/dp.1/6"


class Job(World):
    """Three ranks, processes 10 to 12, whose main threads have their numbers; ranks 0 and 1 wait in all_reduce #6."""

    def __init__(self, *waiting: int, absent: str = "2", moved: str = "", age_s: float = 20) -> None:
        super().__init__()
        self.began_ns = self.now_ns
        for rank in range(3):
            self.process(10 + rank)
            if rank != 2:
                self.thread(10 + rank, pid=10 + rank, waits_in="pthread_cond_wait", timed=True)
        self.call(CALL, absent=absent, moved=moved, waiting=waiting or (0, 1), age_s=age_s)

    def call(self, name: str, *, absent: str, waiting: tuple[int, ...], moved: str = "", age_s: float = 20) -> None:
        attributes = {
            "group": "dp" if "dp" in name else "ep",
            "in it": " ".join(map(str, waiting)),
            "not in it": absent,
        }
        attributes |= {"moved since": moved, "ranks": "3"} | {
            f"rank {rank}": f"process:box/{10 + rank}" for rank in range(3)
        }
        task = Task(
            id=name,
            system="pytorch",
            name=f"all_reduce #{name.rpartition('/')[2]}",
            kernel="all_reduce",
            state=TaskState.RUNNING,
            since_wall_ns=10**18 + self.began_ns - int((age_s - 11) * SECOND),
            attributes=attributes,
        )
        self.store.apply(ev.TasksSeen(tasks=(task,), **self.stamp()))
        for rank in waiting:
            self.waits(f"thread:box/{10 + rank}/{10 + rank}", name)

    def known(self, facts: dict[str, str], **more: str) -> Job:
        """More facts of the call, and other fields of its task."""
        task = self.snapshot().tasks[CALL]
        task = structs.replace(task, attributes={**task.attributes, **facts}, **more)
        self.store.apply(ev.TasksSeen(tasks=(task,), **self.stamp()))
        return self

    def stack(self, thread: str, *frames: Frame) -> None:
        stack = Stack(thread=thread, taken_mono_ns=self.now_ns, source="no stop", layer="merged", frames=frames)
        self.store.apply(ev.StacksSeen(stacks=(stack,), **self.stamp()))

    def begins(self, process: str) -> None:
        """A process that has just been started."""
        known = structs.replace(self.snapshot().processes[process], start_wall_ns=self.stamp()["wall_ns"])
        self.store.apply(ev.ProcessSeen(process=known, **self.stamp()))

    def all_found(self, rule: str) -> list[Finding]:
        return [one for one in self.diagnosis().findings.values() if one.rule == rule]

    def missing(self, **thread: object) -> Finding:
        """The one finding about a missing rank, once its main thread has been so for 11 s."""
        self.thread(12, pid=12, **thread)  # type: ignore[arg-type]
        return self.found("collective-missing")

    def looks_again(self) -> None:
        """Look 11 s later, when all threads are as they were."""
        self.now_ns += 11 * SECOND
        for thread in list(self.threads.values()):
            self.store.apply(ev.ThreadsSeen(threads=(thread,), **self.stamp()))
        self.store.apply(ev.Tick(**self.stamp()))

    def found(self, rule: str) -> Finding:
        self.looks_again()
        (one,) = self.all_found(rule)
        return one


@pytest.mark.invariant("rules_collectives.R1")
def test_R1_a_missing_rank_is_a_stall_by_its_own_wait() -> None:
    one = Job().missing(waits_in="Queue.get")
    assert (one.state, one.roots) == (VerdictState.STALLED, ("thread:box/12/12",))
    assert one.sentence == (
        "Rank 2 of 3 has not entered all_reduce #6 of group dp: it waits in Queue.get() for 11 s; "
        "ranks 0, 1 wait for it."
    )


@pytest.mark.invariant("rules_collectives.R1")
@pytest.mark.parametrize(
    ("thread", "state", "words"),
    [
        ({"waits_in": "sleep 600 s", "timed": True}, VerdictState.UNKNOWN, "which ends by itself"),
        ({"state": ThreadState.RUNNING}, VerdictState.RUNNING, "it computes"),
        ({"state": ThreadState.STOPPED}, VerdictState.STALLED, "its process is stopped"),
    ],
)
def test_R1_one_that_will_go_on_or_may_is_no_stall(thread: dict[str, object], state: VerdictState, words: str) -> None:
    one = Job().missing(**thread)
    assert one.state is state and words in one.sentence


@pytest.mark.parametrize(
    ("file", "name"),
    [("/venv/torch/distributed/distributed_c10d.py", "reduce_scatter #6"), ("/job/train.py", "all_reduce #6")],
)
def test_what_gloo_does_by_an_all_reduce_has_the_name_that_was_called(file: str, name: str) -> None:
    job = Job()
    for pid in (10, 11):
        frame = Frame(function="reduce_scatter_single", file=file, line=7, language="python")
        job.stack(f"thread:box/{pid}/{pid}", frame)
    assert f"Rank 2 of 3 has not entered {name} of group dp: " in job.missing(waits_in="Queue.get").sentence


@pytest.mark.invariant("rules_collectives.R1")
@pytest.mark.parametrize(
    ("each_ns", "state", "words"),
    [
        (SECOND // 100, VerdictState.UNKNOWN, "it waits in sleep 4 s, again and again; ranks 0, 1 wait for it"),
        (SECOND, VerdictState.RUNNING, "it waits in sleep 4 s"),
    ],
)
def test_R1_a_rank_that_tries_again_and_again_makes_no_progress(each_ns: int, state: VerdictState, words: str) -> None:
    """It sleeps between, and does little each time; one that does much may be at work."""
    job = Job()
    for times in range(4):
        job.now_ns += 4 * SECOND
        job.thread(12, pid=12, waits_in="sleep 4 s", timed=True, cpu_ns=times * each_ns, switches=times)
    job.store.apply(ev.Tick(**job.stamp()))
    (one,) = job.all_found("collective-missing")
    assert one.state is state and words in one.sentence
    assert job.diagnosis().verdict.state is state


@pytest.mark.invariant("rules_collectives.R1")
def test_R1_a_rank_that_goes_on_elsewhere_is_no_stall() -> None:
    one = Job(moved="2").missing(waits_in="Queue.get")
    assert one.state is VerdictState.UNKNOWN and "it goes on with other collectives" in one.sentence


def test_a_rank_whose_process_has_ended() -> None:
    job = Job()
    job.thread(12, pid=12)
    job.exits("process:box/12", -9)
    assert "its process has ended" in job.found("collective-missing").sentence


@pytest.mark.invariant("rules_collectives.R2")
def test_R2_a_collective_that_nobody_waits_for_is_no_finding() -> None:
    job = Job(0)
    assert "rank 0 waits for it" in job.missing(waits_in="Queue.get").sentence
    nobody = Job(0)
    nobody.store.apply(ev.EdgesReplaced(scope="test", edges=(), **nobody.stamp()))
    nobody.thread(12, pid=12, waits_in="Queue.get")
    nobody.later(11 * SECOND)
    assert not [one for one in nobody.diagnosis().findings.values() if one.rule.startswith("collective")]


def test_a_young_collective_is_no_finding() -> None:
    job = Job(age_s=5)
    job.thread(12, pid=12, waits_in="Queue.get")
    job.store.apply(ev.Tick(**job.stamp()))
    assert not job.all_found("collective-missing")


def test_ranks_in_a_circle_over_two_groups() -> None:
    job = Job()
    job.thread(12, pid=12, waits_in="pthread_cond_wait", timed=True)
    job.call("task:collective/ep.2/6", absent="0 1", waiting=(2,))
    one = job.found("collective-order")
    assert one.state is VerdictState.STALLED
    assert one.sentence == (
        "Ranks 0, 1 wait in all_reduce #6 of dp; rank 2 is in all_reduce #6 of ep: the groups are taken in another "
        "order."
    )
    assert not job.all_found("collective-missing")


TORCH = "/venv/lib/python3.11/site-packages/torch"
USER = Frame(function="train", file="/home/me/train.py", line=108, language="python")
BACKWARD = (
    Frame(function="c10d::Reducer::finalize_backward()", module="libtorch_cpu.so"),
    Frame(function="_engine_run_backward", file=f"{TORCH}/autograd/graph.py", line=979, language="python"),
    USER,
)
FORWARD = (
    Frame(function="all_reduce", file=f"{TORCH}/distributed/distributed_c10d.py", line=1, language="python"),
    Frame(function="Module._call_impl", file=f"{TORCH}/nn/modules/module.py", line=1, language="python"),
    USER,
)
BARRIER = (
    Frame(function="barrier", file=f"{TORCH}/distributed/distributed_c10d.py", line=5356, language="python"),
    USER,
)


class Ddp(Job):
    """Ranks 0 and 1 wait in backward; rank 2 is in a collective of another group."""

    def __init__(self, elsewhere: tuple[Frame, ...], within: tuple[Frame, ...] = BACKWARD) -> None:
        super().__init__()
        self.thread(12, pid=12, waits_in="pthread_cond_wait", timed=True)
        self.call("task:collective/ep.2/1", absent="0 1", waiting=(2,))
        for rank, frames in enumerate((within, within, elsewhere)):
            self.stack(f"thread:box/{10 + rank}/{10 + rank}", *frames)


def test_who_waits_in_backward_for_a_rank_that_has_left_the_step() -> None:
    one = Ddp(BARRIER).found("collective-order")
    assert one.state is VerdictState.STALLED
    assert one.sentence == (
        "Ranks 0, 1 wait in backward for all_reduce #6 of dp; rank 2 has left the step and is in all_reduce #1 of ep "
        "(train.py:108): parameters unused on rank 2?"
    )
    assert "find_unused_parameters" in one.next[0]


OWN = (BARRIER[0], Frame(function="Copy.backward", file="/home/me/model.py", line=7, language="python"), *BACKWARD[1:])
"""A collective of the model's own, in its backward pass."""


@pytest.mark.parametrize(
    ("elsewhere", "within"), [(FORWARD, BACKWARD), (BACKWARD, BACKWARD), (BARRIER, FORWARD), (BARRIER, OWN)]
)
def test_a_rank_that_is_in_the_step_has_not_left_it(elsewhere: tuple[Frame, ...], within: tuple[Frame, ...]) -> None:
    assert "in backward" not in Ddp(elsewhere, within).found("collective-order").sentence


@pytest.mark.parametrize(
    ("call", "signals", "state"),
    [
        ("Event.wait", "SIGUSR1", VerdictState.UNKNOWN),
        ("SimpleQueue.get", "SIGTERM", VerdictState.UNKNOWN),
        ("Event.wait", "", VerdictState.STALLED),
        ("Queue.get", "SIGUSR1", VerdictState.STALLED),  # `put` can't be called in a handler
    ],
)
def test_a_handler_of_a_signal_may_end_a_wait(call: str, signals: str, state: VerdictState) -> None:
    one = Job().known({"signals of rank 2": signals}).missing(waits_in=call)
    assert one.state is state
    assert (f"which a handler of {signals} may end" in one.sentence) is (state is VerdictState.UNKNOWN)


def test_a_checkpoint_into_a_fifo_that_nobody_reads() -> None:
    one = Job().missing(waits_in="open of /data/run 7/ckpt.fifo for writing")
    assert one.state is VerdictState.STALLED
    assert one.sentence == (
        "Rank 2 has been opening ckpt.fifo for writing for 11 s; ranks 0, 1 wait for it in all_reduce #6 of dp."
    )


@pytest.mark.parametrize(
    ("call", "other", "state"),
    [
        ("open of /data/feed.fifo for reading", "sleep 600 s", VerdictState.UNKNOWN),
        ("SemLock.acquire", "sleep 600 s", VerdictState.UNKNOWN),
        ("open of /data/feed.fifo for reading", "Queue.get", VerdictState.STALLED),
        ("Queue.get", "sleep 600 s", VerdictState.STALLED),
    ],
)
def test_another_rank_that_has_not_come_may_end_a_wait_for_what_processes_share(
    call: str, other: str, state: VerdictState
) -> None:
    job = Job(0, absent="1 2")
    job.thread(11, pid=11, waits_in=other, timed=other != "Queue.get")
    job.thread(12, pid=12, waits_in=call)
    job.later(11 * SECOND)
    found = {one.entities[1]: one for one in job.all_found("collective-missing")}
    one = found["process:box/12"]
    assert one.state is state
    assert ("which process 11 (prog11) may end" in one.sentence) is (state is VerdictState.UNKNOWN)


@pytest.mark.parametrize(("parent", "state"), [("sleep 60 s", VerdictState.UNKNOWN), ("waitpid", VerdictState.STALLED)])
def test_the_parent_may_end_a_wait_for_what_it_made_with_multiprocessing(parent: str, state: VerdictState) -> None:
    job = Job()
    job.process(9, command=("python", "train.py"))
    job.thread(9, pid=9, waits_in=parent, timed=parent != "waitpid")
    job.process(12, ppid=9, command=("python", "train.py"))
    job.thread(12, pid=12, waits_in="sem_wait", timed=False)
    library = "/usr/lib/python3.11/multiprocessing/synchronize.py"
    job.stack("thread:box/12/12", Frame(function="Event.wait", file=library, line=349, language="python"), USER)
    one = job.found("collective-missing")
    assert one.state is state
    assert ("which process 9 (python) may end" in one.sentence) is (state is VerdictState.UNKNOWN)


class Messages(Job):
    """Ranks that send or receive; nobody is in a collective."""

    def __init__(self, *calls: tuple[int, str, int]) -> None:
        super().__init__()
        gone = structs.replace(self.snapshot().tasks[CALL], state=TaskState.COMPLETED)
        self.store.apply(ev.TasksSeen(tasks=(gone,), **self.stamp()))
        self.store.apply(ev.EdgesReplaced(scope="test", edges=(), **self.stamp()))
        for rank, name, peer in calls:
            attributes = {"group": "0", "kind": name, "peer": str(peer), "tag": "0", "ranks": "2"}
            attributes |= {"in it": str(rank), "not in it": str(peer)}
            attributes |= {f"rank {one}": f"process:box/{10 + one}" for one in (rank, peer)}
            task = Task(
                id=f"task:collective/0/{name}.{rank}.{peer}.0",
                system="pytorch",
                name=f"{name} {'from' if name == 'recv' else 'to'} rank {peer}",
                kernel=name,
                state=TaskState.RUNNING,
                attributes=attributes,
            )
            self.store.apply(ev.TasksSeen(tasks=(task,), **self.stamp()))
            self.waits(f"thread:box/{10 + rank}/{10 + rank}", task.id)


def test_ranks_that_receive_from_each_other() -> None:
    one = Messages((0, "recv", 1), (1, "recv", 0)).found("collective-order")
    assert one.state is VerdictState.STALLED
    assert one.sentence == "Ranks 0 and 1 both receive from each other; no matching send was seen."
    one = Messages((0, "send", 1), (1, "send", 0)).found("collective-order")
    assert one.sentence == "Ranks 0 and 1 both send to each other; no matching receive was seen."


def test_three_ranks_that_receive_in_a_cycle_are_said_with_their_lines() -> None:
    job = Messages((0, "recv", 1), (1, "recv", 2), (2, "recv", 0))
    job.thread(12, pid=12, waits_in="recv", timed=False)
    for rank, line in ((0, 6), (1, 7), (2, 8)):
        frame = Frame(function="exchange", file="/job/ring.py", line=line, language="python")
        job.stack(f"thread:box/{10 + rank}/{10 + rank}", frame)
    where = "receive from each other in a cycle (ring.py:6, :7, :8)"
    assert job.found("collective-order").sentence == f"Ranks 0, 1, 2 {where}; no matching send was seen."


def test_another_thread_of_a_rank_may_send() -> None:
    def stands_in(file: str) -> None:
        job.stack("thread:box/10/110", Frame(function="feed", file=file, line=3, language="python"))

    job = Messages((0, "recv", 1), (1, "recv", 0))
    job.thread(110, pid=10, waits_in="sleep 600 s", timed=True)
    stands_in("/home/me/train.py")
    one = job.found("collective-order")
    assert one.state is VerdictState.UNKNOWN and "; another of their threads may do it in " in one.sentence
    stands_in("/venv/lib/python3.11/site-packages/tqdm/_monitor.py")
    (one,) = job.all_found("collective-order")
    assert one.state is VerdictState.STALLED


def test_a_chain_of_receivers_goes_on_to_who_does_not_send() -> None:
    job = Messages((0, "recv", 1), (1, "recv", 2))
    one = job.missing(waits_in="Queue.get")
    assert (one.state, one.roots) == (VerdictState.STALLED, ("thread:box/12/12",))
    assert one.sentence == (
        "Rank 1 waits in recv from rank 2, which does not send: it waits in Queue.get() for 11 s; "
        "ranks 0, 1 wait for it."
    )


def test_who_has_just_begun_to_wait_is_in_no_circle() -> None:
    """The same variables lie at the same places in each turn of a loop: how long the thread waits says more."""
    job = Messages((0, "recv", 1), (1, "recv", 0))
    job.now_ns += 11 * SECOND
    for tid in (10, 11):
        waits = "pthread_cond_wait" if tid == 10 else "sleep"
        job.thread(tid, pid=tid, waits_in=waits, timed=True)
    job.store.apply(ev.Tick(**job.stamp()))
    (one,) = [one for one in job.diagnosis().findings.values() if one.rule.startswith("collective")]
    assert (one.rule, one.state) == ("collective-missing", VerdictState.UNKNOWN)


def test_roots_that_differ() -> None:
    roots = {"root of rank 0": "0", "root of rank 1": "0", "root of rank 2": "1"}
    one = Job(absent="").known(roots, kernel="broadcast").found("collective-differs")
    assert one.state is VerdictState.STALLED
    assert one.sentence.endswith("#6 of group dp: rank 2 expects it from rank 1, the others from rank 0.")


def counted(*changes: int) -> World:
    """Ranks that have each enqueued something so many times since they are watched."""
    world = World()
    for rank, times in enumerate(changes):
        world.process(10 + rank)
        world.thread(10 + rank, pid=10 + rank)
        for value in range(times + 1):
            world.store.apply(
                ev.CounterSeen(entity=f"process:box/{10 + rank}", name=ENQUEUED, value=value, **world.stamp())
            )
    world.now_ns += 2 * SECOND
    world.store.apply(ev.Tick(**world.stamp()))
    return world


@pytest.mark.invariant("rules_progress.P1")
def test_P1_a_job_goes_on_only_if_all_its_ranks_do() -> None:
    def rules(world: World) -> set[str]:
        return {one.rule for one in world.diagnosis().findings.values()}

    assert "collective-progress" in rules(counted(3, 1, 2))
    assert "collective-progress" not in rules(counted(3, 0, 2))
    assert "collective-progress" not in rules(counted(3))
    old = counted(3, 1, 2)
    old.now_ns += 10 * SECOND
    old.store.apply(ev.Tick(**old.stamp()))
    assert "collective-progress" not in rules(old)


def test_lists_of_ranks() -> None:
    assert rank_list([2]) == "rank 2"
    assert rank_list([3, 0, 1]) == "ranks 0, 1, 3"
    assert rank_list([0, 1, 2, 3, 4, 5, 9, 11, 12], start=True) == "Ranks 0-5, 9, 11, 12"


def test_a_rank_that_has_no_process_any_more() -> None:
    job = Job(absent="").known({"ended": "2"})
    job.exits("process:box/12", -9)
    one = job.found("collective-ended")
    assert (one.state, one.roots) == (VerdictState.CRASHED, ("process:box/12",))
    assert one.sentence == (
        "Rank 2 of 3 has no process any more (ended by SIGKILL); ranks 0, 1 wait in all_reduce #6 of group dp."
    )


def test_one_thread_that_waits_for_several_collectives_is_told_with_the_oldest() -> None:
    """A backward pass of DistributedDataParallel has several under way."""
    job = Job()
    job.thread(12, pid=12, waits_in="pthread_cond_wait", timed=True)
    job.call("task:collective/dp.1/7", absent="2", waiting=(0, 1), age_s=19)
    job.call("task:collective/ep.2/6", absent="0 1", waiting=(2,))
    sentence = job.found("collective-order").sentence
    assert "all_reduce #6 of dp" in sentence and "#7" not in sentence


def test_ranks_that_sleep_for_long_are_asleep_and_those_that_nap_may_poll() -> None:
    def asleep(sleep: str, naps: int) -> bool:
        world = counted(0, 0)
        for nap in range(naps + 1):
            for rank in range(2):
                world.thread(10 + rank, pid=10 + rank, waits_in=sleep, timed=True, switches=nap)
            world.now_ns += SECOND // 5
        world.store.apply(ev.Tick(**world.stamp()))
        return "ranks-asleep" in {one.rule for one in world.diagnosis().findings.values()}

    assert asleep("sleep 3600 s", naps=0)
    assert not asleep("sleep 0.1 s", naps=20)


@pytest.mark.invariant("rules_collectives.R1")
@pytest.mark.parametrize(("age_s", "decides"), [(11, True), (2, False)])
def test_R1_a_helper_that_goes_on_beside_a_main_thread_in_one_wait_is_no_progress(age_s: int, decides: bool) -> None:
    """Its main thread is in one sleep for the threshold, or wakes now and then: then it may be on its way."""
    job = Job().known({"moves elsewhere": "2"})
    job.thread(12, pid=12, waits_in="sleep 60 s", timed=True, switches=1)
    job.now_ns += (11 - age_s) * SECOND
    job.thread(12, pid=12, waits_in="sleep 60 s", timed=True, switches=1 if age_s == 11 else 2)
    job.now_ns += age_s * SECOND
    job.store.apply(ev.Tick(**job.stamp()))
    (one,) = job.all_found("collective-missing")
    assert (one.state, one.decides) == (VerdictState.UNKNOWN, decides)


@pytest.mark.invariant("rules_collectives.R3")
@pytest.mark.parametrize(("known", "stuck"), [(("99",), False), ((), True), (("12",), True), (("98",), True)])
def test_R3_ranks_wait_for_each_other_by_the_threads_that_enter_what_is_waited_for(
    known: tuple[str, ...], stuck: bool
) -> None:
    """Rank 2 waits for the others in another group, by its main thread. It enters dp by thread 99, which computes, by
    none that is known, by its main one, or by one that has ended."""
    job = Job()
    job.thread(12, pid=12, waits_in="pthread_cond_wait", timed=True)
    job.thread(99, pid=12, state=ThreadState.RUNNING)
    job.call("task:collective/ep.2/6", absent="0 1", waiting=(2,))
    if known:
        job.known({"rank 2 enters by": " ".join(f"thread:box/12/{tid}" for tid in known)})
    job.later(11 * SECOND)
    rules = {one.rule for one in job.diagnosis().findings.values()}
    assert ("collective-order" in rules, "collective-missing" in rules) == (stuck, not stuck)
