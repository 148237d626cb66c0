"""Completion: whether the logs of a job say that it completed.

Invariants:
    completed.C1. A run completed only if each of its logs ends with such a line, or a launcher's account of the whole
        job comes last; the line of one rank says nothing about other ranks.
    completed.C2. After such a line nothing comes but usual output at a program's end (a full progress bar too): no
        step, no ordinary line, and nothing that begins.
    completed.C3. A bare word (`done`, which a shell or a wrapper also prints) counts only if it comes once, and after
        the last error of its log that is not over, if there is one, only with a step between. What also is said of
        each of several cases (the mark "once") counts only if it comes once.
    completed.C5. Error lines of one stream's log after which it went on were survived if the other stream's log of the
        same program ends with its completion, in more than a bare word.
    completed.C4. What says only that no fault was found (the mark "besides") counts where something else completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from livedbg.analysis.postmortem.lines import KnownLine, known_lines
from livedbg.logs.last_words import is_full
from livedbg.logs.naming import stem_of
from livedbg.logs.writers import rank_of
from livedbg.model import CauseClass, Diagnostic, LogSource, Severity
from livedbg.model.snapshot import Snapshot

_AT_THE_END: Final = 2**62
"""The line of what was read at the end of a big log, whose lines are not counted."""
_BESIDES: Final = "besides"
_ONCE: Final = "once"


def completions(snapshot: Snapshot, log: str = "") -> Iterator[Diagnostic]:
    """Yield the messages of completion, in all logs or in one."""
    told = (
        said for said in snapshot.diagnostics.values() if said.message.ends == "completes" and not said.message.over
    )
    return (said for said in told if log in ("", said.evidence[0].log) and _counts(said, snapshot))


def is_bare(said: Diagnostic) -> bool:
    """Return whether a line reports completion without naming the thing that is done."""
    return "bare" in said.message.marks


def _counts(said: Diagnostic, snapshot: Snapshot) -> bool:
    again = said.evidence[0].line != said.evidence[-1].line
    if not is_bare(said):
        return not (again and _ONCE in said.message.marks)
    if _BESIDES in said.message.marks:
        told = (one.message for one in snapshot.diagnostics.values() if one.message.ends == "completes")
        if not any(not one.over and _BESIDES not in one.marks for one in told):
            return False
    source, number = snapshot.log_sources.get(said.log), line_of(said)
    if again:
        return False
    errors = [line for line in _error_lines(said.log, snapshot) if line < number]
    if source is None or (not errors and not source.errors):
        return source is not None
    last = max(errors, default=source.first_error_line or 0)
    return any(last < line.number < number and line.step is not None for line in known_lines(source, snapshot))


def _error_lines(log: str, snapshot: Snapshot) -> Iterator[int]:
    for hit in snapshot.exceptions.values():
        if hit.source == log and hit.line is not None:
            yield hit.line
    for said in snapshot.diagnostics.values():
        counts = said.severity.rank >= Severity.ERROR.rank and not said.message.over
        if counts and said.log == log and said.evidence:
            yield line_of(said)


def completed_elsewhere(log: str, snapshot: Snapshot) -> bool:
    """Return whether another log says that its run completed."""
    return any(said.evidence[0].log != log for said in completions(snapshot))


def completes_after(log: str, line: int, snapshot: Snapshot, errors: Iterable[int] = ()) -> bool:
    """Return whether a log says after a line that its run completed, with no error after that."""
    ends = [line_of(said) for said in completions(snapshot, log)]
    return any(end > line and not any(error > end for error in errors) for end in ends)


def completed_in(source: LogSource, snapshot: Snapshot, until: int = _AT_THE_END) -> list[Diagnostic]:
    """Return the messages of completion at the end of a log (C2), or before a line in it."""
    lines = [line for line in known_lines(source, snapshot) if line.number < until]
    own = ((said, _number(said, lines)) for said in completions(snapshot, source.id))
    return [said for said, number in own if number < until and not any(_goes_on(line, said, number) for line in lines)]


def completed_behind_errors(source: LogSource, snapshot: Snapshot) -> bool:
    """Return whether a log ends with a message of completion after all its error lines: the run survived them.

    Tests that all passed did so whatever their log goes on with.
    """
    if completed_beside(source, snapshot) and _went_on(source, snapshot):
        return True
    passed = (said for said in completions(snapshot, source.id) if "tests" in said.message.marks)
    last = completed_in(source, snapshot) or list(passed)
    if not last or source.first_error_line is None:
        return False
    lines = known_lines(source, snapshot)
    number = max(_number(said, lines) for said in last)
    behind = (line for line in lines if line.number > number)
    return source.first_error_line < number and not any(source.last_error in line.text for line in behind)


def completed_beside(source: LogSource, snapshot: Snapshot) -> bool:
    """Return whether the log of the same program's other stream ends with its completion (C5)."""
    stem = stem_of(source.path or source.id)
    others = (one for one in snapshot.log_sources.values() if one.id != source.id)
    beside = (one for one in others if stem_of(one.path or one.id) == stem)
    return any(not is_bare(said) for one in beside for said in completed_in(one, snapshot))


def _went_on(source: LogSource, snapshot: Snapshot) -> bool:
    """Return whether a log goes on after the last of its error lines."""
    lines = known_lines(source, snapshot)
    errors = (line.number for line in lines if source.last_error and source.last_error in line.text)
    last = max(errors, default=source.first_error_line or 0)
    behind = (line for line in lines if line.number > last)
    return any(line.ordinary or line.step is not None or is_full(line.text) for line in behind)


def not_completed(sources: Sequence[LogSource], snapshot: Snapshot) -> list[str] | None:
    """Return the ranks without a message of completion; None if all logs, or a launcher of all, have one (C1)."""
    ranks: set[str] = set()
    done: dict[str, bool] = {}
    for source in sources:
        last = completed_in(source, snapshot)
        if any(
            said.cause is CauseClass.SUMMARY and all(_before(one, said, source) for one in sources) for said in last
        ):
            return None
        writers = {line.writer for line in known_lines(source, snapshot) if rank_of(line.writer) is not None}
        missing = set() if any(not said.writer for said in last) else writers - {said.writer for said in last}
        ranks |= missing
        stem = stem_of(source.path or source.id)
        done[stem] = done.get(stem, False) or (bool(last) and not missing)
    return None if all(done.values()) else sorted(ranks)


def line_of(said: Diagnostic) -> int:
    """Return the number of the message's line."""
    line = said.evidence[-1].line
    return _AT_THE_END if line is None else line


def _before(other: LogSource, said: Diagnostic, source: LogSource) -> bool:
    end_ns, at_ns = other.last_wall_ns, said.evidence[-1].at_wall_ns
    return other.id == source.id or (end_ns is not None and at_ns is not None and end_ns <= at_ns)


def _number(said: Diagnostic, lines: Sequence[KnownLine]) -> int:
    """Return the number of the message's line; counted from the end if a big log's lines have none."""
    named = (line.number for line in reversed(lines) if line.text.strip() in said.evidence[-1].text)
    return line_of(said) if said.evidence[-1].line is not None else next(named, _AT_THE_END)


def _goes_on(line: KnownLine, said: Diagnostic, number: int) -> bool:
    if line.number <= number or (said.writer and line.writer not in ("", said.writer)):
        return False
    if line.text.strip() in said.evidence[-1].text.split("\n") or is_full(line.text):
        return False  # a part of it, or a bar that is drawn once more
    return line.ordinary or line.restarts or line.step is not None or line.begins
