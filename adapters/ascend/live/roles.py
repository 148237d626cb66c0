"""Names the AI core that each thread of a simulator runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from livedbg.adapters.ascend.live.core_threads import CoreThread, CoreThreads
from livedbg.adapters.ascend.live.state import LiveCore
from livedbg.adapters.ascend.names import Names, core_type
from livedbg.model import Edge, EdgeKind, Process, ids
from livedbg.model.events import Event, Stamp, ThreadRolesSeen
from livedbg.model.snapshot import Snapshot
from livedbg.session.publisher import Publisher

__all__ = ["CoreRoles"]


class CoreRoles:
    """The cores' threads of one process that simulates one chip.

    Args:
        process: which.
        names: of its job.
    """

    def __init__(self, process: Process, names: Names) -> None:
        self._process, self._names = process, names
        self._threads = CoreThreads(process.pid)
        self._shown = Publisher(f"ascend-cores/{process.id}")

    def sample(self) -> Mapping[int, int]:
        """By tid its core; none where that is not certain, or several chips are simulated.

        Raises:
            OSError: the process is gone, or may not be looked at.
        """
        found = self._threads.sample()
        return found[0] if len(found) == 1 else {}

    def remaining(self) -> dict[int, CoreThread]:
        """By tid the cores whose threads are there, at the end of a run too.

        Raises:
            OSError: the process is gone, or may not be looked at.
        """
        return self._threads.remaining()

    def events(
        self, found: Mapping[int, int], cores: Mapping[int, LiveCore], snapshot: Snapshot, stamp: Stamp
    ) -> Iterator[Event]:
        """What is new.

        Args:
            found: by tid its core.
            cores: as the scheduler has them.
            snapshot: what a user sees: threads that are not there yet are told of later.
            stamp: for the events.
        """
        host, pid = self._process.host, self._process.pid
        wanted = {ids.thread(host, pid, tid): core for tid, core in found.items() if core in cores}
        here = {thread.id: thread for thread in snapshot.threads.values() if thread.process == self._process.id}
        roles = {name: self._role(core, cores[core].subslot) for name, core in wanted.items() if name in here}
        lost = {name: "" for name, thread in here.items() if thread.role and name not in wanted and not thread.exited}
        new = {name: role for name, role in {**lost, **roles}.items() if here[name].role != role}
        if new:
            yield ThreadRolesSeen(roles=new, **stamp)
        edges = tuple(self._edge(core, name) for name, core in sorted(wanted.items()) if name in here)
        yield from self._shown.show(stamp, edges=edges)

    def _role(self, core: int, subslot: str) -> str:
        kind = core_type(subslot)
        name = f"core {core} ({kind})" if kind else f"core {core}"
        return f"{self._names.label} {name}" if self._names.label else name

    def _edge(self, core: int, thread: str) -> Edge:
        evidence = f"thread-specific data: g_core_id_key is {core} (memory of process {self._process.pid})"
        return Edge(kind=EdgeKind.RUNS_ON, source=self._names.core(core), target=thread, evidence=evidence)
