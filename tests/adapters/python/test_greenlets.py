"""The Python adapter on programs of gevent, and of greenlets alone, on every interpreter that has them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from livedbg.adapters.python import loops
from livedbg.cpython import greenlets
from livedbg.cpython.greenlets import HeapSearch, is_known
from livedbg.model import EdgeKind, TaskState
from livedbg.model.snapshot import Snapshot
from tests.adapters.python.test_python_tasks import awaited, both_wait, edges_of, until, watching
from tests.conftest import TARGETS, Target
from tests.cpython.interpreters import gevent_environment, gevent_interpreters, label

PROGRAM = TARGETS / "py_gevent.py"
PLAIN = TARGETS / "py_greenlet.py"
AWAITS = {
    "holds": ("gevent.Event", ["cond"]),
    "locks": ("gevent.RLock", ["pylo"]),
    "bounds": ("gevent.BoundedSemaphore", ["sem:"]),
    "semaphore": ("gevent.Semaphore", ["sem:"]),
    "event": ("gevent.Event", ["cond"]),
    "result": ("gevent.AsyncResult", ["futu"]),
    "gets": ("gevent.Queue", ["cond"]),
    "puts": ("gevent.Queue", ["cond"]),
    "sleeps": ("gevent.sleep", []),
    "joins": ("a greenlet", ["holds"]),
    "socket": ("socket.recv (a Unix socket)", []),
    "limited": ("gevent.Event", ["cond"]),
    "main": ("gevent.Event", ["cond"]),
}
every = pytest.mark.parametrize("python", gevent_interpreters(), ids=label)
Spawn = Callable[..., Target]


def start(spawn: Spawn, python: str, word: str) -> Target:
    return spawn([python, str(PROGRAM), word], env=gevent_environment(python))


@every
@pytest.mark.invariant("greenlet_loops.A1")
@pytest.mark.invariant("greenlet_loops.G1")
def test_what_each_greenlet_waits_for(python: str, spawn: Spawn) -> None:
    target = start(spawn, python, "all-waits")
    prefix = f"task:gevent/box/{target.pid}/"
    with watching(target.pid) as view:
        snapshot = until(
            view,
            lambda now: (
                awaited(now, prefix, AWAITS) == AWAITS
                and {task.state for task in now.tasks.values()} == {TaskState.SUBMITTED}
            ),
        ).snapshot
    tasks = {task.name: task for task in snapshot.tasks.values()}
    assert tasks.keys() == AWAITS.keys()
    assert {task.where for task in tasks.values()} == {(f"thread:box/{target.pid}/{target.pid}",)}
    assert tasks["holds"].kernel == "holds" and "holds() py_gevent.py:" in tasks["holds"].attributes["at"]
    assert "locks() py_gevent.py:" in tasks["locks"].attributes["at"]
    (lock,) = (edge.target for edge in edges_of(snapshot, "locks"))
    holds = [(e.source, e.target, e.inferred) for e in snapshot.edges.values() if e.kind is EdgeKind.HOLDS]
    assert holds == [(f"{prefix}holds", lock, False)]
    assert snapshot.stacks[f"{prefix}locks"].frames[0].function == "RLock.acquire"
    assert all(edge.timed for name in AWAITS for edge in edges_of(snapshot, name))


@every
@pytest.mark.parametrize("word", ["crossed", "crossed-with-timeout"])
def test_crossed_locks_are_no_deadlock_as_their_time_limits_are_not_read(python: str, word: str, spawn: Spawn) -> None:
    target = start(spawn, python, word)
    with watching(target.pid) as view:
        update = until(view, both_wait)
    held = [edge for name in ("left", "right") for edge in edges_of(update.snapshot, name, EdgeKind.HOLDS)]
    assert len(held) == 2
    assert list(update.diagnosis.graph.cycles) == [] and not update.diagnosis.findings


@every
@pytest.mark.invariant("greenlet_loops.G2")
@pytest.mark.parametrize(
    ("word", "culprit", "ready"),
    [("blocked", "culprit", {"tick-0", "tick-1", "tick-2"}), ("blocked-in-main", "main", {"gives-way"})],
)
def test_greenlets_wait_for_the_thread_of_a_blocked_hub(
    word: str, culprit: str, ready: set[str], python: str, spawn: Spawn
) -> None:
    target = start(spawn, python, word)
    thread = f"thread:box/{target.pid}/{target.pid}"

    def blocked(now: Snapshot) -> bool:
        due = {task.name for task in now.tasks.values() if task.state is TaskState.READY}
        return due == ready and all(thread in [e.target for e in edges_of(now, name)] for name in ready)

    with watching(target.pid) as view:
        snapshot = until(view, blocked).snapshot
    assert snapshot.tasks[f"task:gevent/box/{target.pid}/{culprit}"].state is TaskState.RUNNING
    assert edges_of(snapshot, culprit) == []
    (why,) = (e.evidence for e in edges_of(snapshot, min(ready)) if e.target == thread)
    assert "wait() threading.py:" in why


@every
@pytest.mark.invariant("greenlet_loops.G2")
def test_a_hub_with_nothing_to_do_is_not_blocked(python: str, spawn: Spawn) -> None:
    target = start(spawn, python, "server")

    def idle(now: Snapshot) -> bool:
        texts = [task.attributes.get("awaits", "") for task in now.tasks.values()]
        reads = [text for text in texts if text.startswith("socket.recv (a socket to 127.0.0.1:")]
        states = {task.state for task in now.tasks.values()} - {TaskState.COMPLETED}
        return len(reads) == 2 and states == {TaskState.SUBMITTED}

    with watching(target.pid) as view:
        update = until(view, idle)
    waits = [e for e in update.snapshot.waits.values() if e.kind is EdgeKind.WAITS_FOR]
    assert not [e for e in waits if e.target.startswith("thread:")]
    assert not update.diagnosis.findings


@every
def test_a_hub_of_another_thread(python: str, spawn: Spawn) -> None:
    target = start(spawn, python, "threads")
    with watching(target.pid) as view:
        snapshot = until(view, lambda now: len([t for t in now.tasks.values() if "other-" in t.name]) == 2).snapshot
    threads = {place for task in snapshot.tasks.values() for place in task.where}
    assert len(threads) == 1 and f"thread:box/{target.pid}/{target.pid}" not in threads


@every
@pytest.mark.invariant("greenlets.G1")
@pytest.mark.invariant("greenlets.G2")
def test_greenlets_without_a_hub(python: str, spawn: Spawn) -> None:
    target = spawn([python, str(PLAIN)], env=gevent_environment(python))
    states = [("<module>", TaskState.RUNNING), *[("works", TaskState.SUBMITTED)] * 2]
    with watching(target.pid) as view:
        update = until(view, lambda now: sorted((task.kernel, task.state) for task in now.tasks.values()) == states)
    tasks = list(update.snapshot.tasks.values())
    assert {task.system for task in tasks} == {"greenlet"}
    lines = PLAIN.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "# suspended here" in text)
    suspended = [task for task in tasks if task.kernel == "works"]
    assert {task.attributes["at"] for task in suspended} == {f"gives_back() py_greenlet.py:{line}"}
    functions = [frame.function for frame in update.snapshot.stacks[suspended[0].id].frames]
    assert functions == ["gives_back", "works"]
    assert not [e for e in update.snapshot.waits.values() if e.kind is EdgeKind.WAITS_FOR]
    assert not update.diagnosis.findings


def test_a_version_of_greenlet_that_is_not_known_is_said(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "is_known", lambda version: False)
    target = start(spawn, gevent_interpreters()[0], "all-waits")
    with watching(target.pid) as view:
        snapshot = until(view, lambda now: any(s.code == "greenlet-unseen" for s in now.statuses.values())).snapshot
    assert not snapshot.tasks


@pytest.mark.parametrize("version", ["3.0.3", "3.6.0", "4.0.0", "3.5", "3.5.0a1", "?", ""])
def test_versions_that_are_not_known(version: str) -> None:
    assert not is_known(version) and is_known("3.5.6") and is_known("3.1.1")


def test_more_greenlets_than_are_read(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greenlets, "MOST_GREENLETS", 5)
    target = start(spawn, gevent_interpreters()[0], "all-waits")
    with watching(target.pid) as view:
        until(view, lambda now: any(s.code == "tasks-cut" for s in now.statuses.values()))


class Search:
    """A search of a program, and how much it read."""

    def __init__(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[int] = []
        self.kind = int(target.ready.split()[0])
        self.search = HeapSearch(target.pid)
        real = greenlets.memory

        def counted(pid: int, address: int, size: int) -> bytes:
            self.read.append(size)
            return real.read(pid, address, size)

        monkeypatch.setattr(greenlets, "memory", SimpleNamespace(read=counted))


@pytest.fixture
def search(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> Any:
    script = "import mmap; big = mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE)\n"
    script += "kind = type('T', (), {}); one = kind(); print(id(kind), 'READY'); input()"
    return Search(spawn([gevent_interpreters()[0], "-uc", script]), monkeypatch)


@pytest.mark.invariant("greenlets.S1")
def test_S1_a_search_reads_no_page_that_was_never_used_and_has_a_limit(
    search: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert search.search.find({0x1234_5678_9ABC_DEF0}) == ([], False)
    assert 0 < sum(search.read) < 200 << 20
    limited = HeapSearch(search.search._pid)
    monkeypatch.setattr(greenlets, "MOST_SEARCHED", 1 << 16)
    search.read.clear()
    assert limited.find({0x1234_5678_9ABC_DEF0})[1] and sum(search.read) <= 1 << 16


@pytest.mark.invariant("greenlets.S2")
def test_S2_after_a_search_comes_a_rest(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], thread_time=iter([1.0, 1.5, 2.0, 2.5]).__next__)
    monkeypatch.setattr(greenlets, "time", clock)
    found = search.search.find({search.kind})
    assert len(found[0]) >= 1
    first = len(search.read)
    now[0] += 49
    assert search.search.find({search.kind}) == found and len(search.read) == first
    now[0] += 2
    search.search.find({search.kind})
    assert len(search.read) > first
