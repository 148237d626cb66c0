"""The wait-for graph at its edges, on small states: knots that some can leave, ranks, and what a change costs."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator
from math import nextafter
from random import Random
from unittest.mock import patch

import pytest

from livedbg.analysis import engine, graph, layered, order, wiring
from livedbg.analysis.engine import Diagnostician, GraphKeeper
from livedbg.analysis.graph import Graph
from livedbg.analysis.layered import Arc, LayeredDigraph
from livedbg.analysis.rules.base import Judged
from livedbg.analysis.tasks import ShardMemo
from livedbg.model import EdgeKind, EdgeState, TaskState, ThreadState
from livedbg.model.tables import FrozenTable
from livedbg.session.rulebook import all_rules
from tests.analysis.world import World


def threads(*names: str) -> tuple[World, list[str]]:
    world = World()
    world.process(1)
    return world, [world.thread(11 + number, name) for number, name in enumerate(names)]


def tasks(*names: str) -> tuple[World, list[str]]:
    world = World()
    return world, [world.task(name, TaskState.SUBMITTED, None) for name in names]


def graph_of(world: World) -> Graph:
    return GraphKeeper().graph_of(world.snapshot())


@pytest.mark.invariant("graph.G1")
def test_G1_who_can_leave_a_knot_is_not_of_the_cycle() -> None:
    world, (a, b, leaves, behind, free) = threads("a", "b", "leaves", "behind", "free")
    for blocker in (b, leaves, behind):
        world.waits(a, blocker)
    world.waits(b, a)
    world.waits(leaves, a, free)  # either will do
    world.waits(behind, leaves)
    world.waits(behind, a)
    world.waits(leaves, behind, free)
    made = graph_of(world)
    (cycle,) = made.cycles
    assert set(cycle) == {a, b, behind}
    assert made.chain(leaves)[0] == leaves and made.behind(a) == 3


@pytest.mark.invariant("graph.G1")
def test_G1_who_only_waits_for_a_cycle_is_not_of_it() -> None:
    world, (a, b, leaves, behind, free) = threads("a", "b", "leaves", "behind", "free")
    world.waits(a, b)
    world.waits(b, a)
    world.waits(a, leaves)
    world.waits(leaves, behind, free)
    world.waits(behind, a)
    assert graph_of(world).cycles == [(a, b)]


@pytest.mark.invariant("graph.G1")
def test_G1_a_wait_for_oneself_is_a_cycle_of_one() -> None:
    world, (alone, other, free) = threads("alone", "other", "free")
    world.waits(alone, alone)
    assert graph_of(world).cycles == [(alone,)]
    world.waits(alone, other, free)
    world.waits(other, alone, timed=True)
    assert graph_of(world).cycles == [(alone,)]  # by itself, whatever the other does
    world, (alone, free) = threads("alone", "free")
    world.waits(alone, alone, free)
    assert not graph_of(world).cycles


@pytest.mark.invariant("graph.G1")
def test_G1_one_wait_with_a_time_limit_breaks_its_cycle_and_no_other() -> None:
    world, (a, b, c, d) = threads("a", "b", "c", "d")
    world.waits(a, b, timed=True)
    world.waits(b, a)
    assert not graph_of(world).cycles
    world.waits(c, d)
    world.waits(d, c)
    assert graph_of(world).cycles == [(c, d)]


def test_cycles_stand_by_what_waits_behind_them_and_then_by_name() -> None:
    world, (a, b, c, d, e, f, g) = threads(*"abcdefg")
    for one, other in ((a, b), (c, d), (e, f)):
        world.waits(one, other)
        world.waits(other, one)
    assert graph_of(world).cycles == [(a, b), (c, d), (e, f)]
    world.waits(g, d)
    assert graph_of(world).cycles == [(c, d), (a, b), (e, f)]


def test_a_cycle_is_told_in_the_order_of_its_waits_from_its_first_thread() -> None:
    world, (a, b, c) = threads("a", "b", "c")
    locks = [world.lock(number) for number in (0x10, 0x20, 0x30)]
    for thread, lock, holder in ((c, locks[0], b), (b, locks[1], a), (a, locks[2], c)):
        world.waits(thread, lock)
        world.holds(lock, holder)
    ring = (a, locks[2], c, locks[0], b, locks[1])
    assert graph_of(world).cycles == [ring]
    with patch.object(graph, "RING", 6):
        assert graph_of(world).cycles == [ring]
    with patch.object(graph, "RING", 5):
        assert graph_of(world).cycles == [tuple(sorted(ring))]


def test_a_chain_turns_to_the_deadlock_where_it_could_go_elsewhere() -> None:
    world, (start, root, a, b) = threads("start", "root", "a", "b")
    for blocker in (a, root):
        world.waits(start, blocker)
    world.waits(a, b)
    world.waits(b, a)
    assert graph_of(world).chain(start) == [start, a, b]
    assert graph_of(world).chain(root) == [root]
    world, (start, first, second) = threads("start", "first", "second")
    for blocker in (second, first):
        world.waits(start, blocker)
    assert graph_of(world).chain(start) == [start, graph_of(world).blockers_of(start)[0]]


def test_who_waits_for_one_stands_in_the_order_of_the_waits_and_in_a_large_graph_by_name() -> None:
    world, (root, *waiters) = tasks("root", "c", "a", "b")
    for waiter in waiters:
        world.edge(EdgeKind.DEPENDS_ON, waiter, root)
    for lock in (world.lock(0x20), world.lock(0x10)):
        world.waits(waiters[0], lock)
    made = graph_of(world)
    assert made.waiters_of(root) == waiters
    assert made.blockers_of(waiters[0])[-2:] == ["mutex:box/1/0x20", "mutex:box/1/0x10"]
    with patch.object(engine, "LARGE", 0):
        assert graph_of(world).waiters_of(root) == sorted(waiters)


def test_a_chain_goes_on_past_a_semaphore_that_nobody_holds() -> None:
    """`Thread.join` is a wait for a semaphore, and for the thread: whichever of both is reported first."""
    for first in (True, False):
        world = World()
        start, joined, sem = world.thread(1), world.thread(2), world.resource("sem:box/1/0x10")
        for target in (sem, joined) if first else (joined, sem):
            world.waits(start, target)
        assert graph_of(world).chain(start) == [start, joined]


def test_who_stands_alone_has_no_chain() -> None:
    world, (a, b, alone) = tasks("a", "b", "alone")
    world.edge(EdgeKind.DEPENDS_ON, a, b)
    world.edge(EdgeKind.DEPENDS_ON, alone, b, state=EdgeState.SATISFIED)
    made = graph_of(world)
    assert made.chain(alone) == [] and made.chain(b) == [b] and made.chain(a) == [a, b]
    assert not made.waiters_of("task:nvfuser/none") and not made.blockers_of("task:nvfuser/none")


def test_all_kinds_of_edges_behind_a_wait_are_found() -> None:
    world, (a, b) = threads("a", "b")
    lock = world.lock(0x10)
    one, other = world.task("one", TaskState.SUBMITTED, None), world.task("other", TaskState.RUNNING, 0)
    world.waits(a, lock)
    world.holds(lock, b)
    world.edge(EdgeKind.DEPENDS_ON, one, other)
    made = graph_of(world)
    edges = [edge for entity in (a, lock, one) for edge in made.waits_of(entity)]
    assert [edge.kind for edge in edges] == [EdgeKind.WAITS_FOR, EdgeKind.HOLDS, EdgeKind.DEPENDS_ON]
    assert [(edge.source, edge.target) for edge in edges] == [(a, lock), (b, lock), (one, other)]


def ranked(roots: int, *large: int) -> list[str]:
    """The roots of a graph, each with one direct waiter; more waits behind the last one and the one before it."""
    world = World()
    names = [world.task(f"r{number:03}", TaskState.RUNNING, 0) for number in range(roots)]
    for number, name in enumerate(names):
        waiter = world.task(f"w{number:03}", TaskState.SUBMITTED, None)
        world.edge(EdgeKind.DEPENDS_ON, waiter, name)
        for further in range(number - roots + 3):
            behind = world.task(f"x{number:03}-{further}", TaskState.SUBMITTED, None)
            world.edge(EdgeKind.DEPENDS_ON, behind, waiter)
    return [name.rpartition("/")[2] for name in graph_of(world).roots]


def test_roots_are_ranked_by_all_that_waits_behind_them_those_with_most_direct_waiters_first() -> None:
    assert ranked(1) == ["r000"]
    assert ranked(256)[:3] == ["r255", "r254", "r000"]
    late = ranked(257)
    assert (late[:2], late[-2:]) == (["r255", "r000"], ["r254", "r256"])  # one more than are ranked
    with patch.object(engine, "LARGE", 0):
        assert ranked(16)[:3] == ["r015", "r014", "r000"]
        late = ranked(17)
        assert (late[:2], late[-2:]) == (["r015", "r000"], ["r014", "r016"])


def test_a_large_graph_counts_no_further_than_it_says() -> None:
    def fan(waiters: int) -> Graph:
        world = World()
        root = world.task("root", TaskState.RUNNING, 0)
        first = world.task("w", TaskState.SUBMITTED, None)
        world.edge(EdgeKind.DEPENDS_ON, first, root)
        for number in range(waiters - 1):
            world.edge(EdgeKind.DEPENDS_ON, world.task(f"w{number}", TaskState.SUBMITTED, None), first)
        return graph_of(world)

    with patch.object(graph, "BEHIND", 4):
        assert [fan(waiters).behind("task:nvfuser/root") for waiters in (3, 4, 6)] == [3, 4, 6]
        with patch.object(engine, "LARGE", 0):
            assert [fan(waiters).behind("task:nvfuser/root") for waiters in (3, 4, 6)] == [3, 4, 4]
            assert [fan(waiters).behind("task:nvfuser/w") for waiters in (5, 6, 7)] == [4, 4, 4]
            assert fan(4).behind("task:nvfuser/w") == 3


def test_behind_a_member_of_a_cycle_are_the_others_and_all_that_wait_for_them() -> None:
    world, (a, b, c) = threads("a", "b", "c")
    lock = world.lock(0x10)
    world.waits(a, lock)
    world.holds(lock, b)
    world.waits(b, a)
    world.waits(c, b)
    made = graph_of(world)
    assert [made.behind(entity) for entity in (a, b, lock, c)] == [2, 2, 3, 0]
    with patch.object(graph, "BEHIND", 2), patch.object(engine, "LARGE", 0):
        for order_of_asking in ((a, b, lock, c), (lock, c, b, a)):
            made = graph_of(world)
            asked = {entity: made.behind(entity) for entity in order_of_asking}
            assert asked == {a: 2, b: 2, lock: 2, c: 0}


def test_locks_that_a_thread_holds_are_none_of_those_behind_it() -> None:
    world, (holder, waiter) = threads("holder", "waiter")
    for number in range(5):
        world.holds(world.lock(0x10 + number), holder)
    world.waits(waiter, "mutex:box/1/0x10")
    for large in (0, 100):
        with patch.object(graph, "BEHIND", 2), patch.object(engine, "LARGE", large):
            assert graph_of(world).behind(holder) == 1


def test_in_a_large_graph_roots_are_ranked_by_what_a_short_count_finds() -> None:
    world = World()
    for root, waiters in (("a", 1), ("b", 2), ("c", 3), ("d", 4)):
        blocker = world.task(root, TaskState.RUNNING, 0)
        for number in range(waiters):
            waiter = world.task(f"{root}{number}", TaskState.SUBMITTED, None)
            world.edge(EdgeKind.DEPENDS_ON, waiter, blocker)
            blocker = waiter
    for most, ranks in ((9, "dcba"), (3, "cdba"), (2, "bcda")):
        with patch.object(graph, "_RANK_BEHIND", most), patch.object(engine, "LARGE", 0):
            assert [root[-1] for root in graph_of(world).roots] == list(ranks)
    with patch.object(graph, "_RANK_BEHIND", 2):
        assert [root[-1] for root in graph_of(world).roots] == list("dcba")


def test_more_than_a_large_graph_counts_is_not_subtracted_from() -> None:
    world, names = tasks(*"abcdef")
    for one, other in zip(names, [*names[1:], names[0]], strict=True):
        world.edge(EdgeKind.DEPENDS_ON, one, other)
    with patch.object(graph, "BEHIND", 2), patch.object(engine, "LARGE", 0):
        assert world.found("task-cycle").sentence == "Deadlock of 6 tasks: a K → b K → c K → d K → e K → f K → a K."


def test_a_graph_is_large_from_a_number_of_edges_on() -> None:
    world, (a, b, c) = tasks("a", "b", "c")
    world.edge(EdgeKind.DEPENDS_ON, a, b)
    world.edge(EdgeKind.DEPENDS_ON, b, c)
    with patch.object(engine, "LARGE", 2):
        assert graph_of(world).large
    with patch.object(engine, "LARGE", 3):
        assert not graph_of(world).large


def test_the_graph_is_kept_until_an_edge_a_lock_or_a_life_changes() -> None:
    world, (a, b) = threads("a", "b")
    keeper = GraphKeeper()
    world.waits(a, b)
    first = keeper.graph_of(world.snapshot())
    assert keeper.graph_of(world.snapshot()) is first and first.roots == [b]
    lock = world.lock(0x10)
    second = keeper.graph_of(world.snapshot())
    assert second is not first
    world.holds(lock, a)
    third = keeper.graph_of(world.snapshot())
    assert third is not second and third.blockers_of(lock) == [a]
    world.thread(12, "b", state=ThreadState.STOPPED)
    fourth = keeper.graph_of(world.snapshot())
    assert fourth is not third and keeper.graph_of(world.later().snapshot()) is fourth
    world.process(1, ThreadState.STOPPED)
    assert keeper.graph_of(world.snapshot()) is not fourth


@pytest.mark.parametrize("much", [0, 3, 100_000])
@pytest.mark.invariant("graph_keeper.K1")
def test_K1_a_large_graph_follows_what_comes_and_goes(much: int) -> None:
    choose = Random(much)
    with patch.object(engine, "LARGE", 0), patch.object(engine, "_MUCH", much):
        world, keeper = World(), GraphKeeper()
        names = [world.task(f"t{number}", TaskState.SUBMITTED, None) for number in range(9)]
        lock = world.lock(0x10)
        for _ in range(60):
            for _ in range(choose.randrange(1, 6)):
                a, b = choose.choice(names), choose.choice([*names, lock])
                kind = EdgeKind.WAITS_FOR if b == lock or choose.random() < 0.2 else EdgeKind.DEPENDS_ON
                state = EdgeState.SATISFIED if choose.random() < 0.4 else EdgeState.PENDING
                world.edge(kind, a, b, state=state)
            kept, fresh = keeper.graph_of(world.snapshot()), graph_of(world)
            assert (kept.roots, kept.cycles) == (fresh.roots, fresh.cycles)
            assert [kept.behind(name) for name in names] == [fresh.behind(name) for name in names]
            assert all(list(kept.waiters_of(n)) == list(fresh.waiters_of(n)) for n in (*names, lock))


def test_a_large_change_makes_the_graph_anew() -> None:
    world, (a, b, c, d) = tasks("a", "b", "c", "d")
    with patch.object(engine, "LARGE", 0), patch.object(engine, "_MUCH", 2):
        keeper = GraphKeeper()
        world.edge(EdgeKind.DEPENDS_ON, a, b)
        keeper.graph_of(world.snapshot())
        with patch.object(engine, "wired", side_effect=wiring.wired) as anew:
            world.edge(EdgeKind.DEPENDS_ON, b, c)
            world.edge(EdgeKind.DEPENDS_ON, c, d)
            keeper.graph_of(world.snapshot())
            assert not anew.called
            for source, target in ((a, c), (a, d), (b, d)):
                world.edge(EdgeKind.DEPENDS_ON, source, target)
            assert set(keeper.graph_of(world.snapshot()).waiters_of(d)) == {a, b, c}
            assert anew.called


def disorder(arcs: set[Arc], kept: order.Order) -> list[Arc]:
    """The arcs that do not fit an order, by order.O1."""

    def place(node: int) -> float:
        return kept.places[node] if node < len(kept.places) else float(node)

    def fits(source: int, target: int) -> bool:
        inside = target in kept.parts.get(source, ())
        return place(source) == place(target) if inside else place(source) > place(target)

    return [arc for arc in sorted(arcs) if not fits(*arc)]


@pytest.mark.parametrize("dense", [0.6, 1.2, 2.0])
@pytest.mark.invariant("order.O1", "order.O2")
def test_O1_O2_an_order_holds_through_many_changes(dense: float) -> None:
    nodes, choose = 16, Random(int(dense * 10))
    followed = 0
    for _ in range(12):
        made, now = LayeredDigraph.of(nodes - 2, []), set[Arc]()
        kept = order.ordered(made)
        for _ in range(60):
            wanted = set(now)
            for _ in range(choose.choice((1, 1, 1, 4))):
                wanted ^= {(choose.randrange(nodes), choose.randrange(nodes))}
            for arc in [arc for arc in sorted(wanted) if len(wanted) > dense * nodes][: choose.choice((0, 1, 3))]:
                wanted.discard(arc)
            added, removed = sorted(wanted - now), sorted(now - wanted)
            made, now = made.changed(added, removed), wanted
            after = order.reordered(kept, made, added, removed)
            followed += after is not None
            kept = after if after is not None else order.ordered(made)
            assert not disorder(now, kept)
            assert kept.parts == order.ordered(LayeredDigraph.of(nodes, sorted(now))).parts
    assert followed > 0.9 * 12 * 60


@pytest.mark.parametrize("members", [2, 3])
@pytest.mark.invariant("order.O1")
def test_O1_what_falls_out_of_a_cycle_stays_between_its_neighbours(members: int) -> None:
    ring = [(node, (node + 1) % members) for node in range(members)]
    for near in (1, 2, 5):
        around = [(members + number, number % members) for number in range(near)]
        around += [(number % members, members + near + number) for number in range(near)]
        arcs = {*ring, *around}
        made = LayeredDigraph.of(members + 2 * near, sorted(arcs))
        first = order.ordered(made)
        for gone in ring:
            after = order.reordered(first, made.changed([], [gone]), [], [gone])
            assert after is not None and not after.parts and not disorder(arcs - {gone}, after)
        assert len(first.parts) == members and not disorder(arcs, first)


@pytest.mark.invariant("order.O3")
def test_O3_what_changes_no_part_moves_nothing() -> None:
    """An arc to itself, and one that a cycle can do without."""
    arcs = [(0, 1), (1, 2), (2, 0), (0, 2), (3, 0), (2, 4)]
    made = LayeredDigraph.of(5, arcs)
    first = order.ordered(made)
    for added, removed in (([(3, 3)], []), ([(0, 0)], []), ([], [(0, 2)]), ([(1, 4)], [(0, 2)])):
        with patch.object(order, "SEARCH", 3):
            after = order.reordered(first, made.changed(added, removed), added, removed)
        assert after is not None and after.places is first.places
        assert set(after.parts) == set(first.parts) | ({3} if added == [(3, 3)] else set())


def cheap(arcs: list[Arc], nodes: int, most: int) -> bool:
    """Whether an arc between nodes 0 and 1 that does not fit the order is placed within `most` steps."""
    made = LayeredDigraph.of(nodes, arcs)
    first = order.ordered(made)
    arc = (0, 1) if first.places[0] < first.places[1] else (1, 0)
    with patch.object(order, "SEARCH", most):
        after = order.reordered(first, made.changed([arc], []), [arc], [])
    assert after is None or not disorder({*arcs, arc}, after)
    return after is not None


@pytest.mark.invariant("order.O3")
def test_O3_the_search_goes_from_the_end_that_has_less_to_look_at() -> None:
    ahead = [(end, 2 + number) for end in (0, 1) for number in range(50)]
    behind = [(number, end) for number, end in ((number, end) for end, number in ahead)]
    assert cheap(ahead, 52, 3) and cheap(behind, 52, 3)  # the other end has no arcs on that side
    both = [*ahead, *((52 + number, end) for end in (0, 1) for number in range(50))]
    assert not cheap(both, 102, 40) and cheap(both, 102, 300)


@pytest.mark.invariant("order.O3")
def test_O3_a_part_larger_than_the_search_is_ordered_anew() -> None:
    ring = [(node, (node + 1) % 5) for node in range(5)]
    made = LayeredDigraph.of(5, ring)
    first = order.ordered(made)
    gone = made.changed([], ring[:1])
    for most, done in ((5, True), (4, False)):
        with patch.object(order, "SEARCH", most):
            after = order.reordered(first, gone, [], ring[:1])
        assert (after is not None) == done
        assert after is None or not after.parts


@pytest.mark.invariant("order.O1", "order.O3")
def test_O1_O3_where_no_number_is_left_the_order_is_made_anew() -> None:
    target, source, below, *above = range(5)
    arcs = [(target, below), *((node, source) for node in above)]
    for low, fits in ((0.0, True), (nextafter(1.0, 0.0), False)):
        old = order.Order(array("d", [2.0, 1.0, low, 3.0, 4.0]), {})
        made = LayeredDigraph.of(5, [*arcs, (source, target)])
        after = order.reordered(old, made, [(source, target)], [])
        assert (after is not None) == fits and not disorder(set(arcs), old)
        assert after is None or not disorder({*arcs, (source, target)}, after)


@pytest.mark.invariant("order.O1", "order.O3")
def test_O1_O3_where_no_number_is_left_for_what_fell_out_of_a_cycle_neither() -> None:
    arcs = {(0, 1), (2, 0), (1, 3)}
    parts = dict.fromkeys((0, 1), frozenset({0, 1}))
    for high, low, fits in ((1.5, 0.5, True), (nextafter(1.0, 2.0), nextafter(1.0, 0.0), False)):
        old = order.Order(array("d", [1.0, 1.0, high, low]), parts)
        after = order.reordered(old, LayeredDigraph.of(4, sorted(arcs)), [], [(1, 0)])
        assert (after is not None) == fits and not disorder(arcs, old)
        assert after is None or not (after.parts or disorder(arcs, after))


@pytest.mark.invariant("layered.L1", "layered.L2")
def test_L1_L2_a_layer_is_worked_in_when_it_has_grown() -> None:
    with patch.object(layered, "_MOST", 2):
        first = LayeredDigraph.of(3, [(0, 1)])
        thin = first.changed([(1, 2)], [(0, 1)])
        thick = thin.changed([(2, 7)], [])
        back = thick.changed([(0, 1)], [(2, 7)])
        assert (first._size, thin._size, thick._size, back._size) == (0, 2, 0, 2)
    assert [first.has((0, 1)), thin.has((0, 1)), thick.has((0, 1)), back.has((0, 1))] == [True, False, False, True]
    assert list(thick.successors(2)) == [7] and list(thick.predecessors(7)) == [2] and thick.in_degree(7) == 1
    assert thick.sinks() == [0, 3, 4, 5, 6, 7] and thin.sinks() == [0, 2]
    assert first.flat() is first and thin.flat() is not thin
    undone = first.changed([(1, 2)], []).changed([], [(1, 2)])
    assert undone._size == 0 and undone.flat() is undone and not undone.has((1, 2))


@pytest.mark.invariant("layered.L2")
def test_L2_what_leads_to_a_node_is_counted_up_to_a_number() -> None:
    made = LayeredDigraph.of(6, [(1, 0), (2, 0), (3, 1), (4, 3), (0, 4), (5, 5)])
    assert [made.ancestors(0, lambda _: True, most) for most in (0, 1, 3, 4, 9)] == [0, 1, 3, 4, 4]
    assert made.ancestors(0, lambda node: node % 2 == 0, 9) == 2 and made.ancestors(5, lambda _: True, 9) == 0
    assert made.loops() == {5} and made.components_among([0, 1, 2])[0] == [0]


def test_the_garbage_collection_is_as_it_was_before() -> None:
    """It is off while a graph is made, and stays off where it was."""
    seen: list[bool] = []

    def arcs() -> Iterator[Arc]:
        seen.append(gc.isenabled())
        yield (0, 1)

    was = gc.isenabled()
    try:
        for enabled in (True, False):
            (gc.enable if enabled else gc.disable)()
            wiring.wired(["a", "b"], arcs())
            assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()
    assert seen == [False, False]


def test_what_a_shard_gives_is_kept_while_the_shard_is() -> None:
    seen: list[dict[int, int]] = []

    def total(shard: dict[int, int]) -> int:
        seen.append(shard)
        return sum(shard.values())

    def table(*shards: dict[int, int]) -> FrozenTable[int, int]:
        return FrozenTable(shards, str)

    memo = ShardMemo(total)
    one, two, other = {1: 1}, {2: 2}, {2: 5}
    assert memo.update(table(one, two)) == [(None, 1), (None, 2)] and memo.results == [1, 2]
    kept = memo.results
    assert memo.update(table(one, other)) == [(2, 5)] and (memo.results, kept) == ([1, 5], [1, 2])
    assert seen == [one, two, other]
    same = table(one, other)
    memo.update(same)
    assert memo.update(same) == [] and len(seen) == 3
    assert memo.update(table(one)) == [(None, 1)] and memo.results == [1]


def test_a_diagnostician_uses_what_it_is_given() -> None:
    world, (a, b) = threads("a", "b")
    world.waits(a, b)
    world.waits(b, a)
    assert Diagnostician(all_rules()).diagnose(world.snapshot()).verdict.state == "deadlock"
    assert not Diagnostician(()).diagnose(world.snapshot()).findings
    judged = Judged(tasks=frozenset({"nvfuser"}))
    given = []

    class Keeps:
        name, doc = "keeps", ""

        def apply(self, state: object) -> list[object]:
            given.append(state)
            return []

    Diagnostician((Keeps(),), judged=judged).diagnose(world.snapshot())  # type: ignore[arg-type]
    assert given[0].judged is judged and given[0].snapshot.threads  # type: ignore[attr-defined]
