"""Tasks of trio, read from real programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from livedbg.cpython import trio_tasks
from livedbg.cpython.event_loops import EventLoops, LoopTask
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.interpreter import find_interpreter
from livedbg.cpython.loop_modules import LoopModules
from livedbg.cpython.threads import ThreadReader
from livedbg.cpython.trio_tasks import CONTEXT, confirmed_trio, read_trio
from tests.conftest import TARGETS, Target, seen_when
from tests.cpython.interpreters import PURE, interpreters, label


def _heap(pid: int) -> tuple[HeapReader, int]:
    found = find_interpreter(pid)
    assert found is not None
    reader = ThreadReader(pid, found)
    heap = HeapReader(reader.objects)
    return heap, LoopModules(heap).names(reader.interpreters()[0])[CONTEXT]


def beats(loops: EventLoops) -> list[LoopTask]:
    """The tasks that sleep again and again."""
    chains = [(task, task.chain.frames) for task in loops.tasks]
    return [task for task, frames in chains if frames and frames[-1].code.name.endswith("heartbeat")]


@pytest.mark.invariant("trio_tasks.T1", "trio_tasks.T2")
@pytest.mark.parametrize("python", interpreters("3.12", "3.13"), ids=label)
def test_T1_T2_a_task_is_steady_only_if_it_was_scheduled_as_often(
    python: str, spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = spawn([python, str(TARGETS / "py_trio.py"), "crossed-beside-work"], env=PURE)
    heap, context = _heap(target.pid)

    def look() -> EventLoops:
        try:
            return read_trio(heap, context).loops
        except OSError:  # it changes while it is read
            return EventLoops()

    found = seen_when(lambda loops: len(beats(loops)) == 1, look)
    names = {task.name for task in found.tasks}
    assert {"left", "right"} < names and not [name for name in names if name.startswith("<")]
    (beat,) = beats(found)

    def steady() -> dict[str, bool]:
        return {task.name: task.steady for task in confirmed_trio(heap, context, found).tasks}

    later = seen_when(lambda now: not now[beat.name], steady)  # it slept again, at the same line
    assert later["left"] and later["right"]
    monkeypatch.setattr(trio_tasks, "MOST_TASKS", 2)
    assert len(seen_when(lambda loops: loops.cut, look).tasks) <= 2
