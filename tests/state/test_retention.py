"""F5: what of exited processes and of touches the state keeps, and what it counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from livedbg.model import (
    Edge,
    EdgeKind,
    Frame,
    Intrusion,
    LogSource,
    Process,
    Resource,
    SourceHealth,
    SourceStatus,
    Stack,
    Thread,
)
from livedbg.model import events as ev
from livedbg.model.ids import process_of
from livedbg.model.launches import LaunchTrail, ProfileSlice, SampledStack
from livedbg.model.snapshot import Touches
from livedbg.state.retention import EXITED_PROCESSES, KERNEL_OBJECTS, TOUCH_WINDOW
from livedbg.state.store import Store
from tests.state.test_store import PROCESS, at, fold, plain


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.invariant("store.F5")
def test_F5_exited_processes_are_bounded(failed: bool) -> None:
    """One over the bound, and the oldest eighth goes with all that hangs on it."""
    store = Store()
    for pid in range(1, EXITED_PROCESSES + 1):
        store.apply_all(life_of(pid, status=-9 if failed else 0))
    assert len(store.snapshot().processes) == EXITED_PROCESSES and store.snapshot().forgotten_processes == 0
    store.apply_all(life_of(EXITED_PROCESSES + 1, status=-9 if failed else 0))
    snapshot, left = store.snapshot(), EXITED_PROCESSES - EXITED_PROCESSES // 8
    assert snapshot.forgotten_processes == EXITED_PROCESSES + 1 - left
    kept = {f"process:box/{pid}" for pid in range(EXITED_PROCESSES + 2 - left, EXITED_PROCESSES + 2)}
    assert set(snapshot.processes) == kept
    for name in ("threads", "stacks", "activity", "launches"):
        assert {process_of(thread) for thread in getattr(snapshot, name)} == kept, name
    assert {process_of(key.entity) for key in snapshot.counters} == kept
    assert {key.target for key in snapshot.statuses} == kept
    assert {source.process for source in snapshot.log_sources.values()} == kept
    assert (
        {process_of(key.source) for key in snapshot.edges} == kept == {process_of(lock) for lock in snapshot.resources}
    )
    assert len(snapshot.waits) == 2 * len(kept)


def life_of(pid: int, *, status: int | None = 0, named: bool = False) -> Iterator[ev.Event]:
    """A process with a thread that waited for a mutex, from its first look to its end."""
    process, thread, mutex = f"process:box/{pid}", f"thread:box/{pid}/{pid}", f"mutex:box/{pid}/0x10"
    seen = Process(id=process, host="box", pid=pid, start_ticks=1, named=named)
    edges = (
        Edge(kind=EdgeKind.WAITS_FOR, source=thread, target=mutex),
        Edge(kind=EdgeKind.HOLDS, source=process, target=mutex),
    )
    frames = (Frame("wait"),)
    yield ev.ProcessSeen(process=seen, **at(pid))
    yield ev.ThreadsSeen(threads=(Thread(id=thread, process=process, tid=pid),), **at(pid))
    yield ev.StacksSeen(stacks=(Stack(thread=thread, frames=frames, taken_mono_ns=pid, source="no stop"),), **at(pid))
    slices = (ProfileSlice(thread=thread, start_mono_ns=pid, end_mono_ns=pid, stacks=(SampledStack(frames, 1),)),)
    yield ev.SamplesSeen(slices=slices, **at(pid))
    yield ev.LaunchesSeen(trails=(LaunchTrail(thread=thread, process=process, count=1, last=()),), **at(pid))
    yield ev.ResourcesSeen(resources=(Resource(id=mutex, kind="mutex", name="m"),), **at(pid))
    yield ev.EdgesReplaced(scope=f"proc/{process}/threads", edges=edges, **at(pid))
    yield ev.CounterSeen(entity=process, name="launch calls", value=1, **at(pid))
    yield ev.CounterSeen(entity=thread, name="steps", value=1, **at(pid))
    source = LogSource(id=f"log:box/{pid}/stdout", name="stdout", process=process)
    yield ev.LogSourceSeen(source=source, **at(pid))
    health = SourceStatus(source="proc", target=process, health=SourceHealth.OK)
    yield ev.StatusSeen(status=health, **at(pid))
    yield ev.ProcessExited(id=process, status=status, **at(pid))


@pytest.mark.invariant("store.F5", "retention.K1")
def test_F5_a_named_process_and_a_live_one_are_never_forgotten() -> None:
    store = Store()
    store.apply_all(life_of(1, named=True))
    store.apply_all(list(life_of(2))[:-1])  # it runs
    for pid in range(10, 10 + 2 * EXITED_PROCESSES):
        store.apply_all(life_of(pid))
    snapshot = store.snapshot()
    assert {"process:box/1", "process:box/2"} <= set(snapshot.processes)
    assert {"thread:box/1/1", "thread:box/2/2"} <= set(snapshot.threads) & set(snapshot.stacks)
    assert {"mutex:box/1/0x10", "mutex:box/2/0x10"} <= set(snapshot.resources)
    assert len(snapshot.processes) + snapshot.forgotten_processes == 2 + 2 * EXITED_PROCESSES


@pytest.mark.invariant("store.F5", "retention.K2")
def test_F5_processes_that_end_well_do_not_push_out_one_that_was_killed() -> None:
    store = Store()
    store.apply_all(life_of(1, status=-9))
    for pid in range(10, 10 + 2 * EXITED_PROCESSES):
        store.apply_all(life_of(pid, status=None if pid % 2 else 0))
    assert store.snapshot().processes["process:box/1"].exit_status == -9


@pytest.mark.invariant("store.F5")
def test_F5_a_pid_that_is_used_again_counts_from_its_last_end() -> None:
    store = Store()
    store.apply_all(life_of(1))
    for pid in range(2, EXITED_PROCESSES + 1):
        store.apply_all(life_of(pid))
    again = Process(id="process:box/1", host="box", pid=1, start_ticks=900)
    store.apply(ev.ProcessSeen(process=again, **at(5_000)))
    store.apply(ev.ProcessExited(id=again.id, status=0, **at(5_001)))
    store.apply_all(life_of(EXITED_PROCESSES + 1))
    snapshot = store.snapshot()
    assert snapshot.processes[again.id].start_ticks == 900 and "process:box/2" not in snapshot.processes


@pytest.mark.invariant("store.F5")
def test_F5_a_lock_in_shared_memory_stays_while_another_process_waits_for_it() -> None:
    store = Store()
    store.apply_all(life_of(1))
    waits = Edge(kind=EdgeKind.WAITS_FOR, source="thread:box/5000/5000", target="mutex:box/1/0x10")
    store.apply(ev.EdgesReplaced(scope="proc/process:box/5000", edges=(waits,), **at(5_000)))
    for pid in range(10, 10 + EXITED_PROCESSES):
        store.apply_all(life_of(pid))
    snapshot = store.snapshot()
    assert "process:box/1" not in snapshot.processes and "mutex:box/1/0x10" in snapshot.resources
    assert waits.key in snapshot.edges


def seen(pid: int) -> ev.ProcessSeen:
    return ev.ProcessSeen(process=Process(id=f"process:box/{pid}", host="box", pid=pid), **at(pid))


def touched(number: int, target: str = PROCESS) -> ev.Touched:
    touch = Intrusion(target=target, what="glance", why="asked", paused_ns=number, stops=2)
    return ev.Touched(intrusion=touch, **at(number))


@pytest.mark.parametrize("over", [0, 1, TOUCH_WINDOW])
@pytest.mark.invariant("store.F5", "retention.K4")
def test_F5_touches_are_bounded_and_their_totals_exact(over: int) -> None:
    store, count = Store(), TOUCH_WINDOW + over
    store.apply_all((seen(10), seen(11)))
    for number in range(count):
        store.apply(touched(number, PROCESS if number % 2 else "process:box/11"))
    snapshot = store.snapshot()
    assert [touch.paused_ns for touch in snapshot.intrusions] == list(range(over, count))
    assert snapshot.touches == Touches(count, 2 * count, sum(range(count)))
    assert snapshot.paused_ns == sum(range(count))
    assert snapshot.touches_of(PROCESS) == Touches(count // 2, 2 * (count // 2), sum(range(1, count, 2)))
    assert store.copy().snapshot().touches == snapshot.touches


@pytest.mark.invariant("store.F5")
def test_F5_totals_of_touches_outlive_the_process_that_was_touched() -> None:
    store = Store()
    store.apply_all(life_of(1))
    store.apply(touched(7, "process:box/1"))
    for _ in range(TOUCH_WINDOW):
        store.apply(touched(1))
    for pid in range(20, 20 + EXITED_PROCESSES):
        store.apply_all(life_of(pid))
    snapshot = store.snapshot()
    assert "process:box/1" not in snapshot.processes and set(snapshot.older_touches) == {""}
    assert snapshot.touches == Touches(TOUCH_WINDOW + 1, 2 * (TOUCH_WINDOW + 1), TOUCH_WINDOW + 7)
    store.apply(touched(3))  # now the oldest touch is one of a process that the state never knew
    assert set(store.snapshot().older_touches) == {""}
    assert store.snapshot().touches.paused_ns == TOUCH_WINDOW + 10


@pytest.mark.invariant("store.F5", "retention.K3")
def test_F5_kernel_objects_that_nobody_waits_for_are_bounded() -> None:
    store, many = Store(), 3 * KERNEL_OBJECTS
    for number in range(many):
        pipe, thread = f"pipe:box/{number}", "thread:box/10/10"
        store.apply(ev.ResourcesSeen(resources=(Resource(id=pipe, kind="pipe", name="p"),), **at(number)))
        edge = Edge(kind=EdgeKind.WAITS_FOR, source=thread, target=pipe)
        scope = "proc/always" if number == 0 else "proc/process:box/10"
        store.apply(ev.EdgesReplaced(scope=scope, edges=(edge,), **at(number)))
    snapshot = store.snapshot()
    assert len(snapshot.resources) <= KERNEL_OBJECTS + 1
    assert {"pipe:box/0", f"pipe:box/{many - 1}"} <= set(snapshot.resources)


@pytest.mark.invariant("store.F5")
def test_F5_what_is_forgotten_does_not_depend_on_looks_copies_or_chunks() -> None:
    events = [event for pid in range(1, EXITED_PROCESSES + 200) for event in life_of(pid, status=pid % 3)]
    events += [touched(number) for number in range(TOUCH_WINDOW + 50)]
    whole, pieces = fold(*events), Store()
    for begin in range(0, len(events), 997):
        pieces.apply_all(ev.decode(ev.encode(event)) for event in events[begin : begin + 997])
        pieces.snapshot()
        pieces = pieces.copy()
    assert plain(pieces.snapshot()) == plain(whole)
