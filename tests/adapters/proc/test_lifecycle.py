"""Threads and processes that come and go while they are watched; what an observe session leaves untouched."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.proc import ProcAdapter
from livedbg.adapters.proc.adapter import _Scanner
from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.threads import ThreadReader
from livedbg.adapters.proc.watch import ProcessWatch
from livedbg.linux.access import unsuitable
from livedbg.linux.procfs import Stat, all_ended, child_pids, read_stat, status_fields, thread_ids
from livedbg.model import EdgeKey, EdgeKind, SourceHealth, ThreadState
from livedbg.model.events import EdgesReplaced, Event, Looked, ProcessExited, ProcessSeen, Stamper, ThreadsSeen
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.session import Session
from livedbg.session.view import Update
from tests.conftest import eventually, settled
from tests.waiting import awaited

HOST = "box"


class Watched:
    """A running session: the newest snapshot and all events."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.events: list[Event] = []

    @property
    def snapshot(self) -> Snapshot:
        return self.updates[-1].snapshot if self.updates else Snapshot()

    async def until(self, true: Callable[[Snapshot], bool]) -> None:
        await awaited(lambda: true(self.snapshot))


@contextlib.asynccontextmanager
async def watching(*targets: TargetProcess, tree: bool = True, interval_s: float = 0.05) -> AsyncIterator[Watched]:
    """Watch processes by the adapter alone."""
    watched = Watched()
    request = Request(host=HOST, processes=targets, tree=tree, interval_s=interval_s)
    session = Session(request, [ProcAdapter()], watched.updates.append, watched.events.extend)
    running = asyncio.create_task(session.run())
    try:
        yield watched
    finally:
        if not running.done():
            session.stop()
        await running


def order(target: Any, letter: bytes) -> str:
    """Tell `waits orders` what to do; the value it answers with."""
    target.stdin.write(letter)
    return str(target.line().partition("=")[2])


async def test_threads_are_seen_to_start_and_to_end(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "orders"])
    async with watching(TargetProcess(target.pid)) as watched:
        await watched.until(lambda s: bool(s.threads))
        tid = await asyncio.to_thread(order, target, b"t")
        thread = f"thread:{HOST}/{target.pid}/{tid}"
        await watched.until(lambda s: thread in s.threads and s.threads[thread].waits_in is not None)
        assert (EdgeKind.PART_OF, thread, f"process:{HOST}/{target.pid}") in watched.snapshot.edges
        await asyncio.to_thread(order, target, b"x")
        await watched.until(lambda s: s.threads[thread].exited)
        assert (EdgeKind.PART_OF, thread, f"process:{HOST}/{target.pid}") not in watched.snapshot.edges


async def test_children_are_followed_and_seen_to_end(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "orders"])
    async with watching(TargetProcess(target.pid)) as watched:
        await watched.until(lambda s: bool(s.threads))
        child = await asyncio.to_thread(order, target, b"f")
        process = f"process:{HOST}/{child}"
        await watched.until(lambda s: process in s.processes)
        assert watched.snapshot.processes[process].ppid == target.pid
        await asyncio.to_thread(order, target, b"k")
        await watched.until(lambda s: s.processes[process].exited)
        parent = watched.snapshot.processes[f"process:{HOST}/{target.pid}"]
        assert not parent.exited
        assert parent.named and not watched.snapshot.processes[process].named


async def test_children_are_left_alone_without_tree(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "orders"])
    await asyncio.to_thread(order, target, b"f")
    async with watching(TargetProcess(target.pid), tree=False) as watched:
        await watched.until(lambda s: bool(s.threads))
        ticks = [e for e in watched.events if isinstance(e, Looked)]
        await watched.until(lambda _: len([e for e in watched.events if isinstance(e, Looked)]) > len(ticks) + 3)
        assert set(watched.snapshot.processes) == {f"process:{HOST}/{target.pid}"}


