"""One sample of the tasks of trio of a process: what each awaits, who holds what, which thread runs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.python.awaits import Await, HeldLock
from livedbg.adapters.python.loop_sample import LoopSample, joined, of_steady
from livedbg.adapters.python.trio_awaits import due_tasks, limited_tasks, owner_of, trio_awaited
from livedbg.cpython.event_loops import EventLoops
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.threads import PyFrame, PyThread
from livedbg.cpython.trio_tasks import TrioTask, confirmed_trio, read_trio

__all__ = ["is_trio_step", "read_all_trio", "threads_of_trio"]

_RUN: Final = "/trio/_core/_run.py"
_STEP: Final = "unrolled_run"


def read_all_trio(heap: HeapReader, contexts: Iterable[int]) -> LoopSample:
    """The tasks of trio of all interpreters; the threads of their loops, and `callbacks`, are not known yet.

    Args:
        heap: reads their process.
        contexts: the `GLOBAL_RUN_CONTEXT` of each interpreter that has one.

    Raises:
        OSError: gone, or it changes too fast.
    """
    found: list[EventLoops] = []
    more: dict[int, TrioTask] = {}
    awaits: dict[int, Await] = {}
    held: dict[int, list[tuple[int, HeldLock]]] = {}
    for context in contexts:
        part = read_trio(heap, context)
        more.update(part.more)
        for task in part.loops.tasks:
            try:
                what = trio_awaited(heap, task, part.more[task.address])
                owner = owner_of(heap, what) if what is not None else None
            except (OSError, OverflowError):
                continue  # it goes on
            if what is not None:
                awaits[task.address] = what
            if owner is not None and owner not in held.setdefault(owner[1].lock, []):
                held[owner[1].lock].append(owner)
        found.append(confirmed_trio(heap, context, part.loops))
    whole = joined(found)
    steady = {task.address for task in whole.tasks if task.steady}
    return LoopSample(
        loops=whole,
        awaits={task: what for task, what in awaits.items() if task in steady},
        held=of_steady(held, steady),
        timed=limited_tasks(heap, whole.tasks, more, awaits),
        due=frozenset(due_tasks(whole.tasks, more)),
    )


def threads_of_trio(found: EventLoops, threads: Iterable[PyThread]) -> tuple[EventLoops, bool]:
    """The loops with the threads that run them, whose frame has the runner in a variable; and whether a thread is in
    trio though no task of it could be read."""
    loops = dict(found.loops)
    seen = False
    for thread in threads:
        for frame in thread.frames:
            if frame.code.file.endswith(_RUN):
                seen = True
                for loop in loops.keys() & set(frame.slots):
                    loops[loop] = replace(loops[loop], thread=thread.ident)
    return replace(found, loops=loops), seen and not found.tasks


def is_trio_step(frame: PyFrame) -> bool:
    """Whether a frame is the function of trio's loop that lets tasks run."""
    return frame.code.name == _STEP and frame.code.file.endswith(_RUN)
