"""Graphs that are changed rather than built anew say what a fresh one says; and the work done stays small."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from livedbg.analysis import engine, graph, layered, order, wiring
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.graph import dead_nodes
from livedbg.analysis.layered import Arc, LayeredDigraph
from livedbg.model import EdgeKind, EdgeState, TaskState
from livedbg.model.tables import SPLIT
from livedbg.session.rulebook import diagnose, diagnostician
from tests.analysis.test_graph import LOCKS, TASKS, THREADS, edges
from tests.analysis.world import World

NODES = 9
arcs = st.sets(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=20)


def reach(arcs: set[Arc], start: int) -> set[int]:
    seen: set[int] = set()
    todo = [start]
    while todo:
        node = todo.pop()
        fresh = {b for a, b in arcs if a == node} - seen
        seen |= fresh
        todo += fresh
    return seen


def on_cycles(arcs: set[Arc]) -> set[int]:
    return {node for node in range(NODES) if node in reach(arcs, node)}


@given(arcs, st.lists(arcs, max_size=6), st.sampled_from([2, 10_000]))
@pytest.mark.invariant("layered.L1", "layered.L2")
def test_L1_L2_changed_graphs_hold_the_changed_sets_of_arcs(first: set[Arc], later: list[set[Arc]], most: int) -> None:
    with patch.object(layered, "_MOST", most):
        made = [(LayeredDigraph.of(NODES - 3, sorted(a for a in first if max(a) < NODES - 3)), first)]
        made[0] = (made[0][0], {a for a in first if max(a) < NODES - 3})
        for wanted in later:
            graph, now = made[-1]
            made.append((graph.changed(wanted - now, now - wanted), wanted))
        for graph, now in made:
            for node in range(NODES):
                assert sorted(graph.successors(node)) == sorted(b for a, b in now if a == node)
                assert sorted(graph.predecessors(node)) == sorted(a for a, b in now if b == node)
                assert graph.out_degree(node) == len(graph.successors(node))
                assert graph.in_degree(node) == len(graph.predecessors(node))
                assert all(graph.has((node, other)) == ((node, other) in now) for other in range(NODES))
                behind = {n for n in range(NODES) if node in reach(now, n)} - {node}
                assert graph.ancestors(node, lambda _: True, 99) == len(behind)
            assert graph.loops() == {a for a, b in now if a == b}
            in_order = graph.sorted_nodes()
            assert (in_order is None) == bool(on_cycles(now))
            if in_order is not None:
                assert all(list(in_order).index(a) < list(in_order).index(b) for a, b in now)
            for components in (graph.components(), graph.components_among(range(NODES))):
                at = {node: place for place, members in enumerate(components) for node in members}
                assert all(at[a] >= at[b] for a, b in now)
                assert all((at[a] == at[b]) == (b in reach(now, a) and a in reach(now, b)) for a, b in now if a != b)


@given(arcs, st.lists(arcs, min_size=1, max_size=12), st.sampled_from([3, 8, 15, 30_000]))
@pytest.mark.invariant("wiring.W1", "order.O1", "order.O2")
def test_W1_O1_O2_rewired_is_what_wired_gives(first: set[Arc], later: list[set[Arc]], search: int) -> None:
    names = [f"task:{n}" for n in range(NODES)]
    with patch.object(order, "SEARCH", search):
        now = {arc for arc in first if max(arc) < NODES - 3}
        kept = replace(wiring.wired(names[: NODES - 3], now), names=names)  # the other nodes come later
        for wanted in later:
            before = dict(kept.order.parts), kept.order.places[:]
            after = wiring.rewired(kept, sorted(wanted - now), sorted(now - wanted))
            assert before == (kept.order.parts, kept.order.places)
            kept, now, fresh = after, wanted, wiring.wired(names, wanted)
            assert (kept.roots, kept.order.parts) == (fresh.roots, fresh.order.parts)
            places = dict(enumerate(kept.order.places))
            for a, b in now:
                inside = b in kept.order.parts.get(a, ())
                assert places.get(a, a) == places.get(b, b) if inside else places.get(a, a) > places.get(b, b)


@given(arcs, arcs, st.sets(st.integers(0, NODES - 1)), st.sets(st.integers(0, NODES - 1)))
def test_what_is_known_to_be_dead_needs_no_look(
    must: set[Arc], may: set[Arc], timed: set[int], known: set[int]
) -> None:
    choices = {node: {b for a, b in may if a == node} for node in range(NODES)}
    ahead = {node: [b for a, b in sorted(must | may) if a == node] for node in range(NODES)}
    choices = {node: left - {b for a, b in must if a == node} for node, left in choices.items()}
    dead = dead_nodes(ahead.__getitem__, range(NODES), choices, timed)
    short = dead_nodes(ahead.__getitem__, range(NODES), choices, timed, known & dead)
    assert short == dead


steps = st.lists(
    st.tuples(edges, st.booleans(), st.sampled_from([False, False, True]), st.sampled_from(EdgeState)),
    min_size=1,
    max_size=40,
)


@given(steps)
@pytest.mark.invariant("graph_keeper.K1")
def test_K1_the_kept_graph_says_what_a_fresh_one_says_after_every_event(
    described: list[tuple[tuple[EdgeKind, str, str], bool, bool, EdgeState]],
) -> None:
    with patch.object(graph, "LARGE", 0), patch.object(engine, "LARGE", 0):
        world, keeper, doctor = World(), GraphKeeper(), diagnostician()
        world.process(1)
        for number in range(4):
            world.thread(number)
        for (kind, source, target), any_of, timed, state in described:
            world.edge(kind, source, target, any_of=any_of, timed=timed, state=state)
            snapshot = world.snapshot()
            kept, fresh = keeper.graph_of(snapshot), GraphKeeper().graph_of(snapshot)
            assert (kept.roots, kept.cycles) == (fresh.roots, fresh.cycles)
            for entity in (*THREADS, *LOCKS, *TASKS, "process:box/1"):
                assert kept.behind(entity) == fresh.behind(entity)
                assert list(kept.waiters_of(entity)) == list(fresh.waiters_of(entity))
                assert list(kept.blockers_of(entity)) == list(fresh.blockers_of(entity))
                assert list(kept.chain(entity)) == list(fresh.chain(entity))
                assert list(kept.waits_of(entity)) == list(fresh.waits_of(entity))
            kept_says, fresh_says = doctor.diagnose(snapshot), diagnose(snapshot)
            assert (kept_says.verdict, kept_says.findings) == (fresh_says.verdict, fresh_says.findings)


@pytest.fixture(scope="module")
def wide() -> World:
    """A world with one dependency more than a large graph has, in rows of eight tasks."""
    world = World()
    names = [world.task(f"t{n}", TaskState.SUBMITTED, None) for n in range(graph.LARGE // 2)]
    for place in range(8, len(names)):
        for back in (8, 7):
            world.edge(EdgeKind.DEPENDS_ON, names[place], names[place - back])
    for place in range(8):
        world.edge(EdgeKind.DEPENDS_ON, names[place], world.task(f"root{place}", TaskState.RUNNING, 0))
        world.edge(EdgeKind.DEPENDS_ON, names[place], world.task(f"other{place}", TaskState.RUNNING, 0))
    for place in range(8):
        world.edge(EdgeKind.DEPENDS_ON, names[8 + place], "task:nvfuser/root0")
    return world


@pytest.mark.invariant("wiring.W2")
def test_W2_a_small_change_of_a_large_graph_wires_nothing_anew(wide: World) -> None:
    keeper = GraphKeeper()
    first = keeper.graph_of(wide.snapshot())
    assert first.large and len(wide.snapshot().edges) > SPLIT
    assert not first.cycles and len(first.roots) == 16 and first.behind(first.roots[0]) > 1_000
    with patch.object(engine, "wired") as anew, patch.object(wiring, "ordered") as all_cycles:
        new = wide.task("new", TaskState.SUBMITTED, None)
        wide.edge(EdgeKind.DEPENDS_ON, new, "task:nvfuser/t500")
        after = keeper.graph_of(wide.snapshot())
        wide.edge(EdgeKind.DEPENDS_ON, "task:nvfuser/root7", new)
        closed = keeper.graph_of(wide.snapshot())
        wide.edge(EdgeKind.DEPENDS_ON, "task:nvfuser/root7", new, state=EdgeState.SATISFIED)
        opened = keeper.graph_of(wide.snapshot())
    assert not anew.called and not all_cycles.called
    assert new in after.waiters_of("task:nvfuser/t500") and new not in first.waiters_of("task:nvfuser/t500")
    (cycle,) = closed.cycles
    assert {new, "task:nvfuser/t500", "task:nvfuser/root7"} <= set(cycle)
    assert not opened.cycles and not first.cycles
    assert (opened.roots, after.roots) == (first.roots, first.roots) and "task:nvfuser/root7" not in closed.roots


@pytest.mark.invariant("order.O3")
def test_O3_an_arc_that_fits_the_order_is_not_searched_for(wide: World) -> None:
    keeper = GraphKeeper()
    keeper.graph_of(wide.snapshot())
    first, last = "task:nvfuser/t8", f"task:nvfuser/t{graph.LARGE // 2 - 1}"
    with patch.object(LayeredDigraph, "successors", side_effect=AssertionError) as searched:
        wide.edge(EdgeKind.DEPENDS_ON, last, first)
        assert not keeper.graph_of(wide.snapshot()).wiring.order.parts
        wide.edge(EdgeKind.DEPENDS_ON, last, first, state=EdgeState.SATISFIED)
        assert not keeper.graph_of(wide.snapshot()).wiring.order.parts
    assert not searched.called


@pytest.mark.invariant("order.O3")
def test_O3_a_cycle_is_searched_for_between_the_places_of_its_ends(wide: World) -> None:
    keeper = GraphKeeper()
    looked: list[int] = []
    keeper.graph_of(wide.snapshot())
    with patch.object(LayeredDigraph, "successors", autospec=True, side_effect=LayeredDigraph.successors) as ahead:
        for waiter, blocker in ((5000, 5016), (100, 116), (9000, 9016)):
            names = f"task:nvfuser/t{waiter}", f"task:nvfuser/t{blocker}"
            wide.edge(EdgeKind.DEPENDS_ON, *names)
            (cycle,) = keeper.graph_of(wide.snapshot()).cycles
            assert set(names) < set(cycle)
            wide.edge(EdgeKind.DEPENDS_ON, *names, state=EdgeState.SATISFIED)
            assert not keeper.graph_of(wide.snapshot()).cycles
            looked.append(ahead.call_count)
            ahead.reset_mock()
    assert max(looked) < 200


def test_what_waits_behind_something_that_all_wait_for_is_counted_without_a_look_at_all() -> None:
    world = World()
    hub, gate = (world.task(name, TaskState.RUNNING, 0) for name in ("hub", "gate"))
    for number in range(graph.LARGE // 2 + 1):
        for blocker in (hub, gate):
            world.edge(EdgeKind.DEPENDS_ON, world.task(f"t{number}", TaskState.SUBMITTED, None), blocker)
    kept = GraphKeeper().graph_of(world.snapshot())
    with patch.object(LayeredDigraph, "ancestors", side_effect=AssertionError):
        assert (list(kept.roots), kept.behind(gate)) == (sorted([hub, gate]), graph.BEHIND)


def test_a_circle_of_thousands_is_one_finding_with_bounded_evidence() -> None:
    world = World()
    names = [world.task(f"t{n}", TaskState.SUBMITTED, None) for n in range(graph.LARGE + 1)]
    for number, name in enumerate(names):
        world.edge(EdgeKind.DEPENDS_ON, name, names[number - 1])
    diagnosis = diagnose(world.snapshot())
    (cycle,) = diagnosis.graph.cycles
    assert list(cycle) == sorted(names)
    (finding,) = diagnosis.findings.values()
    assert (finding.rule, len(finding.evidence), set(finding.entities)) == ("task-cycle", 200, set(names))
    assert finding.sentence.startswith("Deadlock of 20,001 tasks: t0 K → ")
