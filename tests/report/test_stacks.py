"""The stacks of a report: merged, the culprit's first, and the short report for pasting."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from livedbg.model import Frame, Stack
from livedbg.model import events as ev
from livedbg.report.build import brief, report_of
from livedbg.report.document import FrameOut, ReportDocument
from livedbg.report.entities import frame_line
from livedbg.report.text import to_markdown, to_text
from livedbg.text.json_text import json_bytes
from tests.analysis.world import World

FUTEX = Frame(function="__futex_wait", module="libc.so.6")


def stacked(world: World, thread: str, line: int, function: str = "serve(int)") -> None:
    own = Frame(function=function, file="/src/server.cpp", line=line, module="server")
    stack = Stack(thread=thread, frames=(FUTEX, own), taken_mono_ns=world.now_ns, source="test")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))


def deadlock(idle: int = 300) -> ReportDocument:
    """Two threads that wait for each other, one that waits for them, and many that idle at one place."""
    world = World()
    world.process(1)
    a, b, c = world.thread(11, "alpha"), world.thread(12, "beta"), world.thread(13, "gamma")
    one, two = world.lock(0x10), world.lock(0x20)
    world.holds(one, a)
    world.holds(two, b)
    world.waits(a, two)
    world.waits(b, one)
    world.waits(c, one)
    for thread, line in ((a, 31), (b, 44), (c, 58)):
        stacked(world, thread, line)
    for number in range(idle):
        stacked(world, world.thread(100 + number, "idle", waits_in="futex"), 7, "pool()")
    world.later()
    return report_of(world.snapshot(), world.diagnosis())


@pytest.mark.invariant("report_stacks.K1")
def test_each_thread_with_a_stack_is_in_one_group_of_that_stack() -> None:
    report = deadlock()
    threads = [thread for group in report.stacks for thread in group.threads]
    known = report.entities
    assert sorted(threads) == sorted(name for name, one in known.items() if one.stack or isinstance(one.stack_of, str))
    for group in report.stacks:
        for thread in group.threads:
            of = known[thread].stack_of
            assert known[of if isinstance(of, str) else thread].stack == group.frames


@pytest.mark.invariant("report_stacks.K3")
def test_frames_are_given_once_and_those_of_the_culprits_always() -> None:
    report = deadlock()
    full = [name for name, known in report.entities.items() if known.stack]
    assert len(full) == 4, "three threads of the findings, one of the 300 idle ones"
    assert set(report.verdict.roots) <= set(full)


@pytest.mark.invariant("report_stacks.K2")
def test_the_stacks_of_the_culprits_come_first_however_many_idle() -> None:
    report = deadlock()
    assert [group.frames[1].line for group in report.stacks] == [31, 44, 7, 58]
    assert [len(group.threads) for group in report.stacks] == [1, 1, 300, 1]


def test_an_entity_says_where_in_the_users_code_it_is() -> None:
    known = deadlock(0).entities["thread:box/1/11"]
    assert isinstance(known.at, FrameOut)
    assert (known.at.function, known.at.file, known.at.line) == ("serve(int)", "/src/server.cpp", 31)


def test_text_shows_lines_in_the_tree_and_merged_stacks() -> None:
    text = to_text(deadlock())
    assert "thread 11 (alpha)  waiting in pthread_mutex_lock at serve (server.cpp:31)" in " ".join(
        text.split("\n")
    ) or ("at serve (server.cpp:31)" in " ".join(text.split()))
    assert "300 threads at one place: thread 100 (idle), thread 101 (idle)" in " ".join(text.split())
    assert "#1 serve(int) at /src/server.cpp:31" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_text_leaves_out_what_is_inside_of_libraries_and_says_how_much() -> None:
    world = World()
    world.process(1)
    library = Frame(function="std::lock()", file="/usr/include/c++/12/mutex", line=5, module="server")
    own = Frame(function="serve(int)", file="/src/server.cpp", line=31, module="server")
    start = Frame(function="start_thread", module="libc.so.6")
    stack = Stack(thread=world.thread(11), frames=(FUTEX, library, library, own, start), taken_mono_ns=1, source="test")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    world.later()
    text = to_text(report_of(world.snapshot(), world.diagnosis()))
    shown = text.partition("Stacks\n")[2].partition("\n\n")[0].splitlines()
    assert [line.strip() for line in shown] == [
        "thread 11",
        "#0 __futex_wait at libc.so.6",
        "… 2 frames",
        "#3 serve(int) at /src/server.cpp:31",
        "… 1 frame",
    ]


def test_markdown_shows_each_stack_once() -> None:
    page = to_markdown(deadlock())
    assert page.count("#1 pool() at /src/server.cpp:7") == 1
    assert "at serve (server.cpp:31)" in page


def test_brief_keeps_the_verdict_its_finding_and_the_first_stacks() -> None:
    whole = deadlock()
    short = brief(whole)
    assert short.verdict == whole.verdict
    assert [finding.rule for finding in short.findings] == ["lock-cycle"]
    assert set(short.verdict.roots) <= set(short.entities)
    assert {edge.source for edge in short.edges} <= set(short.entities)
    assert short.omitted["entities"] == len(whole.entities) - len(short.entities) > 290
    assert all(not known.stack for known in short.entities.values())
    data = json_bytes(short, pretty=True)
    assert json.loads(data)["stacks"][0]["threads"] == ["thread:box/1/11"]
    assert len(data) < len(json_bytes(whole, pretty=True)) / 5
    assert len(to_text(short)) <= len(to_text(whole))
    assert "300 threads at one place" in to_markdown(short).replace("\\", "")


def test_a_name_of_many_lines_is_shortened_in_text() -> None:
    name = f"_ZZN8pybind1112cpp_function10initializeI{'RZN5torch' * 200}"
    frame = FrameOut(function=name, file=None, line=None, module="libtorch_python.so", language="native")
    assert frame_line(frame) == "pybind11::cpp_function::initialize… at libtorch_python.so"
    long = structs.replace(frame, function=f"at::native::run<{'float, ' * 100}int>(int)")
    assert frame_line(long) == "at::native::run… at libtorch_python.so"
