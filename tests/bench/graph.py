"""The wait-for analysis of 1,000,000 tasks and 3,000,000 edges, from nothing and after a change, against the bare
graph library on the same edges as numbers."""

from __future__ import annotations

import gc
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Final

import rustworkx as rx

from livedbg.analysis import Diagnostician
from livedbg.model import Edge, EdgeKind, EdgeState, Task, TaskState
from livedbg.model import events as ev
from livedbg.session.rulebook import diagnostician
from livedbg.state.store import Store
from tests.bench.harness import Row

_BATCH = 1000
_CHANGES = 50


def rows(tasks: int = 1_000_000, edges: int = 3) -> Iterator[Row]:
    """Measure on `tasks` tasks, each of which waits for `edges` that were submitted before it."""
    ends = _ends(tasks, edges)
    store = Store()
    began = time.perf_counter()
    for event in _events(tasks, ends):
        store.apply(event)
    intake = (tasks + len(ends)) / (time.perf_counter() - began)
    peer = _timed(lambda: _bare(tasks, ends))
    doctor = diagnostician()
    snapshot = store.snapshot()
    gc.collect()
    whole = _timed(lambda: doctor.diagnose(snapshot))
    size = f"{tasks:,} tasks, {len(ends):,} edges"
    yield Row(f"wait-for analysis of {size}, from nothing", whole, "rustworkx alone, from numbers", peer, "s", "< 2 s")
    times: dict[str, list[float]] = {}
    for changes in _CHANGES_OF:
        for number in range(_CHANGES):
            for what, change in changes.items():
                took = _timed(lambda n=number, f=change: f(store, doctor, tasks, n))
                times.setdefault(what, []).append(took)
    for what, taken in times.items():
        middle = statistics.median(taken)
        yield Row(f"the same after {what}: median", middle, "from nothing", whole, "s", "< 0.05 s")
        yield Row(f"the same: longest of {_CHANGES}", max(taken), "from nothing", whole, "s", "< 0.05 s")
    yield Row(f"events folded into the state, of {size}", intake, "none", intake, "/s", "")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Row("memory of this process at most", most, "none", most, "MiB", "")


def _ends(tasks: int, edges: int) -> list[tuple[int, int]]:
    """Each task waits for some of those shortly before it."""
    chance = random.Random(7)
    found: dict[tuple[int, int], None] = {}
    for task in range(1, tasks):
        for _ in range(edges):
            found[task, max(0, task - 1 - int(chance.expovariate(1 / 40)))] = None
    return list(found)


def _name(task: int) -> str:
    return f"task:ascend/r{task % 4}t{task}"


def _stamp(number: int) -> ev.Stamp:
    return {"host": "box", "mono_ns": number * 1000, "wall_ns": 10**18 + number * 1000}


def _events(tasks: int, ends: list[tuple[int, int]]) -> Iterator[ev.Event]:
    for first in range(0, tasks, _BATCH):
        made = tuple(
            Task(id=_name(n), system="ascend", name=f"t{n}", kernel="K", state=TaskState.SUBMITTED)
            for n in range(first, min(tasks, first + _BATCH))
        )
        yield ev.TasksSeen(tasks=made, **_stamp(first))
    for first in range(0, len(ends), _BATCH):
        made_edges = tuple(_edge(a, b) for a, b in ends[first : first + _BATCH])
        yield ev.EdgesAdded(scope="bench", edges=made_edges, **_stamp(tasks + first))


def _edge(source: int, target: int, state: EdgeState = EdgeState.PENDING) -> Edge:
    return Edge(kind=EdgeKind.DEPENDS_ON, source=_name(source), target=_name(target), state=state)


def _change(store: Store, doctor: Diagnostician, tasks: int, number: int) -> None:
    """One task completes: what waited for it waits no more."""
    done = (number * 7919) % tasks
    graph = doctor.diagnose(store.snapshot()).graph
    waiting = graph.waiters_of(_name(done))
    task = Task(id=_name(done), system="ascend", name=f"t{done}", state=TaskState.COMPLETED)
    store.apply(ev.TasksSeen(tasks=(task,), **_stamp(10**9 + number)))
    edges = tuple(
        Edge(kind=EdgeKind.DEPENDS_ON, source=waiter, target=task.id, state=EdgeState.SATISFIED) for waiter in waiting
    )
    store.apply(ev.EdgesAdded(scope="bench", edges=edges, **_stamp(10**9 + number)))
    doctor.diagnose(store.snapshot())


def _submit(store: Store, doctor: Diagnostician, tasks: int, number: int) -> None:
    """One task more, which waits for three."""
    task = tasks + number
    made = Task(id=_name(task), system="ascend", name=f"t{task}", state=TaskState.SUBMITTED)
    store.apply(ev.TasksSeen(tasks=(made,), **_stamp(2 * 10**9 + task)))
    edges = tuple(_edge(task, task - back) for back in (1, 5, 90))
    store.apply(ev.EdgesAdded(scope="bench", edges=edges, **_stamp(2 * 10**9 + task)))
    doctor.diagnose(store.snapshot())


def _start(store: Store, doctor: Diagnostician, tasks: int, number: int) -> None:
    """One task runs: no edge changes."""
    task = (number * 6271) % tasks
    runs = Task(id=_name(task), system="ascend", name=f"t{task}", state=TaskState.RUNNING)
    store.apply(ev.TasksSeen(tasks=(runs,), **_stamp(3 * 10**9 + number)))
    doctor.diagnose(store.snapshot())


def _circle(tasks: int, number: int) -> tuple[int, int]:
    """Ends of an edge against all others, over a few hundred tasks."""
    task = tasks // 2 + (number * 997) % (tasks // 4)
    return task, task + 300


def _close(store: Store, doctor: Diagnostician, tasks: int, number: int) -> None:
    """One edge more, which closes a circle."""
    edges = (_edge(*_circle(tasks, number)),)
    store.apply(ev.EdgesAdded(scope="bench", edges=edges, **_stamp(4 * 10**9 + number)))
    doctor.diagnose(store.snapshot())


def _open(store: Store, doctor: Diagnostician, tasks: int, number: int) -> None:
    """That edge goes."""
    keys = (_edge(*_circle(tasks, number)).key,)
    store.apply(ev.EdgesRemoved(scope="bench", keys=keys, **_stamp(5 * 10**9 + number)))
    doctor.diagnose(store.snapshot())


_CHANGES_OF: Final = (
    {"a task has completed": _change},
    {"a task was submitted": _submit},
    {"a task has begun to run": _start},
    {"an edge has closed a cycle of hundreds": _close, "that edge has gone": _open},  # one circle at a time
    {"an edge has closed one more cycle, of up to 50": _close},
)


def _bare(tasks: int, ends: list[tuple[int, int]]) -> None:
    graph: rx.PyDiGraph[None, None] = rx.PyDiGraph(node_count_hint=tasks, edge_count_hint=len(ends))
    graph.extend_from_edge_list(ends)
    rx.strongly_connected_components(graph)


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
