"""Keys of a store, messages on their way, ranks that are not seen: states built by hand."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.postmortem.ended import how_ended
from livedbg.model import Task, TaskState
from livedbg.model import events as ev
from tests.adapters.pytorch.test_rules import CALL, Job
from tests.analysis.world import SECOND


class Apart(Job):
    """Three ranks; rank 0 waits in a task with some attributes."""

    def __init__(self, name: str = "store", rank: int = 0, **attributes: str) -> None:
        super().__init__()
        gone = structs.replace(self.snapshot().tasks[CALL], state=TaskState.COMPLETED)
        facts = {"kind": name, "ranks": "3"} | {f"rank {one}": f"process:box/{10 + one}" for one in range(3)}
        task = Task(
            id=f"task:collective/0/{name}.0.1",
            system="pytorch",
            name=name,
            state=TaskState.RUNNING,
            attributes=facts | {one.replace("_", " "): text for one, text in attributes.items() if text},
        )
        self.store.apply(ev.TasksSeen(tasks=(gone, task), **self.stamp()))
        self.store.apply(ev.EdgesReplaced(scope="test", edges=(), **self.stamp()))
        self.task_id = task.id
        self.main(rank, waits_in="poll of 1 descriptor", timed=True)
        self.waits(f"thread:box/{10 + rank}/{10 + rank}", task.id)

    def main(self, rank: int, **thread: object) -> None:
        self.thread(10 + rank, pid=10 + rank, **thread)  # type: ignore[arg-type]

    def rules(self) -> dict[str, Finding]:
        self.looks_again()
        return {one.rule: one for one in self.diagnosis().findings.values()}


def store_key(one: dict[str, object], other: dict[str, object]) -> Finding:
    """Rank 0 waits for a key; what the other ranks' main threads do."""
    job = Apart(keys="'ready'", in_it="0", not_in_it="1 2")
    job.main(1, **one)
    job.main(2, **other)
    return job.rules()["store-key"]


STUCK: dict[str, object] = {"waits_in": "Queue.get", "timed": False}


@pytest.mark.invariant("rules_apart.A1")
def test_A1_a_key_that_nobody_sets_is_a_stall_where_all_others_are_held_up() -> None:
    one = store_key(STUCK, STUCK)
    assert one.state is VerdictState.STALLED
    assert one.sentence == (
        "Rank 0 waits for key 'ready' of the store for 11 s, and nobody sets it; rank 1: it waits in Queue.get() for "
        "11 s; rank 2: it waits in Queue.get() for 11 s."
    )


@pytest.mark.invariant("rules_apart.A1")
@pytest.mark.parametrize(
    "other",
    [{"waits_in": "sleep 60 s", "timed": True}, {"waits_in": "pause (waits for a signal)", "timed": False}],
)
def test_A1_one_that_may_go_on_may_set_it(other: dict[str, object]) -> None:
    assert store_key(STUCK, other).state is VerdictState.UNKNOWN


@pytest.mark.invariant("rules_apart.A1")
def test_A1_who_is_not_seen_may_set_it() -> None:
    job = Apart(keys="'ready'", in_it="0", not_in_it="1", not_seen="2")
    job.main(1, **STUCK)
    one = job.rules()["store-key"]
    assert one.state is VerdictState.UNKNOWN and one.sentence.endswith(
        "rank 2 not among the processes that are watched."
    )


@pytest.mark.invariant("rules_apart.A1")
def test_A1_where_all_wait_for_keys_some_other_process_may_set_one() -> None:
    job = Apart(keys="'a' 'b'", in_it="0", not_in_it="1 2")
    for rank in (1, 2):
        job.main(rank, waits_in="poll of 1 descriptor", timed=True)
        job.waits(f"thread:box/{10 + rank}/{10 + rank}", job.task_id)
    one = job.rules()["store-key"]
    assert one.state is VerdictState.UNKNOWN
    assert one.sentence.startswith("Ranks 0, 1, 2 wait for keys 'a' 'b' of the store for 11 s")
    assert one.sentence.endswith("all 3 ranks wait for keys.")


@pytest.mark.invariant("rules_apart.A1")
def test_A1_a_helper_that_waits_for_a_key_is_none() -> None:
    job = Apart(keys="'stop'", in_it="0", not_in_it="1 2")
    job.store.apply(ev.EdgesReplaced(scope="test", edges=(), **job.stamp()))
    job.main(0, **STUCK)
    job.waits(job.thread(30, "watch", pid=10, waits_in="poll of 1 descriptor", timed=True), job.task_id)
    job.main(1, **STUCK)
    job.main(2, **STUCK)
    assert "store-key" not in job.rules()


@pytest.mark.invariant("rules_apart.A2")
@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"peer": "1", "under_way": "yes"}, "bytes between the two are on their way."),
        ({"posted": "yes"}, "recv was posted before, and which rank it is with can't be told."),
    ],
)
def test_A2_a_message_on_its_way_or_of_unknown_origin_is_unknown(facts: dict[str, str], why: str) -> None:
    job = Apart("recv", in_it="0", **facts)
    job.main(1, **STUCK)
    found = job.rules()
    assert not {name for name in found if name.startswith("collective")}
    assert found["message-wait"].state is VerdictState.UNKNOWN
    assert found["message-wait"].sentence == f"Rank 0 waits in recv for 11 s: {why}"


