"""What waits for a core: tasks queued behind the one that it executes, and ready tasks while all cores are taken.

The scheduler gives a core a second task while it executes the first (CoreExecState.pending_slot_state, simpler
runtime/scheduler/scheduler_types.h); a further task lies in a ready queue until a core of its type is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from livedbg.adapters.ascend.live.state import LiveTask, Sample
from livedbg.adapters.ascend.names import Names, task_name
from livedbg.model import Edge, EdgeKey, EdgeKind, TaskState

_MOST: Final = 20_000  # edges; where there would be more, each ready task has one


class CoreQueues:
    """The edges that queues for cores make in one run.

    Args:
        names: of the job's entities.
        source: what they are read from, for the evidence.
    """

    def __init__(self, names: Names, source: str) -> None:
        self._names, self._source = names, source
        self._drawn: dict[EdgeKey, Edge] = {}
        self._put: dict[EdgeKey, Edge] = {}
        self._drop: set[EdgeKey] = set()

    def take(self, sample: Sample, *, again: bool) -> None:
        """The newest sample; `again`: the edges that were drawn are forgotten by whoever has them."""
        found = {edge.key: edge for edge in self._edges(sample)}
        self._drop.update(key for key in self._drawn if key not in found)
        self._drop.difference_update(found)
        self._put = {key: edge for key, edge in self._put.items() if key in found}
        self._put.update({key: edge for key, edge in found.items() if again or self._drawn.get(key) != edge})
        self._drawn = found

    def clear(self) -> None:
        """Another run, or none."""
        self._drop.update(self._drawn)
        self._drawn.clear()
        self._put.clear()

    def changes(self) -> tuple[Iterable[Edge], Iterable[EdgeKey]]:
        """Edges that are new or changed since the last call, and those that are no more."""
        put, drop, self._put, self._drop = self._put, self._drop, {}, set()
        return put.values(), drop

    def _edges(self, sample: Sample) -> Iterator[Edge]:
        ready = [task for task in sample.tasks.values() if task.state is TaskState.READY and not task.deferred]
        for task in ready:
            core = sample.cores.get(task.queued) if task.queued is not None else None
            if core is not None and core.running is not None and core.running != task.raw:
                place = f"core {core.number}, which executes {task_name(core.running)}"
                yield self._edge(task.raw, core.running, f"it is queued on {place}", any_of=False)
        waiting = [task for task in ready if task.queued is None and not task.cores]
        holders = {kind: _holders(sample, kind) for kind in {_kind(task) for task in waiting}}
        whole = _MOST // max(1, max((len(found) for found in holders.values()), default=1))
        for number, task in enumerate(waiting):
            behind = holders[_kind(task)]
            if number >= whole and behind:
                behind = [behind[number % len(behind)]]
            for raw in behind:
                yield self._edge(
                    task.raw, raw, "it is ready, and all cores of its type are taken", any_of=len(behind) > 1
                )

    def _edge(self, waiter: int, holder: int, why: str, *, any_of: bool) -> Edge:
        return Edge(
            kind=EdgeKind.WAITS_FOR,
            source=self._names.task(waiter),
            target=self._names.task(holder),
            evidence=f"{self._source}: {why}",
            any_of=any_of,
        )


def _kind(task: LiveTask) -> str:
    """The type of core that a task needs: `aic`, `aiv`; "" for one that needs several, or is not known."""
    needs = {("aic", "aiv", "aiv")[index] for index, func in enumerate(task.kernels[:3]) if func >= 0}
    return needs.pop() if len(needs) == 1 else ""


def _holders(sample: Sample, kind: str) -> list[int]:
    """The tasks that have the cores of a type, if all of these are taken; none if one is free."""
    cores = [core for core in sample.cores.values() if kind and core.subslot.startswith(kind)]
    if not cores or any(core.running is None for core in cores):
        return []
    return sorted({core.running for core in cores if core.running is not None})
