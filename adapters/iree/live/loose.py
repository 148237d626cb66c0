"""Dispatches on stacks that no operation in memory explains: of local-sync, of a runtime of another version, or of one
of several operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from livedbg.adapters.iree.facts import DispatchFacts
from livedbg.adapters.iree.live.commands import lines_of
from livedbg.adapters.iree.live.loops import Loop
from livedbg.adapters.iree.live.naming import Names
from livedbg.adapters.iree.live.running import OnStack
from livedbg.model import Edge, EdgeKind, Task, TaskState


class Loose:
    """Those of one process.

    Args:
        names: of its tasks.
        owner: identifier of the process.
    """

    def __init__(self, names: Names, owner: str) -> None:
        self._names = names
        self._owner = owner
        self._alone: dict[tuple[str, str], tuple[int, int]] = {}

    @property
    def any(self) -> bool:
        """Whether the last look found one."""
        return bool(self._alone)

    def shown(self, running: list[OnStack], tasks: dict[str, Task], looping: Mapping[str, Loop]) -> Iterator[Edge]:
        """Dispatches on stacks that no operation in memory explains: local-sync, or a runtime of another version."""
        shown = {task.kernel for task in tasks.values() if task.state is TaskState.RUNNING}
        known: dict[tuple[str, str], tuple[int, int]] = {}
        for on in running:
            if on.dispatch.name in shown:
                continue
            key = (on.dispatch.device or on.thread, on.dispatch.name)  # the threads of a driver share one
            first, last = self._alone.get(key, (on.taken_mono_ns, on.taken_mono_ns))
            loop = looping.get(on.thread)
            newest = max(last, on.taken_mono_ns, on.seen_mono_ns)
            first = min(first, loop.since_ns) if loop is not None else first
            known[key] = (first, newest)
            if newest <= first and loop is None:
                continue  # one stack (W1)
            name = self._names.task(on.dispatch.name, key[0])
            before = tasks[name].where if name in tasks else tuple(filter(None, (on.device,)))
            tasks[name] = Task(
                id=name,
                system="iree",
                name=name.rpartition("/")[2],
                kernel=on.dispatch.name,
                state=TaskState.RUNNING,
                since_mono_ns=first,
                where=(*before, on.thread),
                owner=self._owner,
                facts=DispatchFacts(
                    dispatch=on.dispatch.name,
                    by="stacks",
                    lines=lines_of([on]),
                    source=on.dispatch.source or "",
                    device=on.device or "",
                ),
            )
            yield Edge(kind=EdgeKind.RUNS_ON, source=name, target=on.thread)
        self._alone = known
