"""What is shown, look after look, is what the state has in the end; and nothing is said twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from livedbg.model import (
    Diagnostic,
    Edge,
    EdgeKey,
    EdgeKind,
    ExceptionHit,
    Frame,
    Resource,
    Severity,
    SourceHealth,
    Stack,
    Task,
    TaskState,
)
from livedbg.model.events import (
    DiagnosticSeen,
    EdgesAdded,
    EdgesRemoved,
    EdgesReplaced,
    Event,
    Stamp,
    StatusSeen,
    TasksSeen,
)
from livedbg.model.snapshot import CounterKey, StatusKey
from livedbg.session.publisher import EdgeBook, Publisher, Statuses
from livedbg.state.merging import merge_task
from livedbg.state.store import Store

NAMES = st.sampled_from(["a", "b", "c"])
STATES = st.sampled_from([TaskState.SUBMITTED, TaskState.RUNNING, TaskState.COMPLETED])
TASKS = st.builds(
    Task, id=NAMES.map("task:x/{}".format), system=st.just("x"), name=st.just(""), state=STATES,
    kernel=st.sampled_from([None, "k"]), since_mono_ns=st.none() | st.integers(0, 3),
)  # fmt: skip
RESOURCES = st.builds(Resource, id=NAMES.map("core:x/{}".format), kind=st.just("core"), state=st.none() | NAMES)
EDGES = st.builds(
    Edge, kind=st.sampled_from([EdgeKind.WAITS_FOR, EdgeKind.HOLDS]), source=NAMES, target=NAMES, evidence=NAMES
)  # fmt: skip
DIAGNOSTICS = st.builds(
    Diagnostic, id=NAMES, system=st.just("x"), code=st.just("slow"), severity=st.just(Severity.INFO), sentence=NAMES
)  # fmt: skip
STACKS = st.builds(
    Stack, thread=NAMES, frames=st.just((Frame("f"),)) | st.just((Frame("g"),)), source=st.just("glance"),
    taken_mono_ns=st.integers(0, 99),
)  # fmt: skip
COUNTS = st.dictionaries(st.tuples(NAMES, NAMES), st.tuples(st.integers(0, 2), st.none() | st.integers(0, 2)))
LOOKS = st.fixed_dictionaries(
    {
        "tasks": st.lists(TASKS, max_size=4, unique_by=lambda task: task.id),
        "stacks": st.lists(STACKS, max_size=3, unique_by=lambda stack: stack.thread),
        "resources": st.lists(RESOURCES, max_size=3, unique_by=lambda resource: resource.id),
        "edges": st.lists(EDGES, max_size=4),
        "counters": COUNTS,
        "diagnostics": st.lists(DIAGNOSTICS, max_size=3, unique_by=lambda one: one.id),
    }
)


def stamp(at_ns: int = 1) -> Stamp:
    return {"host": "box", "mono_ns": at_ns, "wall_ns": at_ns}


def shown_and_folded(looks: list[dict[str, Any]]) -> tuple[Publisher, Store]:
    publisher, store = Publisher("x"), Store()
    for at, look in enumerate(looks):
        store.apply_all(publisher.show(stamp(100 + at), **look))
    return publisher, store


@pytest.mark.invariant("publisher.U1")
@given(st.lists(LOOKS, min_size=1, max_size=5))
def test_U1_the_state_has_what_was_shown_last(looks: list[dict[str, Any]]) -> None:
    snapshot, last = shown_and_folded(looks)[1].snapshot(), looks[-1]
    tasks = {task.id: task for task in last["tasks"]}
    assert all(merge_task(snapshot.tasks[name], task) == snapshot.tasks[name] for name, task in tasks.items())
    over = [task for name, task in snapshot.tasks.items() if name not in tasks]
    assert {task.state for task in over} <= {TaskState.COMPLETED}
    assert dict(snapshot.edges) == {edge.key: edge for edge in last["edges"]}
    assert {one.id: snapshot.resources[one.id] for one in last["resources"]} == {r.id: r for r in last["resources"]}
    counters = {CounterKey(*key): count for key, count in last["counters"].items()}
    assert {key: (snapshot.counters[key].value, snapshot.counters[key].total) for key in counters} == counters
    standing = {n: one for n, one in snapshot.diagnostics.items() if not one.resolved}
    assert standing == {one.id: one for one in last["diagnostics"]}
    assert {one.thread: snapshot.stacks[one.thread].frames for one in last["stacks"]} == {
        one.thread: one.frames for one in last["stacks"]
    }


@pytest.mark.invariant("publisher.U2")
@given(st.lists(LOOKS, min_size=1, max_size=3))
def test_U2_what_is_shown_again_is_no_event(looks: list[dict[str, Any]]) -> None:
    publisher, _ = shown_and_folded(looks)
    later = [structs.replace(stack, taken_mono_ns=500) for stack in looks[-1]["stacks"]]
    assert publisher.show(stamp(501), **{**looks[-1], "stacks": later}) == []
    assert publisher.show(stamp(502)) == [] == publisher.add(stamp(502))
    assert bool(publisher.clear(stamp(503))) >= bool(looks[-1]["edges"] or looks[-1]["diagnostics"])
    assert publisher.clear(stamp(504)) == []


@pytest.mark.invariant("publisher.U1")
@given(st.lists(st.lists(EDGES, max_size=4) | st.none() | st.tuples(NAMES, NAMES), max_size=6))
def test_U1_edges_that_come_and_go_one_by_one(steps: list[Any]) -> None:
    book, store, expected = EdgeBook("x"), Store(), dict[EdgeKey, Edge]()
    for step in steps:
        if step is None:
            book.clear()
            expected = {}
        elif isinstance(step, tuple):
            book.drop([EdgeKey(EdgeKind.WAITS_FOR, *step)])
            expected.pop(EdgeKey(EdgeKind.WAITS_FOR, *step), None)
        else:
            book.put(step)
            expected |= {edge.key: edge for edge in step}
        if len(expected) % 2:
            store.apply_all(book.events(stamp()))
    store.apply_all(book.events(stamp()))
    assert dict(store.snapshot().edges) == expected and list(book.events(stamp())) == []


def test_an_edge_that_comes_and_goes_between_two_calls_is_no_news() -> None:
    book, edge = EdgeBook("x"), Edge(kind=EdgeKind.HOLDS, source="t", target="a")
    book.put([edge])
    book.drop([edge.key])
    assert all(isinstance(event, EdgesRemoved) for event in book.events(stamp()))
    book.put([edge])
    assert [type(event) for event in book.events(stamp())] == [EdgesAdded]
    book.drop([edge.key])
    book.put([edge])
    assert [type(event) for event in book.events(stamp())] == [EdgesAdded]


def test_an_edge_holds_since_it_was_first_shown() -> None:
    publisher = Publisher("x")
    first, second = (Edge(kind=EdgeKind.HOLDS, source="t", target=name) for name in "ab")
    own = structs.replace(second, since_mono_ns=7)
    publisher.show(stamp(10), edges=[first], since_ns=5)
    (event,) = publisher.show(stamp(20), edges=[first, own], since_ns=15)
    assert isinstance(event, EdgesReplaced) and [edge.since_mono_ns for edge in event.edges] == [5, 7]
    assert publisher.show(stamp(30), edges=[own, first], since_ns=25) == []
    publisher.show(stamp(40), edges=[])
    (again,) = publisher.show(stamp(50), edges=[first], since_ns=45)
    assert isinstance(again, EdgesReplaced) and again.edges[0].since_mono_ns == 45


@pytest.mark.parametrize(("dated", "since_ns"), [(True, 20), (False, None)])
def test_a_task_of_a_log_has_not_ended_when_the_log_was_read(dated: bool, since_ns: int | None) -> None:
    publisher = Publisher("x", dated=dated)
    publisher.show(stamp(10), tasks=[Task(id="task:x/1", system="x", name="1", state=TaskState.SUBMITTED)])
    (event,) = publisher.show(stamp(20), tasks=[])
    assert isinstance(event, TasksSeen)
    assert (event.tasks[0].state, event.tasks[0].since_mono_ns) == (TaskState.COMPLETED, since_ns)


def test_a_part_that_is_added_takes_nothing_back() -> None:
    publisher, hit = Publisher("x"), ExceptionHit(id="e", type="E", message="")
    ones = [Diagnostic(id=name, system="x", code="c", severity=Severity.INFO, sentence="s") for name in "ab"]
    assert len(publisher.add(stamp(), diagnostics=ones[:1], exceptions=[hit])) == 2
    (event,) = publisher.add(stamp(), diagnostics=ones, exceptions=[hit])
    assert isinstance(event, DiagnosticSeen) and event.diagnostic.id == "b"
    (over,) = publisher.show(stamp(), diagnostics=ones[1:])
    assert isinstance(over, DiagnosticSeen)
    assert (over.diagnostic.id, over.diagnostic.resolved) == ("a", True)


def test_many_tasks_are_several_events() -> None:
    many = [Task(id=f"task:x/{number}", system="x", name="") for number in range(12_000)]
    events = Publisher("x").show(stamp(), tasks=many)
    assert [len(event.tasks) for event in events if isinstance(event, TasksSeen)] == [5_000, 5_000, 2_000]


class Kept:
    """A context that keeps the statuses."""

    def __init__(self) -> None:
        self.store, self.count = Store(), 0
        self.context: Any = SimpleNamespace(stamp=stamp, emit=self._emit)

    def _emit(self, *events: Event) -> None:
        assert all(isinstance(event, StatusSeen) for event in events)
        self.count += len(events)
        self.store.apply_all(events)

    def bad(self, target: str = "t") -> dict[str, str]:
        statuses = self.store.snapshot().statuses.values()
        return {s.code: s.sentence for s in statuses if s.target == target and s.health is not SourceHealth.OK}


@pytest.mark.invariant("publisher.U3")
def test_U3_a_status_is_said_once_and_withdrawn_once() -> None:
    kept, statuses = Kept(), Statuses("x")
    statuses.withdraw(kept.context, "t", "slow")
    assert kept.count == 0
    for sentence in ("S", "S", "T"):
        statuses.say(kept.context, "t", "slow", sentence)
    assert kept.count == 2 and kept.bad() == {"slow": "T"}
    statuses.say(kept.context, "u", "slow", "U")
    for _ in range(2):
        statuses.withdraw(kept.context, "t")
    assert kept.count == 4 and kept.bad() == {} and kept.bad("u")
    statuses.say(kept.context, "t", "ready", "R", health=SourceHealth.OK)
    statuses.withdraw(kept.context, "t")
    assert kept.store.snapshot().statuses[StatusKey("x", "t", "ready")].sentence == "R"
    statuses.say(kept.context, "t", "slow", "T")
    assert kept.bad() == {"slow": "T"}
    key = StatusKey("x", "t", "slow")
    assert kept.store.snapshot().statuses[key].sentence == "T"


@pytest.mark.invariant("publisher.U3")
def test_U3_all_that_is_wrong_withdraws_the_rest() -> None:
    kept, statuses = Kept(), Statuses("x")
    statuses.only(kept.context, "t", {})
    statuses.only(kept.context, "t", {"slow": ("S", ""), "late": ("L", "")})
    assert kept.count == 2
    statuses.only(kept.context, "t", {"late": ("L", ""), "deaf": ("D", "wait")})
    assert kept.bad() == {"late": "L", "deaf": "D"} and kept.count == 4
    statuses.withdraw(kept.context, "t", "deaf", "unknown")
    statuses.only(kept.context, "t", {})
    assert kept.bad() == {} and kept.count == 6
