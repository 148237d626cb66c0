"""Which processes and threads a tracer is about: one process, and where they are followed, its children."""

from __future__ import annotations

from dataclasses import dataclass

from livedbg.linux import procfs


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """A process and, where they are followed, its children.

    Attributes:
        pid: the process.
        follow: the children that it has, and theirs, too.
    """

    pid: int
    follow: bool = False

    def pids(self) -> list[int]:
        """The processes that there are now; the first is the process itself."""
        found = [self.pid]
        if self.follow:
            for parent in found:
                found += [child for child in procfs.child_pids(parent) if child not in found]
        return found

    def threads(self) -> list[int]:
        """Their threads; none of a process that has ended."""
        tids: list[int] = []
        for pid in self.pids():
            try:
                tids += procfs.thread_ids(pid)
            except OSError:
                continue  # it has ended
        return tids
