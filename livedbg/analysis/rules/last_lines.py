"""What a log ends with: an error after which nothing comes, or merely its last lines.

Invariants:
    last_lines.E1. An error ends a log only if it is put as programs put what ends them (a fatal level, `error: …` of a
        tool, a check that failed at a place of the source), nothing but what is printed after an end follows, and
        nothing else is known that could have ended the run.
    last_lines.E2. An error after which it is tried again, or of which its own text says that it may be ignored, is none
        of these.
    last_lines.E3. What the log says earlier, too, and goes on after, ended nothing.
    last_lines.E5. Where a launcher sums up that something failed, the last error above is what failed.
    last_lines.E4. Of a log that was not read to its end nothing is said of how it ends, unless its end was read apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.beside import around, newest, proof_of
from livedbg.analysis.rules.completed import completes_after
from livedbg.analysis.rules.spoken import OF_A_DEBUGGER, speaks_of_failure
from livedbg.analysis.rules.survived import summaries, survived
from livedbg.logs.ending_lines import ends_a_program, follows_an_end
from livedbg.logs.naming import replaced_by
from livedbg.logs.quoted import stores_others
from livedbg.model import CauseClass, ExceptionHit, LogRecord, LogSource, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

__all__ = ["ENDED_WITH_ERROR", "EndedWithError", "LastLines", "rules"]

ENDED_WITH_ERROR: Final = "ended-with-error"
_LOOKED_AT: Final = 40  # of the newest records of a log
_SHOWN: Final = 4
_LOGS: Final = 3
_LONGEST: Final = 240
_NUMBER: Final = re.compile(r"\d+")


class _End(NamedTuple):
    """An error that a log ends with.

    Attributes:
        records: the newest of the log, in order.
        at: index of the one.
        line: of its text that says it.
        number: of that line in the record.
    """

    source: LogSource
    records: Sequence[LogRecord]
    at: int
    line: str
    number: int


class EndedWithError:
    """A log that ends with an error."""

    name = ENDED_WITH_ERROR
    doc = (
        "A log ends with an error in the words of a program that ends by it: a fatal level, `error: …` of a tool, a "
        "library that could not be loaded, a check that failed at a place of its source. Nothing follows but what is "
        "printed after an end, and no other rule knows what ended the run. A crash if no process of the target is "
        "known. Not an error that is tried again, nor one that a logger wrote at a level below fatal, unless it says "
        "that something could not start or ends."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a log."""
        snapshot = state.snapshot
        if snapshot.processes or snapshot.tasks or _else_ended(state):
            return
        ends = [end for source in snapshot.log_sources.values() if (end := _end(source, snapshot)) is not None]
        for end in sorted(ends, key=lambda one: one.records[one.at].wall_ns or 0):
            record = end.records[end.at]
            who = f"{sentence_case(record.writer)}: the log" if record.writer else "The log"
            last = end.line.strip()[:_LONGEST].rstrip(".")
            where = f"{end.source.name}:{record.line + end.number}" if record.line is not None else end.source.name
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR,
                sentence=f"{who} ends with an error, at {where}: {last}.",
                claim=last,
                evidence=around(record, end.source, snapshot),
                next=("read the lines before it",),
                since_wall_ns=record.wall_ns,
                state=VerdictState.CRASHED,
                cause=CauseClass.PROCESS,
                writer=record.writer,
            )


