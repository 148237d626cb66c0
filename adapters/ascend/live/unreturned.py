"""Find cores whose kernel has not returned although the scheduler has ended the run, and their last dispatch.

The scheduler clears its state when it ends (SchedulerContext::deinit, scheduler_cold_path.cpp of simpler src/a2a3/
runtime/tensormap_and_ringbuffer/runtime/scheduler), but not its dispatches: two records for each core, selected by the
lowest bit of the number that the core acknowledged in its register COND (src/a2a3/platform/include/common/
platform_config.h). An idle core has a number there that is no task's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from livedbg.adapters.ascend.live.core_threads import CoreThread
from livedbg.adapters.ascend.live.image import Image
from livedbg.adapters.ascend.live.layout import Layout
from livedbg.adapters.ascend.names import task_name
from livedbg.linux.maps import Mapping as MappedRange
from livedbg.text.patterns import lazy_re

_COND: Final = 0x4C8
_TASKS_END: Final = 0x7FFFFFF0  # numbers from here on, and those with the highest bit (done), are no running task's
_KERNEL: Final = lazy_re(r"/kernel_(\d{1,9})_\w{6}$")


class Unreturned(NamedTuple):
    """A core whose kernel has not returned: the tid of its thread, and task and func id, if known."""

    tid: int
    core: int
    task: int | None
    func: int | None

    @property
    def text(self) -> str:
        kernel = f"kernel func {self.func}" if self.func is not None else "its kernel"
        task = f" of task {task_name(self.task)}" if self.task is not None else ""
        return f"The scheduler has ended the run, and core {self.core} has not returned from {kernel}{task}."


def read_unreturned(
    image: Image, layout: Layout, executor: int, threads: Mapping[int, CoreThread], mapped: Sequence[MappedRange]
) -> list[Unreturned]:
    """Return the cores of remaining threads that have acknowledged a task and not reported its end."""
    records = layout.get("executor.dispatched")
    names = image.read([(thread.registers + _COND, 4) for thread in threads.values()])
    found = []
    for (tid, thread), data in zip(threads.items(), names, strict=True):
        number = _TASKS_END if data is None else int.from_bytes(data, "little")
        if number >= _TASKS_END:
            continue
        task = func = None
        if records is not None:
            index = 2 * thread.core + (number & 1)
            where = executor + records.offset + index * records.target_size
            task, func = _record(image, layout, where, mapped)
        found.append(Unreturned(tid, thread.core, task, func))
    return sorted(found, key=lambda one: one.core)


def _record(image: Image, layout: Layout, where: int, mapped: Sequence[MappedRange]) -> tuple[int | None, int | None]:
    """Return task and func id of a dispatch record."""
    places = (layout.get(f"dispatched.{name}") for name in ("task", "function"))
    task, function = (None if place is None else image.field(where, place) for place in places)
    return task, None if not function else func_at(function, mapped)


def func_at(address: int, mapped: Sequence[MappedRange]) -> int | None:
    """Return the func id of the kernel whose code is at an address (names.kernel_label); None for other code."""
    path = next((one.path for one in mapped if one.start <= address < one.end), "")
    match = _KERNEL.search(path.removesuffix(" (deleted)"))
    return int(match[1]) if match is not None else None
