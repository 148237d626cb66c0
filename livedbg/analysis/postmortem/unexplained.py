"""Sentences for logs without an error and without processes: they never claim that all is well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from livedbg.analysis.postmortem.lines import older_logs
from livedbg.analysis.rules.words import many
from livedbg.logs.sanitizers import WARNED
from livedbg.model import NO_LOG, CauseClass, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.quantities import byte_size
from livedbg.text.wording import listing, sentences

_NAMED: Final = 2
_TEST_BEGINS: Final = ("begins", "section")
_TEST_ENDS: Final = ("passed", "test")
_RUN_ENDS: Final = ("summary", "closing")


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
        return f"The outcome is unknown: {not_read(snapshot)}; no errors in the rest of {logs}."
    if snapshot.exceptions or any(one.severity.rank >= Severity.WARNING.rank for one in snapshot.diagnostics.values()):
        return f"No error in {logs} is known to have ended the run, and no line says that it completed."
    unknown = f"No errors in {logs}, but no completion message either: the outcome is unknown"
    return sentences(unknown, tests_open(snapshot))


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


def warned_at(snapshot: Snapshot) -> set[tuple[str, int | None]]:
    """Return the logs and lines of reports of sanitizers after which the program went on, as far as they know."""
    told = (hit for hit in snapshot.exceptions.values() if hit.catchpoint == f"log: {WARNED}" and not hit.survived)
    return {(hit.source or "", hit.raised_line or hit.line) for hit in told}


class TestMark(NamedTuple):
    """A record in which a test begins (`name`), or ends (""; `ends` has failed), by what its runner prints."""

    first: int
    last: int
    name: str
    ends: str = ""


def test_marks(snapshot: Snapshot) -> dict[tuple[str, str], list[TestMark]]:
    """Return where tests begin and end, by log and writer, in order."""
    from livedbg.signatures.crashes import run_book  # logs only: a look at processes is done before

    marks: dict[tuple[str, str], list[TestMark]] = {}
    for record in snapshot.recent_logs:
        told = {one.said.code: one.said.sentence for one in run_book().found(record.text)}
        if record.line is None or told.keys().isdisjoint((*_TEST_BEGINS, *_TEST_ENDS, *_RUN_ENDS, "because")):
            continue
        last, of = record.last_line or record.line, marks.setdefault((record.source, record.writer), [])
        begun = next((told[kind] for kind in _TEST_BEGINS if kind in told), "")
        if "because" in told and of and of[-1].ends:  # what a list of failed tests quotes below a name
            of += [TestMark(record.line, last, of[-1].ends), TestMark(last, last, "", of[-1].ends)]
        else:
            of.append(TestMark(record.line, last, begun, "" if begun else told.get("test", "")))
    return marks


def test_at(line: int, marks: Sequence[TestMark]) -> str:
    """Return the test that ran at a line, or ""; the end of a test behind it may stand in the same record."""
    told = (one for one in reversed(marks) if (one.first <= line if one.name else one.last < line))
    return next((one.name for one in told), "")


def tests_open(snapshot: Snapshot) -> str:
    """Return `Test Net.Two had begun and not ended, of ranks 0 and 1`, or ""."""
    from livedbg.signatures.crashes import run_book  # logs only: a look at processes is done before

    runs: dict[tuple[str, str], str] = {}
    for record in snapshot.recent_logs:
        for one in run_book().found(record.text):
            name, key = one.said.sentence, (record.source, record.writer)
            if one.said.code == "begins":
                runs[key] = name
            elif one.said.code in _TEST_ENDS and runs.get(key) == name:
                del runs[key]
    of: dict[str, list[str]] = {}
    for (_, writer), name in runs.items():
        of.setdefault(name, []).append(writer)
    said = (f"{name}{f' ({listing(filter(None, whose))})' if any(whose) else ''}" for name, whose in of.items())
    return f"Begun and not ended: {listing(said)}" if of else ""
