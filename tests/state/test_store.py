"""Invariants of livedbg.state.store and livedbg.model.snapshot."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from livedbg.model import (
    Edge,
    EdgeKind,
    EdgeState,
    Frame,
    LogRecord,
    Process,
    Stack,
    Task,
    TaskState,
    Thread,
    ThreadState,
)
from livedbg.model import events as ev
from livedbg.model.devices import DeviceState
from livedbg.model.snapshot import EMPTY, Durations, Snapshot
from livedbg.state.merging import merge_task
from livedbg.state.store import EXITED_WINDOW, LOG_WINDOW, Store
from tests.state.strategies import events, streams, tasks

PROCESS = "process:box/10"
THREAD = "thread:box/10/11"


def plain(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as plain values, for comparisons."""
    out: dict[str, Any] = {}
    for field in dataclasses.fields(snapshot):
        value = getattr(snapshot, field.name)
        if field.name.startswith("_") or field.name in {
            "names",
            "dependencies",
        }:  # numbers, not state
            continue
        out[field.name] = dict(value) if isinstance(value, Mapping) else value
    return out


def fold(*stream: ev.Event) -> Snapshot:
    store = Store()
    store.apply_all(stream)
    return store.snapshot()


def at(mono_ns: int) -> ev.Stamp:
    return {"host": "box", "mono_ns": mono_ns, "wall_ns": 10**18 + mono_ns}


@given(streams, st.lists(st.integers(0, 40), max_size=5), st.booleans())
@pytest.mark.invariant("store.F1")
def test_F1_chunking_encoding_and_looking_do_not_change_the_state(
    stream: list[ev.Event], cuts: list[int], look: bool
) -> None:
    whole = fold(*stream)
    pieces = Store()
    edges = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    for begin, end in itertools.pairwise(edges):
        pieces.apply_all(ev.decode(ev.encode(event)) for event in stream[begin:end])
        if look:
            pieces.snapshot()
    assert plain(pieces.snapshot()) == plain(whole)


@given(streams)
@pytest.mark.invariant("store.F6")
def test_F6_the_edges_that_block_are_kept_apart(stream: list[ev.Event]) -> None:
    snapshot = fold(*stream)
    pending = {key: edge for key, edge in snapshot.edges.items() if edge.state is EdgeState.PENDING}
    between = {k for k in pending if k.kind is EdgeKind.DEPENDS_ON and k.source.startswith("task:")}
    plain = {k for k in between if not k.target.startswith("process:")}
    assert set(snapshot.dependencies) == plain
    assert dict(snapshot.waits) == {key: edge for key, edge in pending.items() if key not in plain}
    names = snapshot.names.names
    assert all((names[a], names[b]) == key[1:] for key, (a, b) in snapshot.dependencies.items())


@given(streams)
@pytest.mark.invariant("store.F2")
def test_F2_no_event_makes_the_fold_fail(stream: list[ev.Event]) -> None:
    assert fold(*stream).revision == len(stream)


@given(tasks, tasks)
@pytest.mark.invariant("store.F3")
def test_F3_merging_a_task_never_forgets(known: Task, new: Task) -> None:
    merged = merge_task(known, new)
    for name in ("kernel", "fanin_left", "fanin_total", "owner"):
        if getattr(known, name) is not None:
            assert getattr(merged, name) is not None
    if known.state is not TaskState.UNKNOWN:
        assert merged.state is not TaskState.UNKNOWN
    assert set(known.attributes) <= set(merged.attributes)
    assert merge_task(known, known) == known


@given(streams)
@pytest.mark.invariant("store.F4")
def test_F4_replacing_a_scope_with_nothing_leaves_only_the_other_scopes(stream: list[ev.Event]) -> None:
    cleared = fold(*stream, *(ev.EdgesReplaced(scope=s, edges=(), **at(2_000)) for s in ("proc/a", "proc/b", "ascend")))
    assert not cleared.edges


