"""The generic rules of the diagnosis; systems declare their own ones (livedbg.session.systems).

They are imported on demand: most states have no log, no end, no resource.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from livedbg.analysis.rules.base import Rule
from livedbg.model.snapshot import Snapshot


def is_told(snapshot: Snapshot) -> bool:
    """Return whether a state has a log, a report of a runtime or the end of a process."""
    logged = snapshot.log_count or any(source.size != 0 for source in snapshot.log_sources.values())
    ended = any(process.exited for process in snapshot.processes.values())
    return bool(logged or ended or snapshot.diagnostics or snapshot.exceptions or snapshot.tasks)


def has_devices(snapshot: Snapshot) -> bool:
    """Return whether a device was sampled in a state."""
    return bool(snapshot.devices)


def has_things(snapshot: Snapshot) -> bool:
    """Return whether a state has a resource, a task or a wait."""
    return bool(snapshot.resources or snapshot.tasks or snapshot.waits)


class Chapter(NamedTuple):
    """A chapter of docs/rules.md; its rules find nothing where `needs` is false."""

    title: str
    module: str
    needs: Callable[[Snapshot], bool] | None = None

    def rules(self) -> Sequence[Rule]:
        made: Sequence[Rule] = import_module(f"livedbg.analysis.rules.{self.module}").rules()
        return made


PROVED: Final = (
    Chapter("Deadlocks", "cycles", has_things),
    Chapter("Locks that are not released", "holders", has_things),
)
"""Generic rules that speak before those of the systems."""
GENERAL: Final = (
    Chapter("Failure texts", "signatures", is_told),
    Chapter("Devices", "device", has_devices),
    Chapter("Processes that crashed", "crashes", is_told),
    Chapter("Processes that are stopped", "processes"),
    Chapter("How a job ended", "ends", is_told),
    Chapter("Control groups", "groups", has_things),
    Chapter("File descriptors", "descriptors", has_things),
    Chapter("Uninterruptible sleep", "uninterruptible"),
    Chapter("Event loops", "event_loops", has_things),
    Chapter("Work without progress", "progress"),
    Chapter("Waits that nothing can end", "closed"),
    Chapter("File locks of other processes", "file_locks", has_things),
    Chapter("CPU time without progress", "spinning"),
    Chapter("Siblings that do not come", "odd_one_out"),
    Chapter("What a runtime reports", "reported", is_told),
    Chapter("What a log ends with", "last_lines", is_told),
    Chapter("What something outside could end", "outside", has_things),
    Chapter("What could not be seen", "sight"),
)
"""Generic rules that speak after those of the systems, which know more of the same thing."""
