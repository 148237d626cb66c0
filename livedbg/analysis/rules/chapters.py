"""The generic rules of the diagnosis. Those of single systems are declared by the systems (livedbg.session.systems).

They are imported as they are needed: of most processes nothing is told, by a log, a runtime or an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

from livedbg.analysis.rules.base import Rule
from livedbg.model.snapshot import Snapshot


class Chapter(NamedTuple):
    """A chapter of docs/rules.md.

    Attributes:
        module: which has its rules.
        told: they find nothing in a state that `is_told` denies.
    """

    title: str
    module: str
    told: bool = False

    def rules(self) -> Sequence[Rule]:
        """Return the rules of its module."""
        made: Sequence[Rule] = import_module(f"livedbg.analysis.rules.{self.module}").rules()
        return made


PROVED: Final = (
    Chapter("Deadlocks", "cycles"),
    Chapter("Locks that are not released", "holders"),
)
"""Generic rules that speak before those of the systems."""
GENERAL: Final = (
    Chapter("Failure texts", "signatures", told=True),
    Chapter("Devices", "device"),
    Chapter("Processes that crashed", "crashes", told=True),
    Chapter("Processes that are stopped", "processes"),
    Chapter("How a job ended", "ends", told=True),
    Chapter("Control groups", "groups"),
    Chapter("File descriptors", "descriptors"),
    Chapter("Uninterruptible sleep", "uninterruptible"),
    Chapter("Event loops", "event_loops"),
    Chapter("Work without progress", "progress"),
    Chapter("Waits that nothing can end", "closed"),
    Chapter("File locks of other processes", "file_locks"),
    Chapter("CPU time without progress", "spinning"),
    Chapter("Siblings that do not come", "odd_one_out"),
    Chapter("What a runtime reports", "reported", told=True),
    Chapter("What a log ends with", "last_lines", told=True),
    Chapter("What something outside could end", "outside"),
    Chapter("What could not be seen", "sight"),
)
"""Generic rules that speak after those of the systems, which know more of the same thing."""


def is_told(snapshot: Snapshot) -> bool:
    """Return whether a log, a runtime or the end of a process says something in a state."""
    logged = snapshot.log_count or any(source.size != 0 for source in snapshot.log_sources.values())
    ended = any(process.exited for process in snapshot.processes.values())
    return bool(logged or ended or snapshot.diagnostics or snapshot.exceptions or snapshot.tasks)