@pytest.mark.invariant("store.F4")
def test_F4_an_edge_that_two_scopes_claim_goes_with_the_last_claim() -> None:
    edge = Edge(kind=EdgeKind.HOLDS, source=THREAD, target="mutex:box/10/0x10")
    claims = (
        ev.EdgesReplaced(scope="a", edges=(edge,), **at(1)),
        ev.EdgesReplaced(scope="b", edges=(edge,), **at(2)),
    )
    assert fold(*claims, ev.EdgesReplaced(scope="a", edges=(), **at(3))).edges
    assert not fold(*claims, ev.EdgesReplaced(scope="b", edges=(), **at(3))).edges


@pytest.mark.invariant("store.F5")
def test_F5_logs_and_exited_threads_are_bounded() -> None:
    store = Store()
    for start in range(0, LOG_WINDOW + 1_000, 1_000):
        batch = tuple(LogRecord(source="log:a", text=str(start + n)) for n in range(1_000))
        store.apply(ev.LogsSeen(records=batch, **at(start)))
    for tid in range(EXITED_WINDOW + 50):
        thread = Thread(id=f"thread:box/10/{tid}", process=PROCESS, tid=tid)
        store.apply(ev.ThreadsSeen(threads=(thread,), **at(tid)))
        store.apply(ev.ThreadsExited(ids=(thread.id,), **at(tid)))
    snapshot = store.snapshot()
    assert len(snapshot.recent_logs) == LOG_WINDOW
    assert snapshot.log_count == LOG_WINDOW + 1_000
    assert len(snapshot.threads) == EXITED_WINDOW
    assert len(snapshot.activity) == EXITED_WINDOW


@given(streams, events)
@pytest.mark.invariant("snapshot.S1")
def test_S1_a_snapshot_never_changes(stream: list[ev.Event], more: ev.Event) -> None:
    store = Store()
    store.apply_all(stream)
    snapshot = store.snapshot()
    before = plain(snapshot)
    store.apply(more)
    store.snapshot()
    assert plain(snapshot) == before


@pytest.mark.invariant("snapshot.S2")
def test_S2_the_empty_snapshot_answers() -> None:
    assert EMPTY.now().wall_ns == 0
    assert EMPTY.paused_ns == 0
    assert EMPTY.threads_of(PROCESS) == []


def test_a_pid_used_again_starts_afresh() -> None:
    first = Process(id=PROCESS, host="box", pid=10, start_ticks=5)
    again = Process(id=PROCESS, host="box", pid=10, start_ticks=900)
    thread = Thread(id=THREAD, process=PROCESS, tid=11)
    before = (
        ev.ProcessSeen(process=first, **at(1)),
        ev.ThreadsSeen(threads=(thread,), **at(2)),
        ev.DeviceSeen(device=DeviceState(target=PROCESS, source="attach"), **at(2)),
    )
    assert fold(*before).devices
    snapshot = fold(*before, ev.ProcessSeen(process=again, **at(3)))
    assert not snapshot.threads
    assert not snapshot.activity
    assert not snapshot.devices
    assert snapshot.processes[PROCESS].start_ticks == 900


def test_a_thread_keeps_its_role_until_it_is_taken_back_or_the_thread_is_another() -> None:
    store = Store()
    thread = Thread(id=THREAD, process=PROCESS, tid=11, name="python3")

    def now() -> Thread:
        return store.snapshot().threads[THREAD]

    store.apply(ev.ThreadRolesSeen(roles={THREAD: "core 8"}, **at(1)))
    assert not store.snapshot().threads
    store.apply(ev.ThreadsSeen(threads=(thread,), **at(2)))
    store.apply(ev.ThreadRolesSeen(roles={THREAD: "core 8"}, **at(3)))
    store.apply(ev.ThreadsSeen(threads=(thread,), **at(4)))
    assert (now().role, now().title) == ("core 8", "core 8, python3")
    store.apply(ev.ThreadRolesSeen(roles={THREAD: ""}, **at(5)))
    assert now() == thread
    store.apply(ev.ThreadRolesSeen(roles={THREAD: "core 9"}, **at(6)))
    store.apply(ev.ThreadsExited(ids=(THREAD,), **at(7)))
    store.apply(ev.ThreadsSeen(threads=(thread,), **at(8)))
    assert now() == thread


