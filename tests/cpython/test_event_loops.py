"""Event loops of real programs, on every version that is here: tasks, what they await, and where."""

from __future__ import annotations

import ast
import itertools
import os
from collections.abc import Callable

import pytest

from livedbg.cpython import event_loops
from livedbg.cpython.coroutines import AwaitChain, await_chain
from livedbg.cpython.event_loops import (
    MOST_TASKS,
    EventLoops,
    LoopTask,
    callbacks,
    confirmed,
    is_future,
    is_task,
    read_loops,
)
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.interpreter import Interpreter, find_interpreter
from livedbg.cpython.loop_modules import LoopModules
from livedbg.cpython.objects import ObjectReader
from livedbg.cpython.threads import ThreadReader
from tests.conftest import TARGETS, Target, eventually
from tests.cpython.interpreters import interpreters, label

KNOWN = interpreters("3.12", "3.13")
PROGRAM = TARGETS / "py_asyncio.py"


def loops_of(pid: int) -> tuple[HeapReader, EventLoops]:
    """The event loops of a process."""
    found = find_interpreter(pid)
    assert found is not None and found.layout is not None
    reader = ThreadReader(pid, found)
    heap = HeapReader(reader.objects)
    (interpreter,) = reader.interpreters()
    names = LoopModules(heap).names(interpreter)
    return heap, confirmed(heap, names, read_loops(heap, names))


def started(python: str, word: str, spawn: Callable[..., Target]) -> tuple[HeapReader, EventLoops]:
    """The event loops of the program, once all of its tasks wait."""
    target = spawn([python, str(PROGRAM), word])

    def all_wait() -> bool:
        try:
            return all(task.pending and task.steady for task in loops_of(target.pid)[1].tasks)
        except OSError:  # it changes while it is read
            return False

    eventually(all_wait)
    return loops_of(target.pid)


def functions(task: LoopTask) -> list[str]:
    """The functions of a chain, innermost first, without what they are inside of."""
    return [frame.code.name.rpartition(">.")[2] for frame in task.chain.frames]


@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_every_task_and_what_it_awaits(python: str, spawn: Callable[..., Target]) -> None:
    heap, found = started(python, "all-waits", spawn)
    tasks = {task.name: task for task in found.tasks}
    assert {name: functions(task) for name, task in tasks.items() if not name.startswith("Task-")} == {
        "holds": ["Event.wait", "holds"],
        "locks": ["Lock.acquire", "_ContextManagerMixin.__aenter__", "locks"],
        "gets": ["Queue.get"],
        "puts": ["Queue.put"],
        "condition": ["Condition.wait", "conditions"],
        "semaphore": ["Semaphore.acquire"],
        "sleeps": ["sleep", "sleeps"],
        "inner": ["sleep", "sleeps"],
        "of-group": ["sleep", "sleeps"],
        "future": ["awaits"],
        "task": ["awaits"],
        "gathers": ["awaits"],
        "waits": ["_wait", "wait"],
        "shields": ["awaits"],
        "reads": ["StreamReader._wait_for_data", "StreamReader.read"],
        "executor": ["awaits"],
        "groups": ["TaskGroup.__aexit__", "groups"],
        "iterates": ["Event.wait", "numbers", "iterates"],
    }
    assert all(task.chain.future == task.waiter for task in tasks.values())
    assert tasks["task"].waiter == tasks["inner"].address and is_task(heap, tasks["task"].waiter)
    assert tasks["gathers"].waiter_type == "_GatheringFuture" and is_future(heap, tasks["gathers"].waiter)
    assert tasks["inner"].address in [task.waiter for task in found.tasks] and callbacks(heap, tasks["inner"].address)
    lines = PROGRAM.read_text().splitlines()
    locks = tasks["locks"].chain.frames[-1]
    assert lines[locks.line - 1].strip() == "async with lock:" and locks.where.endswith(f"py_asyncio.py:{locks.line}")


@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_a_loop_with_its_thread_and_its_timers(python: str, spawn: Callable[..., Target]) -> None:
    _, found = started(python, "all-waits", spawn)
    (loop,) = found.loops.values()
    assert loop.readable and loop.kind == "_UnixSelectorEventLoop" and loop.thread
    sleeping = [task for task in found.tasks if functions(task)[0] == "sleep"]
    futures = {timer.arguments[0] for timer in loop.timers}
    assert futures == {task.waiter for task in sleeping} and all(timer.when for timer in loop.timers)


@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_a_callback_that_blocks_runs_in_its_task(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, str(PROGRAM), "blocked"])
    eventually(lambda: [task.name for task in loops_of(target.pid)[1].tasks if task.running] == ["culprit"])
    _, found = loops_of(target.pid)
    (culprit,) = [task for task in found.tasks if task.running]
    assert [frame.running for frame in culprit.chain.frames] == [True]
    (loop,) = found.loops.values()
    assert loop.current == culprit.address and len(loop.timers) + len(loop.ready) >= 3


