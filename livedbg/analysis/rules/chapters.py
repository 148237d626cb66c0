"""The generic rules of the diagnosis. Those of single systems are declared by the systems (livedbg.session.systems)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from livedbg.analysis.rules import (
    closed,
    cycles,
    descriptors,
    device,
    ends,
    event_loops,
    file_locks,
    groups,
    holders,
    last_lines,
    odd_one_out,
    outside,
    processes,
    progress,
    reported,
    sight,
    signatures,
    spinning,
    uninterruptible,
)
from livedbg.analysis.rules.base import Rule

Chapter = tuple[str, Callable[[], Sequence[Rule]]]
"""A title of docs/rules.md, and what makes its rules."""

PROVED: Final[tuple[Chapter, ...]] = (
    ("Deadlocks", cycles.rules),
    ("Locks that are not released", holders.rules),
)
"""Generic rules that speak before those of the systems."""
GENERAL: Final[tuple[Chapter, ...]] = (
    ("Failure texts", signatures.rules),
    ("Devices", device.rules),
    ("Processes", processes.rules),
    ("How a job ended", ends.rules),
    ("Control groups", groups.rules),
    ("File descriptors", descriptors.rules),
    ("Uninterruptible sleep", uninterruptible.rules),
    ("Event loops", event_loops.rules),
    ("Work without progress", progress.rules),
    ("Waits that nothing can end", closed.rules),
    ("File locks of other processes", file_locks.rules),
    ("CPU time without progress", spinning.rules),
    ("Siblings that do not come", odd_one_out.rules),
    ("What a runtime reports", reported.rules),
    ("What a log ends with", last_lines.rules),
    ("What something outside could end", outside.rules),
    ("What could not be seen", sight.rules),
)
"""Generic rules that speak after those of the systems, which know more of the same thing."""