def test_the_rank_that_a_runtime_knows_stays_whatever_the_environment_says() -> None:
    store = Store()
    process = Process(id=PROCESS, host="box", pid=1, start_ticks=5, exe="/a")

    def now() -> Process:
        return store.snapshot().processes[PROCESS]

    store.apply(ev.RanksSeen(ranks={PROCESS: 3}, by="groups", **at(1)))
    assert not store.snapshot().processes
    store.apply(ev.ProcessSeen(process=process, **at(2)))
    store.apply(ev.RanksSeen(ranks={PROCESS: 3}, by="groups", **at(3)))
    store.apply(ev.ProcessSeen(process=structs.replace(process, rank=0, thread_count=7), **at(4)))
    assert (now().rank, now().rank_by, now().thread_count) == (3, "groups", 7)
    store.apply(ev.ProcessSeen(process=structs.replace(process, exe="/b"), **at(5)))
    assert now().rank is None
    store.apply(ev.RanksSeen(ranks={PROCESS: 4}, by="groups", **at(6)))
    assert now().rank == 4
    store.apply(ev.ProcessSeen(process=structs.replace(process, start_ticks=6), **at(7)))
    assert now().rank is None


def test_an_exited_process_takes_its_threads_along() -> None:
    snapshot = fold(
        ev.ProcessSeen(process=Process(id=PROCESS, host="box", pid=10), **at(1)),
        ev.ThreadsSeen(threads=(Thread(id=THREAD, process=PROCESS, tid=11),), **at(2)),
        ev.ProcessExited(id=PROCESS, status=-9, **at(3)),
    )
    assert snapshot.processes[PROCESS].exited
    assert snapshot.processes[PROCESS].exit_status == -9
    assert snapshot.threads[THREAD].exited
    assert snapshot.threads_of(PROCESS) == []


def look(mono_ns: int, cpu_ns: int, syscall: str | None = "futex", switches: int = 3) -> ev.Event:
    thread = Thread(
        id=THREAD,
        process=PROCESS,
        tid=11,
        state=ThreadState.WAITING,
        syscall=syscall,
        cpu_ns=cpu_ns,
        switches=switches,
    )
    return ev.ThreadsSeen(threads=(thread,), **at(mono_ns))


def test_activity_remembers_since_when_a_thread_waits() -> None:
    activity = fold(look(100, 7), look(200, 7), look(300, 7)).activity[THREAD]
    assert activity.waiting_since_mono_ns == 100
    assert activity.changed_mono_ns == 100


@pytest.mark.parametrize(
    "second", [look(200, 8), look(200, 7, syscall="read"), look(200, 7, switches=4)], ids=["cpu", "call", "switches"]
)
def test_activity_sees_every_kind_of_progress(second: ev.Event) -> None:
    activity = fold(look(100, 7), second).activity[THREAD]
    assert activity.waiting_since_mono_ns == 200
    assert activity.changed_mono_ns == 200
    assert activity.window_ns == 100


def test_durations_are_learnt_from_completed_runs() -> None:
    def task(number: int, state: TaskState, mono_ns: int) -> ev.Event:
        name = f"r0t{number}"
        entity = Task(
            id=f"task:ascend/{name}", system="ascend", name=name, kernel="MUL", state=state, since_mono_ns=mono_ns
        )
        return ev.TasksSeen(tasks=(entity,), **at(mono_ns))

    snapshot = fold(
        task(0, TaskState.RUNNING, 100),
        task(0, TaskState.COMPLETED, 500),
        task(1, TaskState.RUNNING, 500),
        task(1, TaskState.COMPLETED, 700),
    )
    assert snapshot.kernels[("ascend", "MUL")] == Durations(2, 600, 400)
    assert snapshot.kernels[("ascend", "MUL")].mean_ns == 300


