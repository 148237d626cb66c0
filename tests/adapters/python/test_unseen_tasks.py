"""Loops whose tasks can't be read, because of the Python that runs them: what is said. No process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from livedbg.adapters.python.givers import ProcessGivers
from livedbg.adapters.python.loop_watch import LoopWatch
from livedbg.adapters.python.loops import with_thread
from livedbg.adapters.python.status import Statuses
from livedbg.cpython.event_loops import EventLoop, EventLoops
from livedbg.cpython.interpreter import Interpreter
from livedbg.cpython.layout import DEBUG_OFFSETS_SIZE, layout_of
from livedbg.cpython.threads import PyThread
from livedbg.model.events import StatusSeen

ASYNCIO = ("BaseEventLoop._run_once", "/usr/lib/python3.14/asyncio/base_events.py")
TRIO = ("unrolled_run", "/venv/lib/python3.14/site-packages/trio/_core/_run.py")
OTHER = ("serve", "/home/me/app.py")


def statuses() -> tuple[Any, Statuses, list[str]]:
    said: list[str] = []

    def emit(*events: object) -> None:
        said.extend(event.status.sentence for event in events if isinstance(event, StatusSeen))

    stamp = {"host": "box", "mono_ns": 1, "wall_ns": 1}
    context = SimpleNamespace(request=SimpleNamespace(host="box"), stamp=lambda: stamp, emit=emit)
    return context, Statuses(context), said  # type: ignore[arg-type]


def published(*, free_threaded: bool) -> bytes:
    words = [0x030E0000, int(free_threaded)]
    head = b"xdebugpy" + b"".join(word.to_bytes(8, "little") for word in words)
    return head.ljust(DEBUG_OFFSETS_SIZE, b"\0")


def interpreter(*, free_threaded: bool = False) -> Interpreter:
    layout = layout_of((3, 14), published(free_threaded=free_threaded))
    assert layout is not None and layout.tasks is None and layout.free_threaded is free_threaded
    return Interpreter((3, 14), 0x1000, "python3.14", layout, free_threaded, 0)


def said_of(interpreter: Interpreter, *frames: tuple[str, str]) -> list[str]:
    context, known, said = statuses()
    seen = [SimpleNamespace(code=SimpleNamespace(name=name, file=file)) for name, file in frames]
    last = SimpleNamespace(threads={1: SimpleNamespace(frames=seen)})
    process = SimpleNamespace(pid=1, reader=SimpleNamespace(objects=None), interpreter=interpreter, last=last)
    watch = LoopWatch(process, context, known, ProcessGivers("box", 1, None))  # type: ignore[arg-type]
    assert watch.sample() is None
    watch.emit(None)
    watch.emit(None)
    return said


@pytest.mark.parametrize(
    ("frames", "what"),
    [((ASYNCIO,), "asyncio"), ((OTHER, TRIO), "trio"), ((TRIO, ASYNCIO), "asyncio and trio")],
)
@pytest.mark.parametrize(("free_threaded", "label"), [(False, "Python 3.14"), (True, "Python 3.14, free-threaded")])
def test_a_loop_of_a_python_that_is_not_read_is_said_once(
    frames: tuple[tuple[str, str], ...], what: str, free_threaded: bool, label: str
) -> None:
    (sentence,) = said_of(interpreter(free_threaded=free_threaded), *frames)
    assert sentence.startswith(f"{label}: {what} runs, but its tasks can't be read in this version; ")


def test_nothing_is_said_of_a_program_without_a_loop() -> None:
    assert said_of(interpreter(), OTHER) == []


@pytest.mark.parametrize(
    "python",
    [interpreter(free_threaded=True), Interpreter((3, 10), 0x1000, "python3.10", None, False, 0)],
    ids=["free-threaded", "3.10"],
)
def test_a_python_whose_locks_are_not_read_is_said_to_hide_its_tasks_too(python: Interpreter) -> None:
    _, known, said = statuses()
    known.describe(1, python)
    (sentence,) = said
    assert sentence.startswith(f"{python.label}: ") and "tasks of event loops (asyncio, trio) are unknown" in sentence


def loop(address: int, thread: int | None = None, *, readable: bool = False) -> EventLoop:
    return EventLoop(address, "Loop", thread, 0, (), (), readable)


def thread(ident: int, file: str) -> PyThread:
    code = SimpleNamespace(name="Runner.run", file=file)
    return PyThread(0, ident, ident, 0, frames=[SimpleNamespace(code=code)])  # type: ignore[list-item]


RUNNERS = "/usr/lib/python3.13/asyncio/runners.py"


@pytest.mark.parametrize(
    ("loops", "threads", "expected"),
    [
        ([loop(1)], [thread(7, RUNNERS), thread(8, "/job/a.py")], 7),  # uvloop's
        ([loop(1)], [thread(7, RUNNERS), thread(8, RUNNERS)], None),
        ([loop(1)], [thread(7, "/job/a.py")], None),
        ([loop(1), loop(2)], [thread(7, RUNNERS)], None),
        ([loop(1), loop(2, 7, readable=True)], [thread(7, RUNNERS)], None),
        ([loop(1, readable=True)], [thread(7, RUNNERS)], None),  # it does not run
    ],
)
def test_a_loop_that_hides_its_thread_is_run_by_the_only_runner(
    loops: list[EventLoop], threads: list[PyThread], expected: int | None
) -> None:
    found = with_thread(EventLoops({one.address: one for one in loops}), threads)
    assert found.loops[1].thread == expected
