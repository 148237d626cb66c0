"""The tasks of trio in another process. Read without a stop.

Functions raise OSError if the process is gone, unreadable, or changes too fast.

`trio._core._run.GLOBAL_RUN_CONTEXT`, a `threading.local`, has the `runner` of each thread that is in `trio.run`, and
that has the set of its tasks. All of trio is Python objects (trio/_core/_run.py of 0.35).

Sources: Modules/_threadmodule.c (localobject) of 3.11 to 3.13.

Invariants:
    trio_tasks.T1. A task is `steady` only if it was scheduled as often, and waited in the same call, when it was read
        again after everything else.
    trio_tasks.T2. trio's own two tasks are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from livedbg.cpython.coroutines import AwaitChain, await_chain
from livedbg.cpython.event_loops import MOST_TASKS, EventLoop, EventLoops, LoopTask
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import is_pointer

SYSTEM: Final = "trio"
CONTEXT: Final = "GLOBAL_RUN_CONTEXT"
_LOCAL_WORDS: Final = 6  # of a threading.local, behind its head
_MOST_THREADS: Final = 1024
_MOST_SCOPES: Final = 200
_OWN: Final = frozenset({"<init>", "<TrioToken.run_sync_soon task>"})
_TRAPS: Final = "/trio/_core/_traps.py"


@dataclass(frozen=True, slots=True)
class TrioTask:
    """Further data of a task.

    Attributes:
        sleeps_in: data that its call registered for its waker (`custom_sleep_data`), or 0.
        scopes: addresses of the cancel scopes that would end it.
        deadline: when the first of these ends, on CLOCK_MONOTONIC; infinite for never, None if the clock is unknown.
        nurseries: nursery -> its cancel scope: those that it is in, and its own.
    """

    sleeps_in: int
    scopes: tuple[int, ...]
    deadline: float | None
    limited: bool
    nurseries: dict[int, int]


@dataclass(frozen=True, slots=True)
class TrioLoops:
    """The trio loops of a process by the address of the runner, and further data of tasks by address."""

    loops: EventLoops = field(default_factory=EventLoops)
    more: dict[int, TrioTask] = field(default_factory=dict)


def read_trio(heap: HeapReader, context: int) -> TrioLoops:
    """Return the tasks of all threads of an interpreter that are in `trio.run`; none is `steady` yet.

    `context` is the address of `GLOBAL_RUN_CONTEXT`.
    """
    loops: dict[int, EventLoop] = {}
    tasks: list[LoopTask] = []
    more: dict[int, TrioTask] = {}
    cut = False
    for runner, current in _runners(heap, context):
        facts = heap.attributes(runner)
        addresses = heap.items(facts.get("tasks", 0), MOST_TASKS + 1)
        cut = cut or len(addresses) > MOST_TASKS
        shift = _clock_shift(heap, facts.get("clock", 0))
        read: list[LoopTask] = []
        for address in addresses[:MOST_TASKS]:
            found = _task(heap, address, runner, current)
            if found is not None:
                read.append(found[0])
                more[address] = _more(heap, found[1], shift)
        ready = tuple(task.address for task in read if not task.pending and not task.running)
        loops[runner] = EventLoop(runner, "trio.run", None, current, ready, (), readable=True)
        tasks += read
    return TrioLoops(EventLoops(loops, tuple(tasks), cut), more)


def confirmed_trio(heap: HeapReader, context: int, found: EventLoops) -> EventLoops:
    """Return the tasks with `steady` set for unchanged ones (T1); call it after all else was read."""
    current = dict(_runners(heap, context))
    tasks = []
    for task in found.tasks:
        again = _task(heap, task.address, task.loop, current.get(task.loop, 0))
        tasks.append(structs.replace(task, steady=again is not None and again[0] == task))
    return structs.replace(found, tasks=tuple(tasks))


def _runners(heap: HeapReader, context: int) -> Iterator[tuple[int, int]]:
    for word in heap.words(context + 16, _LOCAL_WORDS):
        if not is_pointer(word) or heap.type_name(word) != "dict":
            continue
        for _, own in heap.dict_items(word, _MOST_THREADS):
            if heap.type_name(own) == "dict":
                facts = {heap.name(key): value for key, value in heap.dict_items(own, 64)}
                if heap.type_name(facts.get("runner", 0)) == "Runner":
                    yield facts["runner"], facts.get("task", 0)


def _task(heap: HeapReader, address: int, runner: int, current: int) -> tuple[LoopTask, dict[str, int]] | None:
    """Return a task, and its attributes; None for trio's own (T2)."""
    try:
        facts = heap.attributes(address)
        if "coro" not in facts or heap.name(facts.get("name", 0)) in _OWN:
            return None
        scheduled = heap.type_name(facts.get("_next_send_fn", 0)) != "NoneType"
        running = address == current
        chain = _chain(heap, facts["coro"], heap.integer(facts.get("_schedule_points", 0)) or 0)
        waits = not scheduled and not running
        task = LoopTask(
            address=address,
            name=_name(heap, facts, chain),
            loop=runner,
            chain=chain,
            waiter=facts.get("_abort_func", 0) if waits else 0,
            waiter_type="",
            pending=waits,
            cancelling=_is_cancelled(heap, facts.get("_cancel_status", 0)),
            running=running,
            steady=False,
            system=SYSTEM,
        )
        return task, facts
    except (OSError, OverflowError):
        return None