async def test_the_session_ends_with_its_target_and_says_so(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "orders"])
    async with watching(TargetProcess(target.pid)) as watched:
        await watched.until(lambda s: bool(s.threads))
        target.stdin.write(b"q")
        await watched.until(lambda s: s.processes[f"process:{HOST}/{target.pid}"].exited)
        await watched.until(lambda _: watched.updates[-1].ended)
    (status,) = watched.snapshot.statuses.values()
    assert (status.health, status.code) == (SourceHealth.ENDED, "")
    assert watched.snapshot.processes[f"process:{HOST}/{target.pid}"].exit_status == 7  # still a zombie of ours


async def test_a_killed_process_has_ended_though_its_tracer_does_not_collect_its_threads(
    waits: Path, spawn: Callable[..., Any], build_target: Callable[..., Path]
) -> None:
    target = spawn([waits, "orders"])
    tid = int(await asyncio.to_thread(order, target, b"t"))
    spawn([build_target("tracer"), str(target.pid), "idle"])
    assert unsuitable(target.pid) is None and not all_ended(target.pid)
    async with watching(TargetProcess(target.pid)) as watched:
        await watched.until(lambda s: len(s.threads) > 1)
        target.process.kill()
        await watched.until(lambda s: any(process.exited for process in s.processes.values()))
    assert tid in thread_ids(target.pid) and all_ended(target.pid)
    (process,) = watched.snapshot.processes.values()
    assert process.exit_status == -signal.SIGKILL
    problem = unsuitable(target.pid)
    assert problem is not None and problem.code == "zombie"


@pytest.mark.invariant("watch.W3")
async def test_W3_a_pid_that_was_used_again_is_not_taken_for_the_target(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "orders"])
    before = TargetProcess(target.pid, read_stat(target.pid).start_ticks - 100)
    async with watching(before) as watched:
        await watched.until(lambda _: bool(watched.updates) and watched.updates[-1].ended)
    assert watched.snapshot.threads == {}
    assert [s.health for s in watched.snapshot.statuses.values()] == [SourceHealth.ENDED]


@pytest.mark.invariant("watch.W3")
def test_W3_a_wait_for_the_same_thing_after_the_thread_has_run_is_another_one(spawn: Callable[..., Any]) -> None:
    echo = "import sys\nprint('READY', flush=True)\nfor line in sys.stdin: print(line, end='', flush=True)"
    target = spawn([sys.executable, "-c", echo], wait_for="READY")
    watch = ProcessWatch(Scene(HOST), target.pid)
    waits: list[tuple[EdgeKey, int | None]] = []

    def waits_again(than: int | None = None) -> bool:
        found = [event for event in watch.sample() if isinstance(event, EdgesReplaced)]
        edges = [edge for event in found for edge in event.edges if edge.kind is EdgeKind.WAITS_FOR]
        waits[:] = [(edge.key, edge.since_mono_ns) for edge in edges] or waits
        return bool(waits) and waits[0][1] != than

    try:
        eventually(waits_again)
        (before,) = waits
        assert not watch.sample()
        target.stdin.write(b"again\n")
        target.stdin.flush()
        assert target.line() == "again"
        eventually(lambda: waits_again(before[1]))
        (after,) = waits
        assert after[0] == before[0] and (after[1] or 0) > (before[1] or 0)
    finally:
        watch.close()


@pytest.mark.invariant("threads.T1")
def test_T1_a_thread_with_the_number_of_one_that_ended_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ThreadReader(os.getpid())
    try:
        samples, _ = reader.sample()
        me = next(sample for sample in samples if sample.tid == threading.get_native_id())
        assert me.start_ticks == read_stat(os.getpid(), me.tid).start_ticks
        reader.most_files = 0
        real = read_stat

        def later(pid: int, tid: int | None = None) -> Stat:
            stat = real(pid, tid)
            return stat._replace(start_ticks=stat.start_ticks + 1) if tid == me.tid else stat

        monkeypatch.setattr("livedbg.linux.procfs.read_stat", later)
        samples, changed = reader.sample()
        again = next(sample for sample in changed if sample.tid == me.tid)
        assert again.start_ticks == (me.start_ticks or 0) + 1
    finally:
        reader.close()


