"""Real programs of IREE: the dispatch that runs, what waits behind it, and semaphores that nobody signals."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from livedbg.adapters.iree.live import libraries, recordings, shot, watch
from livedbg.adapters.iree.live.libraries import Libraries
from livedbg.adapters.iree.live.shot import Reader
from livedbg.linux.maps import parse_maps
from livedbg.model import Process
from livedbg.session.pacing import Cost
from livedbg.session.publisher import Statuses
from tests.adapters.iree.conftest import Compile, RunModule, needs_lavapipe
from tests.conftest import Target, eventually

pytestmark = pytest.mark.iree

INPUTS: Final = ("--input=16x16xf32=1.0", "--input=16x16xf32={gate}", "--input=16x32xf32=0.1")


def _loops(run_module: RunModule, compiled: Compile, gate: float = 0.75, *words: str) -> Target:
    inputs = [text.format(gate=gate) for text in INPUTS]
    return run_module(compiled("gated"), *inputs, "--task_topology_group_count=2", *words)


def test_a_look_names_the_dispatch_that_runs_and_those_behind_it(run_module: RunModule, compiled: Compile) -> None:
    target = _loops(run_module, compiled)
    reader = Reader(target.pid)
    shots: list[Any] = []

    def looped() -> bool:
        shots[:] = [reader.look()]
        recordings = list(shots[0].recordings.values()) if shots[0] is not None else []
        return bool(recordings and recordings[0].progress and recordings[0].progress.region == 1)

    eventually(looped)  # it starts
    [recording] = shots[0].recordings.values()
    names = [command.dispatch.name for command in recording.commands]
    assert [command.region for command in recording.commands] == [0, 1, 2]
    assert [name[: len("main_dispatch_0")] for name in names] == [f"main_dispatch_{number}" for number in range(3)]
    assert recording.commands[1].dispatch.source.startswith("gated.mlir:")
    assert recording.progress.left == recording.commands[1].tiles and not recording.progress.done
    kinds = sorted(one.kind for one in shots[0].operations.values())
    assert kinds == ["dealloca", "execute"]
    [wait] = shots[0].host
    assert wait.tid == target.pid and wait.point in shots[0].waits.producers


@pytest.mark.invariant("iree_shot.T1")
def test_T1_a_second_look_that_finds_the_same_copies_nothing(run_module: RunModule, compiled: Compile) -> None:
    target = _loops(run_module, compiled)
    reader = Reader(target.pid)

    def stands() -> bool:
        reader.look()
        before = reader.copied
        shot = reader.look()
        return shot is not None and bool(shot.operations) and reader.copied == before

    eventually(stands)


@pytest.mark.invariant("iree_shot.T3")
def test_T3_what_is_queued_after_a_search_that_found_nothing_is_seen(
    run_module: RunModule, compiled: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = _loops(run_module, compiled)
    reader = Reader(target.pid)

    def queued() -> bool:
        seen = Reader(target.pid).look()
        return seen is not None and bool(seen.operations)

    eventually(queued)
    with monkeypatch.context() as early:  # as a search a moment before would have found it
        early.setattr(shot, "find_operations", lambda *_, **__: {})
        assert not getattr(reader.look(), "operations", None)
    eventually(lambda: bool(getattr(reader.look(), "operations", None)))


@pytest.mark.invariant("iree_shot.T3")
def test_T3_the_context_of_a_recording_that_had_not_begun_is_seen_once_it_has(
    run_module: RunModule, compiled: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = _loops(run_module, compiled)
    reader = Reader(target.pid)

    def begun() -> bool:
        seen = Reader(target.pid).look()
        return seen is not None and any(one.progress for one in seen.recordings.values())

    eventually(begun)
    with monkeypatch.context() as early:  # as a search a moment before would have found it
        early.setattr(recordings, "_contexts", lambda *_: {})
        assert not any(one.progress for one in reader.look().recordings.values())
    eventually(lambda: any(one.progress for one in reader.look().recordings.values()))


@pytest.mark.invariant("iree_shot.T2")
def test_T2_of_another_version_only_the_dispatches_are_read(
    run_module: RunModule, compiled: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shot, "_KNOWN", re.compile("4[.]"))
    target = _loops(run_module, compiled)
    reader = Reader(target.pid)

    def loaded() -> bool:
        seen = reader.look()
        return seen is not None and any(library.dispatches for library in seen.libraries)

    eventually(loaded)
    seen = reader.look()
    assert seen is not None and not seen.known and not seen.operations and not reader.copied


@pytest.mark.invariant("iree_libraries.L1", "iree_libraries.L2")
def test_L1_L2_a_library_is_read_once_and_of_an_unknown_version_not_at_all(
    run_module: RunModule, compiled: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = _loops(run_module, compiled)
    eventually(lambda: bool(Libraries(target.pid).look(parse_maps(target.pid))))
    reads: list[int] = []
    read = libraries._library
    monkeypatch.setattr(libraries, "_library", lambda *words: reads.append(1) or read(*words))
    own = Libraries(target.pid)
    [library] = own.look(parse_maps(target.pid))
    assert own.look(parse_maps(target.pid)) == (library,) and len(reads) == 1
    first = library.dispatches[0]
    assert own.at(first.address + 1) == first and own.at(library.end) is None
    monkeypatch.setattr(libraries, "_VERSIONS", frozenset({5}))
    [unknown] = Libraries(target.pid).look(parse_maps(target.pid))
    assert unknown.version == library.version and not unknown.dispatches and unknown.name == library.name


@pytest.mark.parametrize("device", ["local-task", pytest.param("vulkan", marks=needs_lavapipe)])
def test_a_value_that_nobody_signals_is_missing_and_larger_ones_make_no_circle(
    calls: Callable[[str, str, Path], Target], compiled: Compile, device: str
) -> None:
    backend = "vulkan" if device == "vulkan" else "cpu"
    target = calls("chain", device, compiled("stage", "--iree-execution-model=async-external", device=backend))
    reader = Reader(target.pid)
    seen: list[Any] = []

    def queued() -> bool:
        seen[:] = [reader.look()]
        return seen[0] is not None and len(seen[0].operations) == 8

    eventually(queued)
    [missing] = seen[0].waits.missing
    assert missing.value == 1 and seen[0].waits.later == {missing: 2}
    assert sorted(one.kind for one in seen[0].operations.values()) == ["alloca"] * 4 + ["execute"] * 4


async def test_a_second_look_comes_soon_after_a_costly_first_one_and_many_of_them_are_rare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only what two looks have found is shown."""
    monkeypatch.setattr(watch, "timed", lambda _look: (None, Cost(cpu_s=0.1)))
    context: Any = SimpleNamespace(request=SimpleNamespace(host="box"))
    looks = watch.LiveWatch(Statuses("iree"))
    process = Process(id="process:box/1", host="box", pid=os.getpid())
    pauses = [await looks.look(context, [process]) for _ in range(9)]
    assert pauses[:2] == [1.0, 1.0] and pauses[-1] > 10.0


@pytest.mark.invariant("iree_shot.T4")
def test_T4_another_call_with_the_same_addresses_and_values_is_another_operation(
    calls: Callable[[str, str, Path], Target], compiled: Compile
) -> None:
    target = calls("again", "local-task", compiled("stage", "--iree-execution-model=async-external"))
    reader = Reader(target.pid)

    def found() -> dict[tuple[int, object], bool]:
        seen = reader.look()
        return {(at, one.signals): at in seen.same for at, one in seen.operations.items()} if seen is not None else {}

    def stands() -> bool:
        now = found()
        return bool(now) and all(now.values())

    reused = 0
    while not reused:
        eventually(stands)  # its caller waits, though another thread runs all the time
        before = found()
        for _ in range(2):  # the memory of a call is freed after the next one has got its own
            target.stdin.write(b"\n")
            target.stdin.flush()
            target.ready = ""
            target.until("READY")
        now = found()
        reused = len(now.keys() & before.keys())
        assert not any(now.values())
    eventually(stands)