class LastLines:
    """The last lines of logs that tell nothing else."""

    name = "last-lines"
    doc = "Nothing in the logs says that the run completed, or how it ended: their last lines, which decide no verdict."

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding for each of the first three logs."""
        snapshot = state.snapshot
        if snapshot.processes or snapshot.tasks or snapshot.exceptions or snapshot.diagnostics:
            return
        if speaks_of_failure(snapshot):
            return
        for source in list(snapshot.log_sources.values())[:_LOGS]:
            records = newest(source, snapshot, _LOOKED_AT)
            if not records or _is_cut(source, records) or source.errors:
                continue
            if stores_others(records[-1].text) or OF_A_DEBUGGER.match(records[-1].text) is not None:
                continue
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=f"{source.name} ends with: {_last(records[-1])}.",
                evidence=tuple(proof_of(record, source) for record in records[-_SHOWN:]),
            )


def _else_ended(state: RuleInput) -> bool:
    """Whether an exception is known that ended the run; those that a system explains are judged by it."""
    snapshot = state.snapshot
    own = (hit for hit in snapshot.exceptions.values() if not state.judged.explained(hit, snapshot))
    return any(not survived(hit, snapshot) for hit in own)


def _end(source: LogSource, snapshot: Snapshot) -> _End | None:
    """The error that a log ends with: the first of several in a row."""
    if replaced_by(source, snapshot.log_sources.values()) is not None:
        return None
    records = newest(source, snapshot, _LOOKED_AT)
    if records and _is_cut(source, records):
        return None
    judged, summed_up = _judged(source, snapshot), summaries(source.id, snapshot)
    found, before, proven = None, None, False
    for at in range(len(records) - 1, -1, -1):
        if any(line in summed_up for line in _numbers(records[at])):
            proven, found = True, None
            continue
        if any(line in judged for line in _numbers(records[at])):
            break
        said = _said(records[at], proven)
        if said is not None:
            found = _End(source, records, at, *said)
        elif (found is not None or not proven) and not follows_an_end(records[at]):
            before = records[at]
            break
    if found is None or (before is not None and _said_earlier(found, before, snapshot)):
        return None
    if completes_after(source.id, records[found.at].line or 0, snapshot):
        return None
    return found


def _is_cut(source: LogSource, records: Sequence[LogRecord]) -> bool:
    """Whether the newest record is not the end of a log: that is read apart, without the numbers of its lines (E4)."""
    return source.pending > 0 and records[-1].line is not None


def _said_earlier(end: _End, before: LogRecord, snapshot: Snapshot) -> bool:
    """Whether the log says the same before a record with which it goes on: then it ended nothing (E3)."""
    words = _without_numbers(end.line)
    for record in snapshot.recent_logs:
        if record.source != end.source.id or (record.line or 0) >= (before.line or 0):
            continue
        if any(_without_numbers(line) == words for line in record.text[record.head :].split("\n")[:_LOOKED_AT]):
            return True
    return False


def _without_numbers(line: str) -> str:
    return _NUMBER.sub("0", line[:_LONGEST].strip())


def _judged(source: LogSource, snapshot: Snapshot) -> set[int]:
    """The lines of a log that a decoder has understood: other rules judge them."""
    found = {line for hit in snapshot.exceptions.values() if hit.source == source.id for line in _of_hit(hit)}
    for said in snapshot.diagnostics.values():
        for proof in said.evidence:
            if proof.log == source.id and proof.line is not None:
                found.add(proof.line)
    return found


def _of_hit(hit: ExceptionHit) -> Iterator[int]:
    yield from (line for line in (hit.first_line, hit.raised_line, hit.line) if line is not None)


def _numbers(record: LogRecord) -> Sequence[int]:
    if record.line is None:
        return ()
    return record.lines or range(record.line, record.line + record.text.count("\n") + 1)


def _said(record: LogRecord, proven: bool) -> tuple[str, int] | None:
    """The line of a record that a program ends with, and its number; of what others logged, none."""
    if stores_others(record.text):
        return None
    for number, line in enumerate(record.text.split("\n")[:_LOOKED_AT]):
        text = line[record.head :] if number == 0 else line
        if ends_a_program(text, record.severity, headed=record.head > 0, proven=proven):
            return text, number
    return None


def _last(record: LogRecord) -> str:
    return record.text.strip().rpartition("\n")[2].strip()[:_LONGEST].rstrip(".")


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (EndedWithError(), LastLines())
