"""What is said where only logs were read, and they show no error: never that all is well."""

from __future__ import annotations

from typing import Final

from livedbg.analysis.rules.words import many
from livedbg.analysis.runs import older_logs
from livedbg.logs.milestones import completes
from livedbg.model import NO_LOG, Severity
from livedbg.model.snapshot import Snapshot

__all__ = ["logs_said"]

_LAST: Final = 400  # records in which a run may say that it completed


def logs_said(snapshot: Snapshot) -> str:
    """The sentence of the verdict; "" where no logs were read, or a job's tasks are known from them."""
    unread = next((status for status in snapshot.statuses.values() if status.code == NO_LOG), None)
    sources = snapshot.log_sources
    if unread is not None and len(sources) <= 1:
        return unread.sentence
    if not sources or snapshot.tasks or snapshot.processes:
        return ""
    if all(source.size == 0 for source in sources.values()):
        return f"{many(len(sources), 'log')}, and no line in {'it' if len(sources) == 1 else 'them'}."
    older = older_logs(snapshot)
    logs = many(len(sources) - len(older), "log") + (" of the newest run" if older else "")
    if any(completes(record.text) for record in list(snapshot.recent_logs)[-_LAST:]):
        return f"The run says that it completed; no error was found in {logs}. How its process ended is not in there."
    if snapshot.exceptions or any(one.severity.rank >= Severity.WARNING.rank for one in snapshot.diagnostics.values()):
        return f"No error in {logs} is known to have ended the run, and no line says that it completed."
    return f"No error was found in {logs}, and no line that says that the run completed: how it ended is not known."
