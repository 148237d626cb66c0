"""The wait-for graph against plain, slow definitions of what it should say."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.analysis import NO_DIAGNOSIS, blocking
from livedbg.analysis.blocking import Blocking
from livedbg.analysis.diagnosis import WaitGraph
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.graph import Graph
from livedbg.model import EdgeKind, EdgeState, TaskState, ThreadState
from livedbg.model.snapshot import EMPTY, Snapshot
from tests.analysis.world import World, two_locks

Pairs = dict[str, set[str]]


def build(snapshot: Snapshot) -> Graph:
    return GraphKeeper().graph_of(snapshot)


def blocking_of(snapshot: Snapshot) -> Blocking:
    found = blocking.blocking_of(snapshot)
    found.pairs += [(source, target) for _, source, target in snapshot.dependencies]
    return found


THREADS = [f"thread:box/1/{n}" for n in range(4)]
LOCKS = [f"{kind}:box/1/{n:#x}" for n, kind in enumerate(("mutex", "mutex", "pipe", "gil"))]
TASKS = [f"task:x/{n}" for n in range(3)]
edges = st.one_of(
    st.tuples(st.just(EdgeKind.WAITS_FOR), st.sampled_from(THREADS), st.sampled_from([*LOCKS, *THREADS, *TASKS])),
    st.tuples(st.just(EdgeKind.HOLDS), st.sampled_from([*THREADS, "process:box/1"]), st.sampled_from(LOCKS)),
    st.tuples(st.just(EdgeKind.DEPENDS_ON), st.sampled_from(TASKS), st.sampled_from([*TASKS, *THREADS])),
)
flagged = st.tuples(edges, st.booleans(), st.sampled_from([False, False, True]), st.sampled_from(EdgeState))
worlds = st.lists(flagged, max_size=14)


def world_of(described: Iterable[tuple[tuple[EdgeKind, str, str], bool, bool, EdgeState]]) -> World:
    world = World()
    world.process(1)
    for number in range(4):
        world.thread(number)
    for lock in LOCKS:
        world.resource(lock)
    for (kind, source, target), any_of, timed, state in described:
        world.edge(kind, source, target, any_of=any_of, timed=timed, state=state)
    return world


def reference_dead(waits: Pairs, choices: set[tuple[str, str]], timed: set[str]) -> set[str]:
    """Greatest fixpoint, by the definition: all are dead until shown to go on."""
    dead = set(waits)
    while True:
        live = set()
        for node in dead:
            must = [w for w in waits[node] if (node, w) not in choices]
            may = [w for w in waits[node] if (node, w) in choices]
            free = all(w not in dead for w in must) and (not may or any(w not in dead for w in may))
            if node in timed or free:
                live.add(node)
        if not live:
            return dead
        dead -= live


def reaches(waits: Pairs, start: str, inside: set[str]) -> set[str]:
    seen: set[str] = set()
    todo = [w for w in waits[start] if w in inside]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += [w for w in waits[node] if w in inside]
    return seen


@given(worlds)
@pytest.mark.invariant("graph.G1")
def test_G1_cycles_are_the_circles_that_nobody_can_leave(
    described: list[tuple[tuple[EdgeKind, str, str], bool, bool, EdgeState]],
) -> None:
    snapshot = world_of(described).snapshot()
    blocking = blocking_of(snapshot)
    waits: Pairs = {}
    for waiter, blocker in blocking.pairs:
        waits.setdefault(waiter, set()).add(blocker)
        waits.setdefault(blocker, set())
    dead = reference_dead(waits, blocking.any_of, blocking.timed)
    ahead = {node: reaches(waits, node, dead) for node in dead}
    circles = {
        frozenset(other for other in dead if other in ahead[node] and node in ahead[other])
        for node in dead
        if node in ahead[node]
    }
    assert {frozenset(cycle) for cycle in build(snapshot).cycles} == circles


@given(worlds)
@pytest.mark.invariant("graph.G2", "graph.G3")
def test_G2_G3_roots_and_what_waits_behind(
    described: list[tuple[tuple[EdgeKind, str, str], bool, bool, EdgeState]],
) -> None:
    snapshot = world_of(described).snapshot()
    graph, blocking = build(snapshot), blocking_of(snapshot)
    waits: Pairs = {}
    for waiter, blocker in blocking.pairs:
        waits.setdefault(waiter, set()).add(blocker)
        waits.setdefault(blocker, set())
    everybody = set(waits)
    roots = {b for _, b in blocking.pairs if not waits[b]}
    assert set(graph.roots) == roots
    assert [graph.behind(root) for root in graph.roots] == sorted(map(graph.behind, graph.roots), reverse=True)
    for node in waits:
        waiting = {w for w in everybody if node in reaches(waits, w, everybody) and w != node}
        counted = {w for w in waiting if w.startswith(("thread:", "process:", "task:"))} - blocking.stand_ins
        assert graph.behind(node) == len(counted)
        assert set(graph.blockers_of(node)) == waits[node]
        assert set(graph.waiters_of(node)) == {w for w in waits if node in waits[w]}


@pytest.mark.invariant("blocking.B1")
def test_B1_only_pending_edges_block() -> None:
    world = World()
    a, b = world.task("a", TaskState.SUBMITTED, 0), world.task("b", TaskState.RUNNING, 0)
    for state in (EdgeState.SATISFIED, EdgeState.MISSING):
        world.edge(EdgeKind.DEPENDS_ON, a, b, state=state)
        assert not build(world.snapshot()).roots
    world.edge(EdgeKind.DEPENDS_ON, a, b)
    assert build(world.snapshot()).roots == [b]


def test_a_chain_goes_to_the_root_or_once_round() -> None:
    graph = build(two_locks().snapshot())
    assert graph.chain("thread:box/1/13") == [
        "thread:box/1/13",
        "mutex:box/1/0x10",
        "thread:box/1/11",
        "mutex:box/1/0x20",
        "thread:box/1/12",
    ]
    assert graph.chain("nobody") == []


def test_the_edges_behind_a_wait() -> None:
    graph = build(two_locks().snapshot())
    assert [edge.kind for edge in graph.waits_of("thread:box/1/11")] == [EdgeKind.WAITS_FOR]
    (held,) = graph.waits_of("mutex:box/1/0x10")
    assert (held.kind, held.source) == (EdgeKind.HOLDS, "thread:box/1/11")


def test_the_graph_of_nothing() -> None:
    graphs: list[WaitGraph] = [build(EMPTY), NO_DIAGNOSIS.graph]
    for graph in graphs:
        assert not graph.cycles and not graph.roots and not graph.waits_of("x") and not graph.behind("x")


def test_the_graph_is_kept_while_only_activity_changed() -> None:
    world, keeper = two_locks(), GraphKeeper()
    first = keeper.graph_of(world.snapshot())
    assert keeper.graph_of(world.later().snapshot()) is first
    world.thread(14, state=ThreadState.STOPPED)
    assert keeper.graph_of(world.snapshot()) is not first


@given(worlds, worlds)
def test_one_keeper_says_what_a_fresh_one_says(
    before: list[tuple[tuple[EdgeKind, str, str], bool, bool, EdgeState]],
    after: list[tuple[tuple[EdgeKind, str, str], bool, bool, EdgeState]],
) -> None:
    world, keeper = world_of(before), GraphKeeper()
    keeper.graph_of(world.snapshot())
    for (kind, source, target), any_of, timed, state in after:
        world.edge(kind, source, target, any_of=any_of, timed=timed, state=state)
    kept, fresh = keeper.graph_of(world.snapshot()), build(world.snapshot())
    assert (kept.roots, kept.cycles) == (fresh.roots, fresh.cycles)


@pytest.mark.invariant("blocking.B2")
def test_B2_a_wait_for_a_part_gives_way_to_that_for_the_whole() -> None:
    world = World()
    world.process(1)
    both, inner = world.thread(11), world.thread(12)
    whole, part = world.resource("pylock:box/1/0x1"), world.resource("sem:box/1/0x2")
    world.edge(EdgeKind.PART_OF, part, whole)
    world.waits(both, part)
    world.waits(both, whole)
    world.waits(inner, part)
    assert sorted(blocking.blocking_of(world.snapshot()).pairs) == [(both, whole), (inner, part)]