def _chain(heap: HeapReader, coroutine: int, scheduled: int) -> AwaitChain:
    """Return the coroutines of a task, without the two of trio that every wait ends in."""
    chain = await_chain(heap, coroutine)
    inside = 0
    while inside < len(chain.frames) and chain.frames[inside].code.file.endswith(_TRAPS):
        inside += 1
    return chain._replace(frames=chain.frames[inside:], stamp=(*chain.stamp, scheduled))


def _name(heap: HeapReader, facts: dict[str, int], chain: AwaitChain) -> str:
    """Return the name that its author gave it; `Task-12` if trio derived it from the function's."""
    name = heap.objects.text(facts.get("name", 0))
    outermost = chain.frames[-1].code.name if chain.frames else ""
    number = heap.integer(facts.get("_counter", 0))
    if number is None or not (name == outermost or name.endswith(f".{outermost}")):
        return name
    return f"Task-{number}"


def _is_cancelled(heap: HeapReader, status: int) -> bool:
    return bool(heap.integer(heap.attributes(status).get("effectively_cancelled", 0))) if status else False


def _more(heap: HeapReader, facts: dict[str, int], shift: float | None) -> TrioTask:
    scopes: list[int] = []
    first = math.inf
    try:
        for scope, deadline in _scopes(heap, facts.get("_cancel_status", 0)):
            scopes.append(scope)
            first = min(first, deadline)
        nurseries = _nurseries(heap, facts)
    except (OSError, OverflowError):
        return TrioTask(0, tuple(scopes), None, True, {})  # it goes on
    return TrioTask(
        sleeps_in=facts.get("custom_sleep_data", 0),
        scopes=tuple(scopes),
        deadline=None if shift is None else first - shift,
        limited=first < math.inf,
        nurseries=nurseries,
    )


def _scopes(heap: HeapReader, status: int) -> Iterator[tuple[int, float]]:
    """Yield the cancel scopes of a status, innermost first, up to a shield, with their deadlines."""
    for _ in range(_MOST_SCOPES):
        if heap.type_name(status) != "CancelStatus":
            return
        own = heap.attributes(status)
        scope = own.get("_scope", 0)
        facts = heap.attributes(scope)
        deadline = heap.number(facts.get("_registered_deadline", 0))
        yield scope, math.inf if deadline is None else deadline
        if heap.integer(facts.get("_shield", 0)):
            return
        status = own.get("_parent", 0)


def _nurseries(heap: HeapReader, facts: dict[str, int]) -> dict[int, int]:
    nurseries = [facts.get("_parent_nursery", 0), *heap.items(facts.get("_child_nurseries", 0), _MOST_SCOPES)]
    return {
        nursery: heap.attributes(nursery).get("cancel_scope", 0)
        for nursery in nurseries
        if heap.type_name(nursery) == "Nursery"
    }


def _clock_shift(heap: HeapReader, clock: int) -> float | None:
    """Return how far trio's clock is ahead of CLOCK_MONOTONIC; None for a clock of the program's own."""
    if heap.type_name(clock) != "SystemClock":
        return None
    return heap.number(heap.attributes(clock).get("offset", 0))
