"""What the lines of earlier runtimes change in a job: watchdog dumps of before 2026-05-12, host_build_graph's first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.messages import Fields, number

if TYPE_CHECKING:
    from livedbg.adapters.ascend.world import World

__all__ = ["OLD_HANDLERS", "Handler"]

Handler = Callable[["World", Fields, str, Mark], tuple[str, ...]]
"""Takes one message; returns the identifiers of the entities that it speaks of."""


def _old_task(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    return (world.names.task(world.stalls.old_task(fields, mark)),)


def _old_stall(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.runs()
    world.stalls.old_round(fields, mark)
    return ()


def _old_scan(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.stalls.counts(fields)
    return ()


def _old_counts(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if world.stalls.stall is not None:
        world.stalls.counts(fields)
    return ()


def _old_running(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    return (world.names.task(world.stalls.old_running(fields, mark)),)


def _old_waiting(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    return (world.names.task(world.stalls.old_waiting(fields, mark)),)


def _old_core(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.stalls.old_core(fields, mark)
    return (world.names.core(number(fields, "core")),)


OLD_HANDLERS: Final[dict[str, Handler]] = {
    "old_core": _old_core,
    "old_counts": _old_counts,
    "old_running": _old_running,
    "old_scan": _old_scan,
    "old_stall": _old_stall,
    "old_task": _old_task,
    "old_waiting": _old_waiting,
}