def not_joined(**facts: str) -> str:
    job = Apart("init_process_group", in_it="0", not_seen="1 2", **facts)
    job.begins("process:box/10")
    assert "rank-not-seen" not in {one.rule for one in job.diagnosis().findings.values()}  # it has just begun
    one = job.rules()["rank-not-seen"]
    assert one.state is VerdictState.UNKNOWN and one.decides
    return one.sentence


def test_ranks_that_have_not_come_and_are_not_seen() -> None:
    missing = "; ranks 1, 2 have not come, and are not among the processes that are watched"
    assert not_joined() == f"1 of 3 ranks is in init_process_group{missing}."
    where = {"meets_at": "10.0.0.1:29500", "connected_from": "10.0.0.7"}
    there = "1 of 3 ranks is in init_process_group at 10.0.0.1:29500"
    unseen = "; ranks 1, 2 are not among the processes that are watched"  # they may have come
    assert not_joined(**where) == f"{there}{unseen}; 10.0.0.7 has connections to it."
    where = {"meets_at": "10.0.0.1:29500", "others_connected": "1"}
    assert not_joined(**where) == f"{there}{unseen}; other processes of this host have connections to it."
    assert not_joined(meets_at="10.0.0.1:29500") == f"{there}{missing}."
    assert "at localhost:1, where nobody listens;" in not_joined(meets_at="localhost:1", nobody_listens="yes")


def test_a_rank_that_has_ended_before_it_came() -> None:
    job = Apart("init_process_group", in_it="0 1", ended="2")
    job.begins("process:box/10")
    job.exits("process:box/12", 1)
    one = job.rules()["collective-ended"]
    assert one.state is VerdictState.CRASHED
    assert (
        one.sentence == "Rank 2 of 3 has no process any more (ended with status 1); rank 0 waits in init_process_group."
    )


@pytest.mark.parametrize(
    ("status", "state"),
    [(0, "stalled"), (-15, "stalled"), (None, "stalled"), (3, "crashed"), (-11, "crashed")],
)
def test_a_rank_that_ended_badly_is_a_crash_and_one_that_was_asked_to_end_a_stall(
    status: int | None, state: str
) -> None:
    """The same of ranks that wait for its key, and of those that are in `init_process_group`."""
    for kind, facts, rule in (
        ("store", {"keys": "'ready'", "in_it": "0"}, "store-key"),
        ("init_process_group", {"in_it": "0 1"}, "collective-ended"),
    ):
        job = Apart(kind, ended="2", **facts)
        job.main(1, **STUCK)
        job.begins("process:box/10")
        job.exits("process:box/12", status)
        one = job.rules()[rule]
        assert one.state == state, (rule, one.sentence)
        assert status is None or f"ended {how_ended(status)}" in one.sentence


@pytest.mark.parametrize(("status", "state"), [(0, "unknown"), (3, "crashed")])
def test_ranks_that_poll_for_a_key_of_one_that_has_ended_are_not_running(status: int, state: str) -> None:
    """As those of a store in files do: for how long they do so is not known."""
    job = Apart("store", keys="'ready'", in_it="0 1", ended="2")
    for rank in (0, 1):
        job.main(rank, waits_in="sleep 0.01 s", timed=True)
        job.waits(f"thread:box/1{rank}/1{rank}", job.task_id)
    job.rules()
    job.exits("process:box/12", status)
    for rank in (0, 1):
        job.main(rank, waits_in="sleep 0.01 s", timed=True, cpu_ns=SECOND, switches=100)
    (one,) = job.all_found("store-key")
    assert one.state == state and "for key 'ready' of the store" in one.sentence and " for 0" not in one.sentence
    assert job.diagnosis().verdict.state == state


@pytest.mark.parametrize("late_s", [0, 12])
def test_ranks_that_are_all_in_their_start_have_been_so_for_as_long_as_the_last(late_s: int) -> None:
    job = Apart("init_process_group", in_it="0 1")
    job.main(0, waits_in="futex", timed=False)
    job.now_ns += 12 * SECOND
    job.main(0, waits_in="futex", timed=False)
    job.main(1, waits_in="futex", timed=False, cpu_ns=SECOND)
    job.waits("thread:box/11/11", job.task_id)
    job.now_ns += late_s * SECOND
    for rank in (0, 1):
        job.main(rank, waits_in="futex", timed=False)
    job.store.apply(ev.Tick(**job.stamp()))
    said = {one.rule for one in job.diagnosis().findings.values()}
    assert ("collective-differs" in said) is (late_s > 10)


@pytest.mark.parametrize(("waits", "said"), [({"waits_in": "futex", "timed": True}, True), ({"cpu_ns": 1}, False)])
def test_ranks_that_have_all_come_and_poll_are_starting(waits: dict[str, object], said: bool) -> None:
    """Who has lived for long may have been importing for most of it."""
    job = Apart("init_process_group", in_it="0 1 2")
    job.begins("process:box/10")
    job.main(0, **waits)
    if not said:
        job.now_ns += 11 * SECOND
        job.main(0, cpu_ns=2)
        job.store.apply(ev.Tick(**job.stamp()))
        assert "collective-differs" not in {one.rule for one in job.diagnosis().findings.values()}
    else:
        assert job.rules()["collective-differs"].state is VerdictState.UNKNOWN
