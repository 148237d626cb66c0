"""Exceptions of real programs, reported by kernel probes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.linux import memory, procfs
from livedbg.model.catchpoints import CatchpointState, Moment
from livedbg.model.intents import Catch, Uncatch
from livedbg.probes.places import find_places
from livedbg.probes.tracefs import TraceEvents
from livedbg.text.demangling import demangled_type
from tests.adapters.exceptions.catching import Tracing, functions, tell
from tests.cli.zygote import Livedbg
from tests.conftest import Target, eventually
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

Build = Callable[..., Path]
Spawn = Callable[..., Target]


def text_is_whole(pid: int, name: str) -> bool:
    """Whether a function's first bytes in memory are those of its file."""
    found, _ = find_places(pid, [name])
    return all(memory.read(pid, f.address, 16) == _file_bytes(f.place.path, f.place.offset) for f in found)


def _file_bytes(path: str, offset: int) -> bytes:
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read(16)


def is_defined(pid: int) -> bool:
    """Whether there are definitions of a dead livedbg, once the next one has begun, which takes them out."""
    with TraceEvents() as trace:
        return f"livedbg_{pid}/" in trace.defined()


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("runtime", "std::runtime_error", "said so"),
        ("logic", "std::logic_error", "said so"),
        ("broken", "demo::Broken", "said so"),
        ("derived", "demo::Derived", "said so"),
        ("nvf", "nvfuser::nvfError", "said so"),
        ("c10", "c10::Error", "said so"),
        ("local", "(anonymous namespace)::Local", "said so"),
        ("bad_alloc", "std::bad_alloc", ""),
        ("int", "int", "42"),
        ("text", "char const*", "a C string"),
    ],
)
def test_type_and_message(thrower: Target, trace: Callable[..., Tracing], kind: str, name: str, message: str) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("any")
    tell(thrower, f"{kind} said so")
    (hit,) = tracing.hits_after(1)
    assert (hit.type, hit.message) == (name, message)
    assert functions(hit)[:3] == ["__cxa_throw", "innermost", "outer"] and functions(hit)[-1] == "main"
    assert not hit.partial
    assert hit.thread == f"thread:box/{thrower.pid}/{thrower.pid}"


@pytest.mark.parametrize(
    ("pattern", "message", "wanted"),
    [
        ("demo::Broken", "", {"demo::Broken", "demo::Derived"}),
        ("std::runtime_error", "", {"std::runtime_error", "demo::Broken", "demo::Derived"}),
        ("demo::Mixin", "", {"demo::Derived"}),
        ("demo::*", "", {"demo::Broken", "demo::Derived"}),
        ("/Error$/", "", {"nvfuser::nvfError", "c10::Error"}),
        ("nvfuser", "", {"nvfuser::nvfError"}),
        ("any", "number 3", {"demo::Broken"}),
    ],
)
def test_patterns(thrower: Target, trace: Callable[..., Tracing], pattern: str, message: str, wanted: set[str]) -> None:
    kinds = ["runtime", "logic", "int", "broken", "derived", "nvf", "c10", "runtime"]
    tracing = trace(thrower.pid)
    tracing.catch(pattern, message=message)
    for number, kind in enumerate(kinds):
        tell(thrower, f"{kind} number {number}")
    eventually(lambda: {hit.type for hit in tracing.hits} == wanted)
    tracing.view.send(Uncatch(catchpoint="C1"))
    eventually(lambda: tracing.points["C1"].state is CatchpointState.DONE)
    point = tracing.points["C1"]
    assert point.seen == len(kinds) and point.lost == 0
    assert point.hits == sum(hit.count for hit in tracing.hits)
    assert {hit.type for hit in tracing.hits} == wanted


