"""The signal that a catchpoint saw end a process tells where it crashed, and which signals don't."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.logs.sanitizers import ENDED
from livedbg.model import ExceptionHit, Frame
from livedbg.model import events as ev
from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment
from tests.analysis.test_crash_edges import ONE, crashes, logged, over
from tests.analysis.world import SECOND, World

SCALE = (
    Frame(function="scale", file="/home/me/ops.cpp", line=12),
    Frame(function="main", file="/home/me/ops.cpp", line=40),
)
RAISED = (
    Frame(function="raise", module="libc.so.6"),
    Frame(function="abort", file="./stdlib/abort.c", line=79, module="libc.so.6"),
    *SCALE,
)
HANDLER = (Frame(function="on_fault", file="/home/me/handler.cpp", line=3),)
PYTHON = (Frame(function="step", file="/home/me/train.py", line=4, language="python"),)


def caught(
    world: World,
    name: str,
    stack: tuple[Frame, ...],
    at_s: float = 10.0,
    *,
    thread: str = "thread:box/1/1",
    moment: Moment = Moment.SIGNAL,
    sent: bool = False,
) -> World:
    """A catchpoint saw something."""
    point = Catchpoint(id=f"C {moment}", process=ONE, pattern="signals", moment=moment, state=CatchpointState.DONE)
    world.store.apply(ev.CatchpointSeen(catchpoint=point, **world.stamp()))
    hit = ExceptionHit(
        id=f"{name}/{at_s}",
        type=name,
        message="address not mapped",
        process=ONE,
        thread=thread,
        stack=stack,
        at_wall_ns=int(at_s * SECOND),
        catchpoint=point.id,
        sent=sent,
    )
    world.store.apply(ev.ExceptionSeen(hit=hit, **world.stamp()))
    return world


def said(world: World) -> str:
    [found] = crashes(world)
    return found.sentence


def test_a_fault_has_its_place_and_its_stack_and_needs_no_second_run() -> None:
    [found] = crashes(caught(over(-11), "SIGSEGV", SCALE))
    assert found.sentence == "Process 1 (prog1) was ended by SIGSEGV in scale (ops.cpp:12)."
    assert [one.kind for one in found.evidence] == ["proc", "signal", "stack"] and found.next == ()
    assert found.evidence[-1].text == "scale (ops.cpp:12) < main (ops.cpp:40)"


@pytest.mark.parametrize(
    ("world", "sentence"),
    [
        (caught(over(-11), "SIGABRT", SCALE), "Process 1 (prog1) was ended by SIGSEGV."),
        (caught(over(-11), "SIGSEGV", SCALE, moment=Moment.CALL), "Process 1 (prog1) was ended by SIGSEGV."),
        (caught(over(-11), "SIGSEGV", SCALE, sent=True), "Process 1 (prog1) was ended by SIGSEGV."),
        (caught(over(-11), "SIGSEGV", ()), "Process 1 (prog1) was ended by SIGSEGV."),
        (caught(over(3), "SIGSEGV", SCALE), "Process 1 (prog1) ended with status 3."),
        (caught(over(-9), "SIGKILL", SCALE), "Process 1 (prog1) was ended by SIGKILL."),
    ],
    ids=["another signal", "no signal", "sent by somebody", "no stack", "not ended by it", "no fault of its own"],
)
def test_no_place_is_said_where_it_is_not_the_end_s(world: World, sentence: str) -> None:
    assert said(world) == sentence


def test_of_a_fault_that_a_handler_passed_on_or_aborted_for_the_first_counts() -> None:
    again = caught(caught(over(-11), "SIGSEGV", SCALE, 10.0), "SIGSEGV", HANDLER, 10.1)
    assert said(again) == "Process 1 (prog1) was ended by SIGSEGV in scale (ops.cpp:12)."
    aborted = caught(caught(over(-6), "SIGSEGV", SCALE, 10.0), "SIGABRT", HANDLER, 10.1)
    assert said(aborted) == "Process 1 (prog1) was ended by SIGABRT after SIGSEGV in scale (ops.cpp:12)."


@pytest.mark.parametrize(("at_s", "thread"), [(4.9, "thread:box/1/1"), (10.0, "thread:box/1/2")])
def test_a_fault_of_before_or_of_another_thread_is_not_the_end_s(at_s: float, thread: str) -> None:
    world = caught(caught(over(-6), "SIGSEGV", SCALE, at_s, thread=thread), "SIGABRT", HANDLER, 10.0)
    assert said(world) == "Process 1 (prog1) was ended by SIGABRT in on_fault (handler.cpp:3)."


def test_what_the_log_tells_gets_the_place_in_native_code() -> None:
    python = logged(over(-11), ENDED, stack=PYTHON, message="Fatal Python error: app::Error")
    assert (
        said(caught(logged(over(-6), "terminate"), "SIGABRT", RAISED))
        == "Crashed in scale (ops.cpp:12): app::Error: boom."
    )
    assert crashes(caught(python, "SIGSEGV", SCALE))[0].evidence[-1].kind == "stack"


def _frames(*functions: str) -> tuple[Frame, ...]:
    return tuple(Frame(function=one, module="libstdc++.so.6") for one in functions)


_SEARCH = _frames("std::terminate()", "__gxx_personality_v0", "_Unwind_RaiseException", "__cxa_throw")
_LEAVES = Frame(function="Log::~Log", file="/home/me/log.cpp", line=7)
_PASSED_ON = _frames("std::terminate()", "std::rethrow_exception(std::__exception_ptr::exception_ptr)")


@pytest.mark.parametrize(
    ("stack", "way"),
    [
        ((*_SEARCH, SCALE[0], _LEAVES, SCALE[1]), "; it may not leave Log::~Log (log.cpp:7), which is noexcept"),
        ((*_frames("std::terminate()", "__clang_call_terminate"), SCALE[0]), "; it may not leave scale (ops.cpp:12)"),
        ((*_SEARCH, *SCALE), ""),  # a noexcept function that is not known
        ((*_frames("std::terminate()", "__cxa_throw"), SCALE[0], _LEAVES), ""),  # nobody would catch it
        ((*_PASSED_ON, *SCALE), "; it was thrown elsewhere, and is passed on here"),
    ],
)
def test_the_last_stack_tells_how_an_exception_came_to_its_end(stack: tuple[Frame, ...], way: str) -> None:
    sentence = said(caught(logged(over(-6), "terminate"), "SIGABRT", stack))
    assert sentence.startswith("Crashed in scale (ops.cpp:12): app::Error: boom" + way)
    assert way or "; " not in sentence


@pytest.mark.parametrize("kind", ["app::Error", "app::Another"])
def test_an_exception_that_is_passed_on_is_told_with_where_it_was_thrown(kind: str) -> None:
    world = caught(logged(over(-6), "terminate"), "SIGABRT", (*_PASSED_ON, SCALE[1]))
    caught(world, kind, SCALE, 9.0, thread="thread:box/1/2", moment=Moment.THROW)
    [found] = crashes(world)
    assert found.sentence.startswith("Crashed in main (ops.cpp:40): app::Error: boom; it was thrown ")
    assert ("thrown in scale (ops.cpp:12)" in found.sentence) == (kind == "app::Error") == (found.next == ())


def test_a_child_that_nobody_had_listed_is_named_by_the_signal_that_ended_it() -> None:
    world = over(1)
    hit = ExceptionHit(
        id="short",
        type="SIGFPE",
        message="",
        process="process:box/77",
        thread="thread:box/77/77",
        stack=SCALE,
        fatal=True,
    )
    point = Catchpoint(id="C9", process=ONE, pattern="signals", moment=Moment.SIGNAL, state=CatchpointState.DONE)
    world.store.apply(ev.CatchpointSeen(catchpoint=point, **world.stamp()))
    world.store.apply(ev.ExceptionSeen(hit=structs.replace(hit, catchpoint="C9"), **world.stamp()))
    [found] = crashes(world)
    assert found.sentence == (
        "Process 1 (prog1) ended with status 1 after child process 77 was ended by SIGFPE in scale (ops.cpp:12)."
    )
    assert [one.kind for one in found.evidence] == ["proc", "signal", "stack"]
    handled = over(1)
    handled.store.apply(ev.CatchpointSeen(catchpoint=point, **handled.stamp()))
    quiet = structs.replace(hit, catchpoint="C9", fatal=False)
    handled.store.apply(ev.ExceptionSeen(hit=quiet, **handled.stamp()))
    assert said(handled) == "Process 1 (prog1) ended with status 1."


def test_of_many_short_children_that_crashed_none_is_said_to_have_ended_the_job() -> None:
    """Tests that want a crash, and probes of a machine, end so too."""
    world = over(1)
    point = Catchpoint(id="C9", process=ONE, pattern="signals", moment=Moment.SIGNAL, state=CatchpointState.DONE)
    world.store.apply(ev.CatchpointSeen(catchpoint=point, **world.stamp()))
    for pid in range(70, 80):
        hit = ExceptionHit(
            id=f"h{pid}",
            type="SIGABRT",
            message="",
            process=f"process:box/{pid}",
            stack=SCALE,
            fatal=True,
            catchpoint="C9",
        )
        world.store.apply(ev.ExceptionSeen(hit=hit, **world.stamp()))
    assert said(world) == "Process 1 (prog1) ended with status 1."


def test_a_short_child_that_crashed_is_no_crash_of_a_job_that_ended_well() -> None:
    world = over(0)
    point = Catchpoint(id="C9", process=ONE, pattern="signals", moment=Moment.SIGNAL, state=CatchpointState.DONE)
    hit = ExceptionHit(
        id="short", type="SIGFPE", message="", process="process:box/77", stack=SCALE, fatal=True, catchpoint="C9"
    )
    world.store.apply(ev.CatchpointSeen(catchpoint=point, **world.stamp()))
    world.store.apply(ev.ExceptionSeen(hit=hit, **world.stamp()))
    assert [found.state for found in crashes(world)] == [None]


WEIGH = Frame(function="weigh", file="/home/me/tree.cpp", line=13)
PRINT = Frame(function="vsnprintf", module="libc.so.6")


@pytest.mark.parametrize(
    ("stack", "deep", "ending"),
    [
        (
            (PRINT, *[WEIGH] * 20),
            14_000,
            "its stack overflowed: weigh (tree.cpp:13) calls itself, about 14,000 frames deep.",
        ),
        (
            (PRINT, *[WEIGH, SCALE[0]] * 9),
            900,
            "its stack overflowed: weigh (tree.cpp:13) and scale (ops.cpp:12) call each other, about 900 frames deep.",
        ),
        (
            (PRINT, *[WEIGH, SCALE[0], SCALE[1]] * 9),
            900,
            "its stack overflowed: weigh (tree.cpp:13) calls itself through 2 other functions, about 900 frames deep.",
        ),
        ((PRINT, *SCALE), 3, "its stack overflowed in scale (ops.cpp:12)."),
        ((PRINT,), 1, "its stack overflowed, in calls of a function by itself, or by large local variables."),
    ],
)
def test_a_stack_overflow_is_said_as_such(stack: tuple[Frame, ...], deep: int, ending: str) -> None:
    world = caught(over(-11), "SIGSEGV", stack)
    [hit] = world.store.snapshot().exceptions.values()
    world.store.apply(ev.ExceptionSeen(hit=structs.replace(hit, deep=deep), **world.stamp()))
    assert said(world) == f"Process 1 (prog1) was ended by SIGSEGV: {ending}"


def test_a_fault_in_a_deep_recursion_is_no_overflow() -> None:
    world = caught(over(-11), "SIGSEGV", (SCALE[0], *[WEIGH] * 30))
    assert said(world) == "Process 1 (prog1) was ended by SIGSEGV in scale (ops.cpp:12)."
