"""What other logs say of a process that one log names: the kernel's log names those of all programs of a host."""

from __future__ import annotations

import re
from typing import Final

from livedbg.analysis.rules.completed import completions
from livedbg.model.snapshot import Snapshot

__all__ = ["completed_elsewhere", "named_elsewhere"]

_SEEN: Final = 20_000  # records that are searched


def named_elsewhere(pid: str, log: str, snapshot: Snapshot) -> bool | None:
    """Whether another log names a process; None where there is no other log.

    Args:
        pid: of the process.
        log: the log that names it.
        snapshot: what is known.
    """
    if all(source.id == log for source in snapshot.log_sources.values()):
        return None
    names = re.compile(rf"\b(?:pid|process|worker)\W{{0,3}}{pid}\b|[\[(]{pid}[\])]", re.IGNORECASE)
    records = list(snapshot.recent_logs)[-_SEEN:]
    return any(
        record.source != log and (str(record.pid) == pid or names.search(record.text) is not None) for record in records
    )


def completed_elsewhere(log: str, snapshot: Snapshot) -> bool:
    """Whether another log says that its run completed."""
    return any(said.evidence[0].log != log for said in completions(snapshot))