def test_equal_stacks_are_one_hit_with_a_count(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("std::runtime_error")
    tell(thrower, "flood runtime 25 1000")
    tell(thrower, "runtime flood")  # the same but from elsewhere
    tell(thrower, "runtime another message")
    tracing.hits_after(27)
    assert sorted(hit.count for hit in tracing.hits) == [1, 1, 25]
    most = max(tracing.hits, key=lambda hit: hit.count)
    assert sum(most.history) == 25
    assert most.first_wall_ns is not None and most.at_wall_ns is not None and most.first_wall_ns < most.at_wall_ns


@pytest.mark.invariant("functions.P1")
def test_I1_threads_and_children_born_later(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("any", follow=True)
    for number in range(10):
        tell(thrower, f"thread nvf {number}")
    tell(thrower, "fork nvf in a child")
    tracing.hits_after(11)
    assert {hit.message for hit in tracing.hits} == {*map(str, range(10)), "in a child"}
    child = next(hit for hit in tracing.hits if hit.message == "in a child")
    assert child.process != tracing.process


def test_children_are_not_heard_unless_asked_for(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("any")
    tell(thrower, "fork nvf in a child")
    tell(thrower, "nvf in the parent")
    tracing.hits_after(1)
    tracing.stop()  # all was reported
    assert [hit.message for hit in tracing.hits] == ["in the parent"]


def test_I2_types_that_nobody_wants_are_left_to_the_kernel(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("nvfuser::nvfError")
    for number in range(6):
        tell(thrower, "flood logic 100 2000")  # no more than the rings hold: what is not read in time is lost
        tell(thrower, f"nvf {number}")
        tracing.hits_after(number + 1)
    tracing.view.send(Uncatch(catchpoint="C1"))
    eventually(lambda: tracing.points["C1"].state is CatchpointState.DONE)
    assert {hit.message for hit in tracing.hits} == set("012345")
    assert (tracing.points["C1"].hits, tracing.points["C1"].lost) == (6, 0)
    assert tracing.points["C1"].seen >= 606


def test_nothing_is_stopped_and_nothing_is_left_behind(thrower: Target, trace: Callable[..., Tracing]) -> None:
    assert text_is_whole(thrower.pid, "__cxa_throw")
    tracing = trace(thrower.pid)
    tracing.catch("any")
    assert not text_is_whole(thrower.pid, "__cxa_throw")  # the kernel's trap
    assert procfs.status_fields(thrower.pid)["TracerPid"] == "0"
    assert tracing.view.latest().snapshot.intrusions[0].what == "probe"
    assert tracing.view.latest().snapshot.paused_ns == 0
    tracing.stop()
    assert text_is_whole(thrower.pid, "__cxa_throw")
    assert tell(thrower, "runtime still here") == 1


def test_a_killed_listener_leaves_no_trap(thrower: Target) -> None:
    argv = ["catch", thrower.pid, "any"]
    for number in range(3):
        with Livedbg(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as killed:
            assert killed.stderr is not None
            assert b"traces" in killed.stderr.readline()
            tell(thrower, "runtime while somebody listens")
            os.kill(killed.pid, signal.SIGKILL)
        eventually(lambda: text_is_whole(thrower.pid, "__cxa_throw"))
        assert tell(thrower, "runtime afterwards") == 2 * number + 2
        eventually(lambda pid=killed.pid: not is_defined(pid))  # type: ignore[misc]


def test_count_ends_it(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("any", count=2)
    for _ in range(5):
        tell(thrower, "runtime again")
    eventually(lambda: tracing.points["C1"].state is CatchpointState.DONE)
    assert tracing.points["C1"].hits == 2 and text_is_whole(thrower.pid, "__cxa_throw")


def test_rethrow_and_catch(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("any", moment=Moment.RETHROW)
    tracing.catch("std::runtime_error", moment=Moment.CATCH)
    tell(thrower, "rethrow twice caught")
    tracing.hits_after(3)
    caught = next(hit for hit in tracing.hits if hit.catchpoint == "C2")
    assert (caught.type, caught.message) == ("std::runtime_error", "twice caught")
    again = next(hit for hit in tracing.hits if hit.catchpoint == "C1")
    assert functions(again)[:2] == ["__cxa_rethrow", "outer"]


def test_functions_that_are_called(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("abort")
    tracing.catch("no_such_function_at_all", moment=Moment.CALL)
    assert tracing.points["C2"].state is CatchpointState.FAILED
    assert "no function no_such_function_at_all" in tracing.points["C2"].note
    stdin = thrower.process.stdin
    assert stdin is not None
    stdin.write(b"abort\n")
    assert thrower.process.wait(60) == -signal.SIGABRT
    (hit,) = tracing.hits_after(1)
    assert hit.type == "abort"


def test_functions_of_cplusplus_by_their_plain_name(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("innermost", moment=Moment.CALL)
    tracing.catch("std::thread::join", moment=Moment.CALL)
    assert {point.state for point in tracing.points.values()} == {CatchpointState.ARMED}, tracing.points
    tell(thrower, "logic called")
    (hit,) = tracing.hits_after(1)
    assert functions(hit)[:2] == ["innermost", "outer"]


def test_a_runtime_that_is_linked_statically(build_target: Build, spawn: Spawn, trace: Callable[..., Tracing]) -> None:
    target = spawn([build_target("throws", "-static-libstdc++", "-static-libgcc", output="throws-static")])
    tracing = trace(target.pid)
    tracing.catch("demo::Broken")
    tell(target, "broken in a static one")
    (hit,) = tracing.hits_after(1)
    assert (hit.type, hit.message) == ("demo::Broken", "in a static one")
    assert "throws-static" in tracing.points["C1"].note


def test_a_stripped_program(build_target: Build, spawn: Spawn, trace: Callable[..., Tracing]) -> None:
    target = spawn([build_target("throws", "-s", output="throws-stripped")])
    tracing = trace(target.pid)
    tracing.catch("demo::Broken")
    tell(target, "derived without symbols")
    (hit,) = tracing.hits_after(1)
    assert (hit.type, hit.message) == ("demo::Derived", "without symbols")


def test_a_runtime_that_can_not_be_heard_is_said(
    build_target: Build, spawn: Spawn, trace: Callable[..., Tracing], tmp_path: Path
) -> None:
    marked = build_target("throws", "-static-libstdc++", "-static-libgcc", "-s", output="throws-marked")
    blind = tmp_path / "blind"
    subprocess.run(["objcopy", "--remove-section=.note.stapsdt", marked, blind], check=True)
    target = spawn([blind])
    tracing = trace(target.pid)
    tracing.catch("any")
    assert tracing.points["C1"].state is CatchpointState.ARMED and "no C++ runtime" in tracing.points["C1"].note


def test_a_runtime_that_is_loaded_later(spawn: Spawn, trace: Callable[..., Tracing]) -> None:
    code = (
        "import ctypes; print('READY', flush=True); input()\n"
        "ctypes.CDLL('libstdc++.so.6'); print('done 0', flush=True); input()"
    )
    target = spawn([sys.executable, "-c", code])
    tracing = trace(target.pid)
    tracing.catch("any")
    assert "no C++ runtime" in tracing.points["C1"].note
    tell(target, "")
    eventually(lambda: "libstdc++" in tracing.points["C1"].note)


def test_torch(spawn: Spawn, trace: Callable[..., Tracing]) -> None:
    code = (
        "import torch; print('READY', flush=True)\n"
        "for line in iter(input, 'end'):\n"
        "    try: torch.zeros(2) + torch.zeros(3)\n"
        "    except RuntimeError: print('done 1', flush=True)\n"
    )
    target = spawn([sys.executable, "-c", code])
    tracing = trace(target.pid)
    tracing.catch("c10")
    tell(target, "go")
    (hit,) = tracing.hits_after(1)
    assert hit.type == "c10::Error"
    assert hit.message.startswith("The size of tensor a (2) must match the size of tensor b (3)")
    assert any("c10" in name for name in functions(hit))


def test_read_only_forbids_it(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid, read_only=True)
    tracing.view.send(Catch(process=tracing.process, pattern="any"))
    eventually(lambda: any("read-only" in notice for notice in tracing.notices))
    eventually(lambda: [point.state for point in tracing.points.values()] == [CatchpointState.FAILED])
    assert text_is_whole(thrower.pid, "__cxa_throw")


def test_names() -> None:
    assert demangled_type("N7nvfuser8nvfErrorE") == "nvfuser::nvfError"
    assert demangled_type("*N12_GLOBAL__N_15LocalE") == "(anonymous namespace)::Local"
    assert demangled_type("NSt3__113runtime_errorE") == "std::runtime_error"
    assert demangled_type("Z4mainE5Local") == "main::Local"
    assert demangled_type("Z4mainE5") == "Z4mainE5"  # not understood: as it is
    assert "\x1b" not in demangled_type("\x1b[31m")
    assert demangled_type("i") == "int"


def test_what_ends_the_process_has_its_stack(thrower: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(thrower.pid)
    tracing.catch("std::runtime_error")
    stdin = thrower.process.stdin
    assert stdin is not None
    stdin.write(b"uncaught runtime the last word\n")
    assert thrower.process.wait(60) == -signal.SIGABRT
    (hit,) = tracing.hits_after(1)
    assert hit.message == "the last word" and functions(hit)[:2] == ["__cxa_throw", "innermost"]