@pytest.mark.invariant("watch.W1")
async def test_W1_quiet_threads_and_edges_are_told_once(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "mutex"])
    settled(target.pid)
    async with watching(TargetProcess(target.pid)) as watched:
        await watched.until(lambda _: sum(isinstance(e, Looked) for e in watched.events) > 12)
    seen = [thread for e in watched.events if isinstance(e, ThreadsSeen) for thread in e.threads]
    told = [thread.id for thread in seen]
    assert len(set(told)) == 4 and all(told.count(thread) <= 2 for thread in told)  # then what could wake it
    assert all(one != other for one in seen for other in seen if one is not other)
    assert sum(isinstance(e, EdgesReplaced) for e in watched.events) == 2  # waits; threads of the process


async def test_a_stopped_process_is_said_to_be_stopped(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "sleep"])
    os.kill(target.pid, signal.SIGSTOP)
    process = f"process:{HOST}/{target.pid}"
    async with watching(TargetProcess(target.pid)) as watched:
        await watched.until(lambda s: process in s.processes and s.processes[process].state is ThreadState.STOPPED)
        await watched.until(lambda s: all("SIGCONT" in (t.waits_in or "") for t in s.threads.values()))
        os.kill(target.pid, signal.SIGCONT)
        await watched.until(lambda s: s.processes[process].state is ThreadState.WAITING)


def _counters(pid: int) -> dict[int, tuple[str, ...]]:
    names = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", "TracerPid", "State")
    return {tid: tuple(status_fields(pid, tid)[name] for name in names) for tid in thread_ids(pid)}


@pytest.mark.invariant("proc_adapter.P1")
async def test_P1_observing_leaves_the_target_untouched(waits: Path, spawn: Callable[..., Any], tmp_path: Path) -> None:
    """No context switch of a blocked thread, no tracer, no stop, over many looks."""
    for mode in ("mutex", "ring", "cond", "flock"):
        target = spawn([waits, mode, tmp_path / "file"])
        settled(target.pid)
        process = f"process:{HOST}/{target.pid}"
        async with watching(TargetProcess(target.pid), interval_s=0.01) as watched:
            await watched.until(lambda s, process=process: any(e.kind is EdgeKind.WAITS_FOR for e in s.edges.values()))
            before = _counters(target.pid)
            ticks = sum(isinstance(e, Looked) for e in watched.events)
            await watched.until(lambda _, t=ticks, w=watched: sum(isinstance(e, Looked) for e in w.events) > t + 10)
            assert _counters(target.pid) == before
        assert all(counters[2] == "0" for counters in before.values())


@pytest.mark.invariant("proc_adapter.P2")
async def test_P2_time_goes_on_in_each_turn_although_nothing_changes(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "cond"])
    settled(target.pid)
    adapter_only: list[Event] = []

    class Recorder:
        """A context that keeps what the adapter emits."""

        request = Request(host=HOST, processes=(TargetProcess(target.pid),), interval_s=0.01)
        stamp = Stamper(HOST)

        def emit(self, *events: Event) -> None:
            adapter_only.extend(events)

        def settled(self) -> None:
            pass

        async def sleep(self, seconds: float) -> None:
            if len([e for e in adapter_only if isinstance(e, Looked)]) == 5:
                raise asyncio.CancelledError
            await asyncio.sleep(0)

    with contextlib.suppress(asyncio.CancelledError):
        await ProcAdapter().run(Recorder())  # type: ignore[arg-type]
    assert sum(isinstance(e, Looked) for e in adapter_only) == 5
    assert [type(e) for e in adapter_only[-4:]] == [Looked] * 4


@pytest.mark.invariant("proc_adapter.P3")
async def test_P3_who_holds_what_a_target_waits_for_is_watched_too(waits: Path, spawn: Callable[..., Any]) -> None:
    parent = spawn([waits, "ring"])
    child = int(dict(word.split("=") for word in parent.words)["child"])
    process = f"process:{HOST}/{parent.pid}"
    async with watching(TargetProcess(child), tree=False) as watched:
        await watched.until(lambda s: f"thread:{HOST}/{parent.pid}/{parent.pid}" in s.threads)
        assert watched.snapshot.processes[process].notes == ("not a target: holds what a target waits for",)
        assert watched.snapshot.processes[f"process:{HOST}/{child}"].notes == ()