def test_stack_layers_are_kept_apart_and_shown_merged() -> None:
    python = Stack(
        thread=THREAD, frames=(Frame("work", language="python"),), taken_mono_ns=1, source="py-spy", layer="python"
    )
    native = Stack(thread=THREAD, frames=(Frame("futex_wait"),), taken_mono_ns=1, source="no stop")
    only = fold(ev.StacksSeen(stacks=(python,), **at(1)))
    both = fold(ev.StacksSeen(stacks=(python,), **at(1)), ev.StacksSeen(stacks=(native,), **at(2)))
    assert only.stacks[THREAD].frames == python.frames
    assert native.frames[0] in both.stacks[THREAD].frames


def test_a_process_that_has_ended_never_comes_back() -> None:
    process = Process(id=PROCESS, host="box", pid=10, start_ticks=7)
    snapshot = fold(
        ev.ProcessSeen(process=process, **at(1)),
        ev.ProcessExited(id=PROCESS, status=-9, **at(3)),
        ev.ProcessSeen(process=process, **at(4)),
    )
    assert (snapshot.processes[PROCESS].exited, snapshot.processes[PROCESS].exit_status) == (True, -9)
    other = Process(id=PROCESS, host="box", pid=10, start_ticks=8)
    again = fold(
        ev.ProcessSeen(process=process, **at(1)),
        ev.ProcessExited(id=PROCESS, status=-9, **at(3)),
        ev.ProcessSeen(process=other, **at(4)),
    )
    assert not again.processes[PROCESS].exited


def test_the_last_threads_of_what_has_ended_are_kept() -> None:
    second = 1_000_000_000
    ids = [f"thread:box/10/{tid}" for tid in (10, 11, 12)]
    alive = fold(
        ev.ProcessSeen(process=Process(id=PROCESS, host="box", pid=10), **at(1)),
        ev.ThreadsSeen(threads=tuple(Thread(id=one, process=PROCESS, tid=int(one[-2:])) for one in ids), **at(2)),
        ev.ThreadsExited(ids=(ids[1],), **at(3)),
    )
    assert [thread.id for thread in alive.last_threads()] == [ids[0], ids[2]]
    ended = fold(
        ev.ProcessSeen(process=Process(id=PROCESS, host="box", pid=10), **at(1)),
        ev.ThreadsSeen(threads=tuple(Thread(id=one, process=PROCESS, tid=int(one[-2:])) for one in ids), **at(2)),
        ev.ThreadsExited(ids=(ids[1],), **at(3)),
        ev.ThreadsExited(ids=(ids[2],), **at(59 * second)),
        ev.ProcessExited(id=PROCESS, status=-6, **at(60 * second)),
    )
    assert [thread.id for thread in ended.last_threads()] == [ids[0], ids[2]], "thread 11 had ended long before"


def test_the_threads_of_an_ended_child_are_not_shown_while_the_job_lives() -> None:
    child = "process:box/20"
    events = (
        ev.ProcessSeen(process=Process(id=PROCESS, host="box", pid=10, named=True), **at(1)),
        ev.ProcessSeen(process=Process(id=child, host="box", pid=20), **at(1)),
        ev.ThreadsSeen(threads=(Thread(id="thread:box/20/20", process=child, tid=20),), **at(2)),
        ev.ProcessExited(id=child, status=0, **at(3)),
    )
    assert fold(*events).last_threads() == []
    over = fold(*events, ev.ProcessExited(id=PROCESS, status=0, **at(4)))
    assert [thread.id for thread in over.last_threads()] == ["thread:box/20/20"]
