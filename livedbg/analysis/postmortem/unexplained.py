"""Sentences for logs without an error and without processes: they never claim that all is well."""

from __future__ import annotations

from typing import Final

from livedbg.analysis.postmortem.lines import older_logs
from livedbg.analysis.postmortem.tested import tests_open
from livedbg.analysis.reached import reached_said
from livedbg.analysis.rules.said import HARMLESS
from livedbg.analysis.rules.words import many
from livedbg.logs.last_words import speaks_of_failure
from livedbg.logs.sanitizers import WARNED
from livedbg.model import NO_LOG, CauseClass, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.quantities import byte_size
from livedbg.text.wording import listing, sentences

_NAMED: Final = 2


def not_read(snapshot: Snapshot) -> str:
    """Return how much of which logs was not read; "" if all was."""
    left = [source for source in snapshot.log_sources.values() if source.pending]
    said = [
        f"{byte_size(one.pending)} of {one.name}" if (one.size or 0) >= one.pending > 1 else f"a part of {one.name}"
        for one in sorted(left, key=lambda one: -one.pending)[:_NAMED]
    ]
    if len(left) > _NAMED:
        said.append(f"parts of {many(len(left) - _NAMED, 'more log')}")
    return f"{listing(said)} {'was' if len(left) == 1 else 'were'} not read" if said else ""


def logs_said(snapshot: Snapshot) -> str:
    """Return the sentence of the verdict; "" with a process, without logs, or if a job's tasks are known."""
    if snapshot.processes:
        return ""
    unread = next((status for status in snapshot.statuses.values() if status.code == NO_LOG), None)
    sources = snapshot.log_sources
    if unread is not None and len(sources) <= 1:
        return unread.sentence
    if not sources or snapshot.tasks:
        return ""
    if all(source.size == 0 for source in sources.values()):
        return f"{many(len(sources), 'log')}, and no line in {'it' if len(sources) == 1 else 'them'}."
    older = older_logs(snapshot)
    logs = many(len(sources) - len(older), "log") + (" of the newest run" if older else "")
    if any(source.pending for source in sources.values()):
        return f"The outcome is unknown: {not_read(snapshot)}; no known error in the rest of {logs}."
    if snapshot.exceptions or any(one.severity.rank >= Severity.WARNING.rank for one in snapshot.diagnostics.values()):
        return f"No error in {logs} is known to have ended the run, and no line says that it completed."
    unknown = f"No known error in {logs}, and no completion message: the outcome is unknown"
    return sentences(unknown, tests_open(snapshot) or reached_said(snapshot))


def errors_at(snapshot: Snapshot) -> set[tuple[str, int | None]]:
    """Return the logs and lines of errors that may have ended a run: none that was resolved, or is a warning."""
    if snapshot.tasks or any(source.pending for source in snapshot.log_sources.values()):
        return set()
    return {
        (said.log, proof.line)
        for said in snapshot.diagnostics.values()
        for proof in said.evidence[:1]
        if (said.severity.rank >= Severity.ERROR.rank or said.cause is CauseClass.DEVICE)
        and not (said.resolved or said.message.over or said.message.warned)
    }


def understood_at(snapshot: Snapshot) -> set[tuple[str, int | None]]:
    """Return the logs and lines of warnings that were understood and whose own text speaks of a failure."""
    links = {link for one in snapshot.recent_logs if speaks_of_failure(one.text) is not None for link in one.links}
    return {
        (said.log, proof.line)
        for said in snapshot.diagnostics.values()
        for proof in said.evidence[:1]
        if said.id in links and said.severity is Severity.WARNING
        if not (said.resolved or said.message.over or HARMLESS in said.message.marks)
    }


def warned_at(snapshot: Snapshot) -> set[tuple[str, int | None]]:
    """Return the logs and lines of reports of sanitizers after which the program went on, as far as they know."""
    told = (hit for hit in snapshot.exceptions.values() if hit.catchpoint == f"log: {WARNED}" and not hit.survived)
    return {(hit.source or "", hit.raised_line or hit.line) for hit in told}
