"""Threads of a simulator named by the AI core that each of them is, read from their thread-specific data."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.ascend.live import core_threads
from livedbg.adapters.ascend.live.core_threads import CoreThread, CoreThreads
from livedbg.linux import memory
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import thread_ids
from livedbg.linux.pthreads import ThreadData
from livedbg.model import EdgeKind
from livedbg.model.snapshot import Snapshot
from livedbg.session.view import Update
from tests.adapters.ascend.live.conftest import Simulator
from tests.adapters.ascend.sessions import watching
from tests.conftest import eventually

Start = Callable[..., Simulator]
CORES = 6


@pytest.fixture
def library(build_target: Callable[..., Path], tmp_path: Path) -> Path:
    """A library of the cores under the name that the simulator gives it; each thread is called by its core, `is3`."""
    built = build_target("ascend_core", "-shared", "-fPIC")
    return Path(shutil.copy(built, tmp_path / "aicore_sim_a1B2c3"))


def names(pid: int) -> dict[int, str]:
    found = {}
    for tid in thread_ids(pid):
        with contextlib.suppress(OSError):  # it ends meanwhile
            found[tid] = Path(f"/proc/{pid}/task/{tid}/comm").read_text().strip()
    return found


def named(pid: int) -> dict[int, int]:
    """By tid its core, as the threads call themselves."""
    return {tid: int(name[2:]) for tid, name in names(pid).items() if name.startswith("is")}


def roles(snapshot: Snapshot) -> dict[str, str]:
    return {thread.name: thread.role for thread in snapshot.threads.values() if thread.role and not thread.exited}


def test_each_thread_is_the_core_that_it_wrote_down(simulator: Start, library: Path) -> None:
    target = simulator()
    threads = CoreThreads(target.pid)
    assert threads.sample() == ()
    target.tell(f"cores {library} {CORES}")
    eventually(lambda: len(named(target.pid)) == CORES)
    eventually(lambda: threads.sample() == (named(target.pid),))
    library.unlink()  # the simulator may delete it; the copy that it has loaded stays
    assert CoreThreads(target.pid).sample() == (named(target.pid),)
    target.tell("leave")
    eventually(lambda: not named(target.pid))
    eventually(lambda: threads.sample() == ({},))


@pytest.mark.invariant("core_threads.C1")
def test_C1_what_contradicts_itself_names_nobody() -> None:
    well = {11: {3: 0, 4: 0x10}, 12: {3: 1, 4: 0x20}, 13: {4: 0x30}, 14: {3: 9}}
    assert core_threads._whole(core_threads._checked(well, 3, 4)) == {11: 0, 12: 1}
    for tid, values in ((15, {3: 1, 4: 0x40}), (15, {3: 3, 4: 0x40}), (15, {3: 2, 4: 0x10})):
        assert core_threads._whole(core_threads._checked({**well, tid: values}, 3, 4)) == {}


@pytest.mark.invariant("core_threads.C2")
def test_C2_the_last_threads_of_a_run_are_told_with_gaps_and_what_contradicts_itself_is_not() -> None:
    last = {11: {3: 7, 4: 0x10}, 12: {3: 10, 4: 0x20}}
    assert core_threads._checked(last, 3, 4) == {11: CoreThread(7, 0x10), 12: CoreThread(10, 0x20)}
    for values in ({3: 7, 4: 0x30}, {3: 8, 4: 0x10}):
        assert core_threads._checked({**last, 13: values}, 3, 4) == {}


@pytest.mark.invariant("pthreads.P1", "pthreads.P2")
def test_P1_P2_no_thread_data_without_a_c_library_and_damaged_lists_end(
    simulator: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = simulator()
    mappings = parse_maps(target.pid)
    assert not ThreadData(target.pid, [m for m in mappings if "libc" not in m.path]).known
    data = ThreadData(target.pid, mappings)
    assert data.known and data.values([10**6, 1]) == {}
    reads = 0

    def rising(_pid: int, ranges: list[tuple[int, int]]) -> list[bytes | None]:
        nonlocal reads
        reads += 1
        return [(address + 4096).to_bytes(8, "little")[:size].ljust(size, b"\1") for address, size in ranges]

    monkeypatch.setattr(memory, "read_many", rising)
    assert data.values([1]) == {} and 1000 < reads < 200_000
    monkeypatch.setattr(memory, "read_many", lambda _pid, ranges: [None] * len(ranges))
    assert data.values([1]) == {}


async def test_a_user_sees_the_cores_of_threads_and_the_threads_of_cores(simulator: Start, library: Path) -> None:
    target = simulator()
    target.tell("submit 0 7", "run 3 0.0", f"cores {library} {CORES}")

    def runs(snapshot: Snapshot) -> set[tuple[str, str]]:
        return {(e.source, e.target) for e in snapshot.edges.values() if e.kind is EdgeKind.RUNS_ON}

    def all_named(update: Update) -> bool:
        cores = {source for source, _ in runs(update.snapshot)}
        named = roles(update.snapshot)  # a thread has its core a moment before its name
        at_work = len(named) == CORES and all(name.startswith("is") for name in named)
        return at_work and {"core:ascend/3", "task:ascend/r0t0"} <= cores

    async with watching(target.pid) as watched:
        update = await watched.until(all_named)
        said = roles(update.snapshot)
        assert {name: role.split(" (")[0] for name, role in said.items()} == {
            f"is{n}": f"core {n}" for n in range(CORES)
        }
        thread = next(t for t in update.snapshot.threads.values() if t.name == "is3")
        assert thread.title == f"{thread.role}, is3"
        assert {("core:ascend/3", thread.id), ("task:ascend/r0t0", "core:ascend/3")} <= runs(update.snapshot)
        target.tell("leave")
        await watched.until(lambda update: not roles(update.snapshot))