TREE = """
import os, sys, time
end, other = os.pipe()
def child(what):
    if os.fork() == 0:
        what()
        os._exit(0)
def reads():
    os.close(other)
    os.read(end, 1)
def holds():
    os.close(end)
    child(lambda: time.sleep(900))
    time.sleep(900)
for what in (reads, holds, reads):
    child(what)
os.close(end)
os.close(other)
print("READY", flush=True)
time.sleep(900)
"""


@pytest.mark.invariant("proc_adapter.P3")
def test_P3_who_is_of_the_tree_is_a_target_at_the_first_look_though_it_also_holds_something(
    spawn: Callable[..., Any],
) -> None:
    target = spawn([sys.executable, "-c", TREE])
    eventually(lambda: len(below(target.pid)) == 4)
    for pid in below(target.pid):
        settled(pid)
    scanner = _Scanner(Request(host=HOST, processes=(TargetProcess(target.pid),)))
    try:
        events, *_ = scanner.turn()
    finally:
        scanner.close()
    seen = [event.process for event in events if isinstance(event, ProcessSeen)]
    assert len(seen) == 5 and all(process.target and not process.notes for process in seen)


def below(pid: int) -> list[int]:
    return [one for child in child_pids(pid) for one in (child, *below(child))]


def test_a_holder_that_turns_out_to_be_of_the_tree_is_read_anew(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "cond"])
    settled(target.pid)
    watch = ProcessWatch(Scene(HOST), target.pid, role="not a target: holds what a target waits for")
    try:
        watch.sample()
        watch.join()
        (seen,) = [event.process for event in watch.sample() if isinstance(event, ProcessSeen)]
        assert seen.target and not seen.notes
    finally:
        watch.close()


def test_a_process_whose_memory_went_first_tells_its_exit_status_at_the_next_look(
    waits: Path, spawn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = spawn([waits, "cond"])
    settled(target.pid)
    watch = ProcessWatch(Scene(HOST), target.pid)
    read = ThreadReader.sample

    def going(self: ThreadReader) -> Any:  # as a read of memory fails in the midst of an exit
        monkeypatch.setattr(ThreadReader, "sample", read)
        raise ProcessLookupError(errno.ESRCH, "no such process")

    try:
        watch.sample()
        monkeypatch.setattr(ThreadReader, "sample", going)
        watch.sample()
        assert not watch.gone and watch.changed
        os.kill(target.pid, signal.SIGKILL)
        eventually(lambda: read_stat(target.pid).state is ThreadState.ZOMBIE and thread_ids(target.pid) == [target.pid])
        monkeypatch.setattr(ThreadReader, "sample", going)
        (ended,) = [event for event in watch.sample() if isinstance(event, ProcessExited)]
        assert watch.gone and ended.status == -signal.SIGKILL
    finally:
        watch.close()


@pytest.mark.invariant("threads.T1")
def test_T1_a_thread_that_did_not_run_is_not_read_again(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "orders"])
    reader = ThreadReader(target.pid)
    try:
        samples, changed = reader.sample()
        assert [sample.tid for sample in samples] == [sample.tid for sample in changed] == [target.pid]
        eventually(lambda: reader.sample()[1] == [])
        tid = int(order(target, b"t"))
        seen: set[int] = set()
        eventually(lambda: not seen.update(sample.tid for sample in reader.sample()[1]) and {tid, target.pid} <= seen)
    finally:
        reader.close()


@pytest.mark.invariant("threads.T2")
def test_T2_files_are_kept_open_up_to_a_share_of_what_is_allowed(waits: Path, spawn: Callable[..., Any]) -> None:
    target = spawn([waits, "mutex"])
    before = ThreadReader.kept
    reader, frugal = ThreadReader(target.pid), ThreadReader(target.pid)
    reader.sample()
    assert ThreadReader.kept == before + 4
    frugal.most_files = ThreadReader.kept + 1
    assert len(frugal.sample()[0]) == 4
    assert ThreadReader.kept == before + 5
    reader.close()
    frugal.close()
    assert ThreadReader.kept == before