@pytest.mark.invariant("coroutines.C1")
def test_slots_are_given_of_suspended_coroutines_only(spawn: Callable[..., Target]) -> None:
    target = spawn([KNOWN[0], str(PROGRAM), "blocked"])
    eventually(lambda: any(task.running for task in loops_of(target.pid)[1].tasks))
    _, found = loops_of(target.pid)
    for task in found.tasks:
        for frame in task.chain.frames:
            assert bool(frame.slots) is not frame.running


@pytest.mark.invariant("event_loops.E1")
def test_many_tasks_are_cut(spawn: Callable[..., Target]) -> None:
    _, found = started(KNOWN[0], "many", spawn)
    assert found.cut and len(found.tasks) == MOST_TASKS


@pytest.mark.invariant("event_loops.E2")
def test_a_task_that_goes_on_is_not_steady(spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch) -> None:
    heap, found = started(KNOWN[0], "queue-idle", spawn)
    assert all(task.steady for task in found.tasks)
    names = LoopModules(heap).names(ThreadReader(heap.pid, _interpreter(heap.pid)).interpreters()[0])
    moments = itertools.count()

    def moving(heap: HeapReader, coroutine: int) -> AwaitChain:
        return await_chain(heap, coroutine)._replace(stamp=(next(moments),))

    monkeypatch.setattr(event_loops, "await_chain", moving)
    assert not any(task.steady for task in confirmed(heap, names, read_loops(heap, names)).tasks)


def _interpreter(pid: int) -> Interpreter:
    found = find_interpreter(pid)
    assert found is not None
    return found


def test_a_program_without_asyncio_has_no_loops(spawn: Callable[..., Target]) -> None:
    target = spawn([KNOWN[0], "-c", "print('READY', flush=True); input()"])
    assert loops_of(target.pid)[1] == EventLoops()


class Plain:
    """An instance with a dict."""

    def __init__(self) -> None:
        self.first = [1, 2, 3]
        self.second = "two"


class Slotted:
    """An instance with slots."""

    __slots__ = ("callback", "never")

    def __init__(self) -> None:
        self.callback = Plain()


class Both(Slotted):
    """An instance with both."""

    def __init__(self) -> None:
        super().__init__()
        self.third = 3


@pytest.fixture
def own() -> HeapReader:
    """Of this very process."""
    interpreter = _interpreter(os.getpid())
    assert interpreter.layout is not None
    return HeapReader(ObjectReader(os.getpid(), interpreter.layout))


def test_attributes_of_instances(own: HeapReader) -> None:
    plain, slotted, both = Plain(), Slotted(), Both()
    assert own.attributes(id(plain)) == {"first": id(plain.first), "second": id(plain.second)}
    plain.__dict__["more"] = ast
    assert own.attributes(id(plain)) == {name: id(value) for name, value in plain.__dict__.items()}
    assert own.attributes(id(slotted)) == {"callback": id(slotted.callback)}
    assert own.attributes(id(both)) == {"callback": id(both.callback), "third": id(both.third)}
    assert own.attributes(id(object())) == {} and own.attributes(id(5)) == {}


def test_containers(own: HeapReader) -> None:
    from collections import deque
    from weakref import WeakSet

    words = [f"word {number}" for number in range(200)]
    line = deque(words)
    line.rotate(70)
    line.popleft()
    assert own.items(id(line), 1000) == [id(word) for word in line]
    assert own.items(id(words), 3) == [id(word) for word in words[:3]]
    assert own.items(id(tuple(words)), 3) == [id(word) for word in words[:3]]
    some = set(words)
    some -= set(words[:150])
    assert sorted(own.items(id(some), 1000)) == sorted(id(word) for word in some)
    kept = [Plain(), Plain()]
    weak = WeakSet([*kept, Plain()])
    assert sorted(own.items(id(weak), 10)) == sorted(map(id, kept))
    assert own.items(id(5), 10) == own.items(id(Plain()), 10) == own.items(0, 10) == []
    table = {"a": 1, 2: "b", "gone": 3}
    del table["gone"]
    assert own.dict_items(id(table)) == [(id(key), id(value)) for key, value in table.items()]


@pytest.mark.parametrize("value", [0, 1, True, False, -5, 2**30, 2**45 + 3, 1.5])
def test_numbers(own: HeapReader, value: float) -> None:
    kept = [value]
    assert own.number(id(kept[0])) == value


def test_identifiers(own: HeapReader) -> None:
    for value in (7, 2**47 + 12345, 2**63 + 1):
        assert own.integer(id(value)) == value
    assert own.integer(id("x")) is None and own.integer(id(2**90)) is None and own.number(id("x")) is None
