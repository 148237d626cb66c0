"""The end of a log: an error after which nothing comes, a wait, or lines that merely mention a failure.

Invariants:
    last_lines.E1. An error ends a log only if it has the form in which programs report a fatal error (a fatal level,
        `error: …` of a tool, a check that failed at a place of the source), only output after an end follows, and
        nothing else is known that could have ended the run.
    last_lines.E10. One or two lines below an error that label a detail of it (`Last command: run 10`) belong to its
        message, and so does a table of such lines; a label with a number, a step, or something that begins is progress.
    last_lines.E12. Of errors that follow each other the first leads; a fatal one that says why leads before those of a
        lower level. The other one is said beside it if it says why, and the leading one does not.
    last_lines.E13. An error of a logger below the fatal level is what ended a program if only lines of its stop follow
        it, within a second by their stamps, and none above says that it was asked to stop, or stops.
    last_lines.E14. Where the row of a table says what failed, the first of the errors above the table is said beside
        it, if one of them names what the row is of. If a decoder has understood one of them, and the log does not
        go on after that, the row says no more.
    last_lines.E11. An error right above it that a decoder has understood, and that may have ended its program, is its
        cause, also if its logger calls it a warning.
    last_lines.E19. If the log of the program's other stream says that it completed, the end is not known.
    last_lines.E2. An error that is followed by a retry, or whose text says that it may be ignored, is none of these.
    last_lines.E3. An error that the log also has earlier, and goes on after, ended nothing.
    last_lines.E5. Where a launcher reports that something failed, or an exception only says that another program did,
        the last error above is the failure, unless a decoder has understood an error right before it. Above an abort
        without a reason so is an error right before it. Lines below such an account are its launcher's, so the search
        begins there; a non-zero status counts as one, whoever reports it.
    last_lines.E8. Not so if the account says that the program was ended by a signal that no program sends itself for an
        error: then an error line counts only if it mentions a cause of such a signal.
    last_lines.E9. A program's exit is an end only with a reason, in the same line or in a message right above.
    last_lines.E6. Lines about waiting are no stall: they prove that somebody waited, not for how long.
    last_lines.E18. A line is repeated only if one writer repeats it: what each rank says once is none. A wait takes
        time between its repeats, as far as their stamps tell.
    last_lines.E7. Lines that merely mention a failure decide only that the end is not known: none of them is called an
        error or a crash. They are not shown beside an error, nor for a run that completed or of which a process is
        known; nor are warnings after which the log went on.
    last_lines.E15. Above a stack of V8 at the end of a log, the lines up to the error are its message.
    last_lines.E16. An error that is only a place and the class of an exception has its message in the nearest line
        above that names this class.
    last_lines.E17. What a debugger printed for a command that runs nothing (`bt`, `info threads`) is its own.
    last_lines.E4. A log that was not read to its end gives no finding about its end, unless its end was read apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final, NamedTuple

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import place_text
from livedbg.analysis.postmortem.beside import BESIDE
from livedbg.analysis.postmortem.completed import completed_beside, completes_after, completions
from livedbg.analysis.postmortem.exceptions import is_bare_abort
from livedbg.analysis.postmortem.lines import around, newest, proof_of, shown
from livedbg.analysis.postmortem.survived import goes_on_after, is_replaced, summaries, survived
from livedbg.analysis.rules.base import SPOKEN, Rule, RuleInput
from livedbg.analysis.rules.said import HARMLESS, NOTED
from livedbg.analysis.rules.words import many
from livedbg.analysis.user_code import UserCode
from livedbg.logs.assertions import MARK, without_plea
from livedbg.logs.error_lines import NamedAbove, named_above
from livedbg.logs.last_words import (
    aborts,
    after_level,
    announces,
    asks_a_debugger,
    causes_in,
    cells_of,
    detail,
    ended_by_signal,
    ends_a_program,
    ends_without_reason,
    enters,
    explains,
    failed_unit,
    follows_an_end,
    goes_on,
    has_reason,
    in_words,
    is_a_debuggers_prompt,
    is_asked,
    is_headed,
    is_of_a_debugger,
    is_rule,
    is_thrown,
    made_at,
    may_end_by_signal,
    of_one_error,
    only_failed,
    placed_by,
    rank_in,
    says_exit,
    speaks_of_failure,
    step_of,
    stops_itself,
    stores_others,
    throws,
    unframed,
    waits,
    without_numbers,
)
from livedbg.logs.shapes import guess_severity
from livedbg.logs.stack_listings import listed, native_frames
from livedbg.logs.writers import rank_of
from livedbg.model import (
    FAILED_TESTS,
    CauseClass,
    Diagnostic,
    Evidence,
    ExceptionHit,
    LogRecord,
    LogSource,
    Severity,
)
from livedbg.model.snapshot import Snapshot
from livedbg.text.quantities import duration
from livedbg.text.shortening import shortened
from livedbg.text.wording import sentence_case, sentences, spans

ENDED_WITH_ERROR: Final = "ended-with-error"
_LOOKED_AT: Final = 40  # of the newest records of a log
_SHOWN: Final = 4
_SPOKEN: Final = 3
_WENT_ON: Final = 20
"""Lines behind a warning that show that it ended nothing."""
_NEAR_LINES: Final = 20  # between lines that speak of the same failure
_SPOKEN_TEXT: Final = 300
_LOGS: Final = 3
_LONGEST: Final = 240
_WAITED: Final = 400
_AGAIN: Final = 3
"""So many equal lines at the end of a log are more than one try."""
_WINDOW: Final = 12
_OFTEN: Final = 5
_MOSTLY: Final = 1.5
"""So many of the newest lines, or at least that part of them, are the same wait."""
_ROUND: Final = 3
"""So many lines, at most, are written in each round of a wait."""
_PAUSE_NS: Final = 50_000_000
"""So long, at least, a wait takes from one of its lines to the next."""
_TEXT: Final = 200
_CHAIN: Final = 5
"""A line of so many parts, all of them short, is a chain of causes."""
_PARAGRAPH: Final = 8
"""So many records, at most, are between the head of a message and the line that says that its program ends."""
_ABOVE: Final = 60  # lines from an error to the table that sums it up
_BELOW: Final = 2
_LISTED: Final = 40
_STACK: Final = 8
"""So many records, from that of an error, are read for its stack."""
_AT_ONCE_NS: Final = 1_000_000_000
"""So soon after the error that ends it a program begins to stop."""
_OTHERS: Final = 2
"""So many lines of a stop, at most, don't speak of it."""
_UNCAUGHT: Final = "Node.js v"
"""What V8's host writes last, below an error that nothing caught."""
_HEADERS: Final = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".tcc")
_LABELS: Final = 3
"""So many lines below an error are searched for its labelled reason."""


class _End(NamedTuple):
    """An error that a log ends with, and the error right above it that may have ended the program (E11).

    `unit` is the part of a workflow that an account below names as failed, `beside` another error of the same row.
    """

    source: LogSource
    records: Sequence[LogRecord]
    at: int
    line: str
    number: int
    why: str = ""
    unit: str = ""
    beside: str = ""


class EndedWithError:
    """Rule for a log that ends with an error."""

    name = ENDED_WITH_ERROR
    doc = (
        "A log ends with an error in the words of a program that ends by it: a fatal level, `error: …` of a tool, a "
        "library that could not be loaded, a check that failed at a place of its source. Nothing follows but what is "
        "printed after an end, and no other rule knows what ended the run. A crash if no process of the target is "
        "known. Not an error that is tried again, nor one that a logger wrote at a level below fatal, unless it says "
        "that something could not start or ends, or only lines of the program's own stop follow it."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        if snapshot.processes or snapshot.tasks or _else_ended(state):
            return
        ends = [end for source in snapshot.log_sources.values() if (end := _end(source, state)) is not None]
        told = snapshot.diagnostics.values()
        peers = {said.log for said in told if said.cause is CauseClass.PEER}
        by_rank = (said for said in told if said.does and rank_of(said.writer) is not None)
        accounts = {said.log for said in by_rank if said.cause is CauseClass.SUMMARY and not said.message.over}
        for end in sorted(ends, key=lambda one: one.records[one.at].wall_ns or 0):
            record = end.records[end.at]
            cause = state.judged.cause_of_text(end.line)
            if cause.rank >= CauseClass.PEER.rank and end.source.id in peers:
                continue  # a decoder knows who is gone
            bare = cause is CauseClass.SUMMARY or only_failed(end.line) or ends_without_reason(end.line)
            if bare and end.source.id in accounts:
                continue  # what is only the heading of an account, which names the rank
            who = f"{sentence_case(record.writer)}: the log" if record.writer else "The log"
            last, thrown = _told(_whole(end)).rstrip("."), _thrown_at(end, state.code)
            thrown = thrown or placed_by(record, last) or _asserted_at(end, snapshot)
            thrown += f"; {end.beside}" if end.beside and end.beside.partition(": ")[2] not in last else ""
            where = f"{end.source.name}:{record.line + end.number}" if record.line is not None else end.source.name
            done = completed_beside(end.source, snapshot)
            more = "Its program's other stream says that it completed" if done else ""
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR,
                sentence=sentences(f"{end.why}{who} ends with an error{_unit(end)}, at {where}: {last}{thrown}", more),
                claim=last,
                evidence=around(record, end.source, snapshot),
                since_wall_ns=record.wall_ns,
                state=VerdictState.UNKNOWN if done else VerdictState.CRASHED,
                decides=done,
                cause=cause,
                writer=record.writer,
            )


class LastLines:
    """Rule for logs that tell nothing else: their last lines."""

    name = "last-lines"
    doc = "Nothing in the logs says that the run completed, or how it ended: their last lines, which decide no verdict."

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each of the first three logs."""
        snapshot = state.snapshot
        if snapshot.processes or snapshot.tasks or snapshot.exceptions:
            return
        if any(NOTED not in said.message.marks for said in snapshot.diagnostics.values()):
            return
        if next(_spoken(snapshot), None) is not None:
            return
        for source in list(snapshot.log_sources.values())[:_LOGS]:
            records = newest(source, snapshot, _LOOKED_AT)
            if not records or _is_cut(source, records) or source.errors:
                continue
            if stores_others(records[-1]) or is_of_a_debugger(records[-1].text):
                continue
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=f"{source.name} ends with: {_last(records[-1])}.",
                evidence=tuple(proof_of(record, source) for record in records[-_SHOWN:]),
            )


def _else_ended(state: RuleInput) -> bool:
    """Return whether a known exception ended the run; those that a system explains don't count."""
    snapshot = state.snapshot
    own = (hit for hit in snapshot.exceptions.values() if not state.judged.explained(hit, snapshot))
    return any(not survived(hit, snapshot) for hit in own if not _accounts(hit, state))


def _accounts(hit: ExceptionHit, state: RuleInput) -> bool:
    """Return whether an exception only says that something failed: another program, its own by an abort, some test."""
    nameless = hit.catchpoint == f"log: {FAILED_TESTS}" and not (hit.message or hit.related)
    return nameless or state.judged.cause_of(hit) is CauseClass.SUMMARY or is_bare_abort(hit)


def _end(source: LogSource, state: RuleInput) -> _End | None:
    snapshot = state.snapshot
    if is_replaced(source, snapshot):
        return None
    records = newest(source, snapshot, _LOOKED_AT)
    if records and _is_cut(source, records):
        return None
    judged, told = _judged(source, snapshot), _Accounts(source, state)
    found, before, proven, apart = None, None, False, True
    by_signal, bare, last, details = False, None, None, 0
    row: list[_End] = []  # errors of a logger that follow each other, the last one first
    stops, weak = False, None  # what comes below says that the program stops; only says that something failed
    for at in _of_program(records[: told.last(records) + 1], judged):
        numbers = _numbers(records[at])
        unjudged, line = judged.isdisjoint(numbers), _first_line(records[at])
        if told.accounts(numbers) or (proven and told.follows(numbers)) or (unjudged and says_exit(records[at])):
            own = None if proven or told.accounts(numbers) else _said(records[at], proven)
            last = last if own is None else _End(source, records, at, *own)  # it says itself why
            proven, found, weak = True, None, None
            how = ended_by_signal(told.text_of(records[at]))
            by_signal = by_signal if how is None else how
            apart = apart and told.aborted.isdisjoint(numbers)
            continue
        if not unjudged and proven and records[at].severity is Severity.WARNING:
            found = _with_why(found, numbers, source, snapshot)
            continue  # a note, which says nothing of the end
        if not unjudged:
            found, weak = _with_why(None if proven else found or last, numbers, source, snapshot), None
            break
        next_to = found is not None and _is_severe(records[at]) and _are_notes(records[at + 1 : found.at])
        said = _said(records[at], proven or next_to or (stops and _ended_alone(records, at)))
        stops = stops or stops_itself(after_level(records[at]))
        if bare is None and found is None and not proven and (ends_without_reason(line) or aborts(line)):
            bare, last = at, None if said is None else _End(source, records, at, *said)
            found = last if speaks_of_failure(line) is not None and not aborts(line) else None
        elif said is not None:
            end, is_weak = _End(source, records, at, *said), proven and (aborts(line) or only_failed(line))
            weak = weak or end if is_weak else weak
            found = found if is_weak else end
            row = row if is_weak else [*(row if next_to else ()), end]
        elif (found is None and not proven and explains(line)) or (
            found is None
            and (
                _is_thrown_below(records, at) or (bare is not None and bare - at < _PARAGRAPH and step_of(line) is None)
            )
        ):
            continue  # the reason of an error above, or the lines of the message, whose head may stand above
        elif found is None and not proven and (kind := detail(records[at])) and details < _BELOW:
            details += kind == "line"
        elif (found is not None or not (proven and apart)) and not (
            follows_an_end(records[at]) or (stops and found is None and _is_of_stop(records[at:]))
        ):
            before = records[at]
            break
    found = found or last or weak
    if found is None or (before is not None and _said_earlier(found, before, snapshot)):
        return None
    if by_signal and not may_end_by_signal(found.line):
        return None  # the account of the signal says how it ended (E8)
    begins = records[found.at].line or 0
    if completes_after(source.id, begins, snapshot) or (_is_row(found) and _is_understood(begins, source, snapshot)):
        return None
    units = (failed_unit(record) for record in records[found.at + 1 :])
    found = _of_table(_of_row(row[::-1], state.code) if row and row[-1] == found else found)
    return found._replace(unit=next(filter(None, units), ""))


def _of_program(records: Sequence[LogRecord], judged: Set[int]) -> Iterable[int]:
    """Return the indices of records from the last one on, without unknown ones that a debugger was asked for (E17)."""
    asked, found = "", list[int]()
    for at, record in enumerate(records):
        own = not asks_a_debugger(asked)
        for line in record.text.split("\n")[:_LOOKED_AT]:
            asked = line if is_a_debuggers_prompt(line) else asked
            own = own and not asks_a_debugger(asked)
        if own or not judged.isdisjoint(_numbers(record)):
            found.append(at)
    return reversed(found)


def _of_row(row: Sequence[_End], code: UserCode) -> _End:
    """Return the error of a row that says why the program ended, with the one beside it that says more (E12)."""
    first, last = row[0], row[-1]
    ranks = [end.records[end.at].severity for end in (first, last)]
    if ranks[0] is not Severity.CRITICAL and ranks[1] is Severity.CRITICAL and has_reason(last.line):
        why = first.line.rpartition(": ")[2].strip()
        return last if why in last.line else last._replace(beside=f"before it: {_told(first.line).rstrip('.')}")
    placed = (f"{_told(end.line).rstrip('.')}{_thrown_at(end, code)}" for end in row[1:] if has_reason(end.line))
    more = next(placed, "")
    return first._replace(beside=f"then: {more}") if more and not has_reason(first.line) else first


class _Accounts:
    """The lines of a log that only report an end: a launcher's, or of an exception that says no more.

    `aborted` are those of aborts without a reason.
    """

    def __init__(self, source: LogSource, state: RuleInput) -> None:
        snapshot = state.snapshot
        hits = [hit for hit in snapshot.exceptions.values() if hit.source == source.id and _accounts(hit, state)]
        self.aborted = {line for hit in hits if is_bare_abort(hit) for line in _of_hit(hit)}
        self._lines = summaries(source.id, snapshot) | {line for hit in hits for line in _of_hit(hit)}
        own = [said for said in snapshot.diagnostics.values() if said.log == source.id]
        self._later = {said.message.first for said in own if said.late and said.cause is CauseClass.PROCESS}
        told = [said for said in own if said.message.first in self._lines and said.severity.rank >= Severity.ERROR.rank]
        self._lines |= {line for said in told for line in _of_said(said, source)}
        self._texts = {said.message.first: "\n".join(proof.text for proof in said.evidence) for said in told}
        self._stand = {line for hit in hits if not survived(hit, snapshot) for line in _of_hit(hit)}
        self._stand |= {said.message.first for said in told if not goes_on_after(said.evidence, snapshot)}

    def last(self, records: Sequence[LogRecord]) -> int:
        """Return the index of the last account followed only by its launcher's lines; else of the last record."""
        found = (at for at in range(len(records) - 1, -1, -1) if not self._stand.isdisjoint(_numbers(records[at])))
        return next(found, len(records) - 1)

    def text_of(self, record: LogRecord) -> str:
        return self._texts.get(record.line or 0, record.text)

    def accounts(self, numbers: Sequence[int]) -> bool:
        return not self._lines.isdisjoint(numbers)

    def follows(self, numbers: Sequence[int]) -> bool:
        """Return whether some lines are between accounts: they say how the rest was ended."""
        return not self._later.isdisjoint(numbers)


def _with_why(end: _End | None, numbers: Sequence[int], source: LogSource, snapshot: Snapshot) -> _End | None:
    """Return an error with what is known of the record right above it (E11)."""
    if end is None or end.why:
        return end
    own = (said for said in snapshot.diagnostics.values() if said.log == source.id and said.message.first in numbers)
    told = (said for said in own if said.severity.rank >= Severity.ERROR.rank or said.message.warned)
    return end._replace(why=next((f"{said.sentence}. " for said in told if not said.message.over), ""))


def _is_row(end: _End) -> bool:
    return end.records[end.at].text[:1] == "|"


def _is_understood(row: int, source: LogSource, snapshot: Snapshot) -> bool:
    """Return whether an error above a row of a table is understood that ended its program: its log does not go on."""
    own = (said for said in snapshot.diagnostics.values() if said.log == source.id and said.message.ends == "perhaps")
    told = (said for said in own if said.severity.rank >= Severity.ERROR.rank)
    near = (said for said in told if 0 < row - said.message.last <= _ABOVE)
    return any(not goes_on_after(said.evidence, snapshot) for said in near)


def _are_notes(records: Sequence[LogRecord]) -> bool:
    """Return whether a logger's warnings alone stand between two errors."""
    return all(record.severity is Severity.WARNING and record.head for record in records)


def _of_table(end: _End) -> _End:
    """Return the row of a table that failed with the first of the errors above it, of which one names it (E14)."""
    if not _is_row(end):
        return end
    name, above = end.line.partition(",")[0], end.records[: end.at]
    at = next((at for at in range(len(above) - 1, -1, -1) if _is_severe(above[at]) and name in above[at].text), None)
    if at is None:
        return end
    first = max((other + 1 for other in range(at) if not _is_severe(above[other])), default=0)
    return end._replace(beside=f"before it: {_told(_first_line(above[first]).strip()).rstrip('.')}")


def _is_severe(record: LogRecord) -> bool:
    return record.severity.rank >= Severity.ERROR.rank


def _ended_alone(records: Sequence[LogRecord], at: int) -> bool:
    """Return whether a record is an error, right above a stop that none before it speaks of (E13)."""
    lines, below = map(after_level, records[:at]), records[at + 1 :]
    if not _is_severe(records[at]) or any(stops_itself(line) or is_asked(line) for line in lines):
        return False
    ended_ns, stops_ns = records[at].wall_ns, below[0].wall_ns
    at_once = ended_ns is not None and stops_ns is not None and stops_ns - ended_ns <= _AT_ONCE_NS
    return at_once and follows_an_end(below[0]) and _is_of_stop(below)


def _is_of_stop(records: Sequence[LogRecord]) -> bool:
    """Return whether all but a few of these lines of a logger are those of a program that stops."""
    others = [record for record in records if not follows_an_end(record)]
    return len(others) <= _OTHERS and all(record.head for record in others)


def _first_line(record: LogRecord) -> str:
    return record.text[record.head :].partition("\n")[0]


def _whole(end: _End) -> str:
    """Return the line, with what is said below it: the text that it announces, the last cause, or a labelled reason."""
    line = unframed(end.line).strip()
    if raised := _raised_above(end).said:
        return f"{line}: {raised}"
    below = end.records[end.at].text.split("\n")[end.number + 1 :]
    for record in end.records[end.at + 1 : end.at + 1 + _LABELS]:
        below += record.text[record.head :].split("\n")
    texts = [
        text
        for text in map(unframed, below[:_LISTED])
        if any(map(str.isalnum, text)) and not (_is_bare(text) or is_rule(text))
    ]
    if links := causes_in(texts):
        return ": ".join((line.rstrip(" :."), *links)) + made_at(of_one_error(texts))
    if announces(line) and texts:
        said = next((at for at, text in enumerate(texts) if not announces(text)), 0)
        return (
            f"{line} {' '.join(text.strip() for text in texts[: said + 1])}{made_at(of_one_error(texts[said + 1 :]))}"
        )
    if texts and throws(texts[0].strip()) and texts[0].strip() not in line:
        return f"{line.rstrip(' .:')}: {texts[0].strip()}"
    first, texts = texts[:1], of_one_error(texts)
    label = next((at for at, text in enumerate(texts[:_LABELS]) if explains(text)), None)
    if label is None:
        more = first[0].strip(" >-=.") if first and goes_on(first[0]) else ""
        return f"{line.rstrip(' :.')}: {more}" if more else line + made_at(texts)
    reason = texts[label]
    while explains(reason):  # a prefix may stand before the label
        reason = reason.partition(":")[2].strip()
    reason = reason or next(iter(texts[label + 1 : label + 2]), "").strip()
    return f"{line.rstrip(' .:')}: {reason}" if reason and reason not in line else line


def _raised_above(end: _End) -> NamedAbove:
    own = end.records[end.at].text.split("\n")[: end.number]
    above = [*(line for record in end.records[: end.at] for line in record.text.split("\n")), *own]
    return named_above(end.line, above)


def _is_thrown_below(records: Sequence[LogRecord], at: int) -> bool:
    """Return whether a line without a head stands near a stack of V8 that ends the log: it is of its message (E15)."""
    last = [record.text for record in records[-_STACK:]]
    ends = is_thrown(last[-1]) or last[-1].startswith(_UNCAUGHT)
    return ends and records[at].head == 0 and any(map(is_thrown, last))


def _is_bare(text: str) -> bool:
    """Return whether a line only announces an error."""
    return text.strip().lower() == "error:"


def _told(text: str) -> str:
    """Return as much of a line as is said; of a long chain of causes (`build: open: no space`) both ends."""
    text = in_words(without_plea(text) if MARK in text else text)
    links = text.split(": ")
    if len(text) <= _LONGEST or len(links) < _CHAIN or len(links[-1]) > _TEXT // 2:
        return text[:_LONGEST]
    last = len(links) - 1
    while last > 2 and len(": ".join(links[last - 1 :])) <= _LONGEST - _TEXT // 2:
        last -= 1
    return f"{': '.join(links[:2])[: _TEXT // 2]}: …: {': '.join(links[last:])}"


def _unit(end: _End) -> str:
    return f" in {end.unit}" if end.unit and end.unit.partition(" ")[2] not in end.line else ""


def _thrown_at(end: _End, code: UserCode) -> str:
    """Return the place of the user's code in the stack that stands with an error or below it; "" without one.

    Of an exception that is only named, the one below its message (E16). Of one in a header, with what called it.
    """
    texts = "\n".join(record.text for record in end.records[end.at : end.at + _STACK]).split("\n")
    below = end.number + 1 + announces(end.line)
    text = "\n".join((*texts[:below], *of_one_error(texts[below:])))
    frames = [*listed("script", text), *listed("dotnet", text), *native_frames(text), *_raised_above(end).stack]
    frame = code.frame_of(placed := [frame for frame in frames if frame.line is not None])
    if frame is None:
        return ""
    callers = placed[placed.index(frame) + 1 :] if (frame.file or "").endswith(_HEADERS) else []
    caller = code.frame_of([one for one in callers if not (one.file or "").endswith(_HEADERS)])
    return f", in {place_text(frame)}{f', called by {place_text(caller)}' if caller is not None else ''}"


def _asserted_at(end: _End, snapshot: Snapshot) -> str:
    """Return the place of an assertion right below that says no more than that it failed: `, in fill (pump.cpp:12)`."""
    line = end.records[end.at].line or 0
    for hit in snapshot.exceptions.values():
        below = hit.source == end.source.id and 0 < (hit.first_line or 0) - line <= _LABELS
        if below and hit.type == "assert" and is_bare_abort(hit) and hit.stack:
            return f", in {place_text(hit.stack[0])}"
    return ""


def _is_cut(source: LogSource, records: Sequence[LogRecord]) -> bool:
    """Return whether the newest record is not the end of a log: an end read apart has no line numbers (E4)."""
    return source.pending > 0 and records[-1].line is not None


def _said_earlier(end: _End, before: LogRecord, snapshot: Snapshot) -> bool:
    """Return whether the log has the same error before a record with which it goes on (E3)."""
    words = without_numbers(end.line)
    for record in snapshot.recent_logs:
        if record.source != end.source.id or (record.line or 0) >= (before.line or 0):
            continue
        if any(without_numbers(line) == words for line in record.text[record.head :].split("\n")[:_LOOKED_AT]):
            return True
    return False


def _judged(source: LogSource, snapshot: Snapshot) -> set[int]:
    found = {line for hit in snapshot.exceptions.values() if hit.source == source.id for line in _of_hit(hit)}
    told = (said for said in snapshot.diagnostics.values() if said.message.ends != BESIDE)
    return found.union(*(_of_said(said, source) for said in told))


def _of_said(said: Diagnostic, source: LogSource) -> Iterator[int]:
    for proof in said.evidence:
        if proof.log == source.id and proof.line is not None:
            yield from range(proof.line, proof.line + proof.text.count("\n") + 1)


def _of_hit(hit: ExceptionHit) -> Iterator[int]:
    yield from (line for line in (hit.first_line, hit.raised_line, hit.line) if line is not None)


def _numbers(record: LogRecord) -> Sequence[int]:
    if record.line is None:
        return ()
    return record.lines or range(record.line, record.line + record.text.count("\n") + 1)


def _said(record: LogRecord, proven: bool) -> tuple[str, int] | None:
    """Return the line of a record that a program ends with, and its index, or None."""
    if stores_others(record):
        return None
    if record.text[:1] == "|" and (row := cells_of(record.text)) != record.text:
        return (row, 0) if proven and ends_a_program(row, record.severity, headed=False, proven=True) else None
    lines, headed = record.text.split("\n")[:_LOOKED_AT], is_headed(record)
    for number, line in enumerate(lines):
        text = line[record.head :] if number == 0 else line
        severity = record.severity
        if len(lines) > 1 and not record.head:  # another line of it may be what calls itself an error
            guess = guess_severity(line)
            severity = guess if guess is Severity.CRITICAL else min(severity, guess, key=lambda one: one.rank)
        if ends_a_program(text, severity, headed=headed, proven=proven):
            return text, number
    return None


def _last(record: LogRecord) -> str:
    return record.text.strip().rpartition("\n")[2].strip()[:_LONGEST].rstrip(".")


class Waiting:
    """Rule for logs that end with a wait."""

    name = "waiting-lines"
    doc = (
        "A log ends with a line, or two or three, that say that somebody waits, tries again or (if nothing else is "
        "known) failed, and that stand there three times or more without another one between; or some ranks say that "
        "they entered a barrier that they did not leave, and others do not. The verdict is `unknown`, with what is "
        "waited for, since when, and who is missing."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for the barrier, and one for each log."""
        snapshot = state.snapshot
        if snapshot.processes or snapshot.tasks:
            return
        yield from _barrier(snapshot)
        alone = not _else_is_known(snapshot)
        for source in snapshot.log_sources.values():
            if source.pending:
                continue
            records = newest(source, snapshot, _WAITED)
            whole = list(_again(source, records, alone))
            yield from whole
            for writer in dict.fromkeys(record.writer for record in records if record.writer and not whole):
                yield from _again(source, [one for one in records if one.writer == writer], alone)


def _again(source: LogSource, records: Sequence[LogRecord], alone: bool) -> Iterator[Finding]:
    """Yield a finding for the line, or few lines, repeated at the end of a log; a failure only if `alone`.

    A few other lines may stand between those of a wait.
    """
    said = [record.text[record.head :].partition("\n")[0].strip() for record in records]
    alike = [without_numbers(line) for line in reversed(said)]
    for size in range(1, _ROUND + 1):
        run = next((n for n, line in enumerate(alike) if line != alike[n % size]), len(alike))
        ends = range(1, min(size, len(said)) + 1)
        repeated = {n: _repeats(records[len(said) - n :: -size][: len(range(n, run + 1, size))]) for n in ends}
        waiting = [n for n in ends if repeated[n] and waits(said[-n])]
        failing = [n for n in ends if repeated[n] is not None and alone and speaks_of_failure(said[-n]) is not None]
        at = next(iter(waiting or failing), run + 1)
        count = len(range(at, run + 1, size))
        if count >= _AGAIN:
            break
    else:
        mostly = [one for one, line in zip(reversed(records), alike[:_WINDOW], strict=False) if line == alike[0]]
        if _OFTEN <= len(mostly) < len(alike) and waits(said[-1]) and _MOSTLY * len(mostly) >= min(len(alike), _WINDOW):
            yield from _again(source, mostly[::-1], alone)
        return
    steps = {n: {step_of(said[-n - size * again]) for again in range(count - 1)} for n in ends}
    if any(len(found) > 1 or (n not in waiting and None not in found) for n, found in steps.items()):
        return  # it goes on between
    first, last, what = records[-at - (count - 1) * size], records[-at], "wait" if waiting else "failure"
    since = ""
    if first.wall_ns is not None and last.wall_ns is not None and last.wall_ns > first.wall_ns:
        since = f" for {duration(last.wall_ns - first.wall_ns)}"
    proofs = (proof_of(first, source), proof_of(last, source))
    where, text = proofs[0].place, said[-at][:_TEXT].rstrip(".")
    said_of = f"The log ends with the same {what} {count:,} times{since}, the first at {where}: {text}."
    yield _finding(said_of, proofs, Severity.ERROR if waiting else Severity.WARNING)  # before what nobody understands


def _repeats(alike: Sequence[LogRecord]) -> bool | None:
    """Return whether equal lines, the last one first, are apart as those of a wait; None if no writer repeats them."""
    by_writer: dict[str, list[LogRecord]] = {}
    for record in alike:
        by_writer.setdefault(record.writer, []).append(record)
    own = max(by_writer.values(), key=len, default=[])
    if len(own) < _AGAIN:
        return None
    stamps = [record.wall_ns for record in (own[0], own[-1]) if record.wall_ns is not None]
    fine = len(stamps) > 1 and any(stamp % 1_000_000_000 for stamp in stamps)  # not of whole seconds
    return not fine or stamps[0] - stamps[1] >= _PAUSE_NS * (len(own) - 1)


def _barrier(snapshot: Snapshot) -> Iterator[Finding]:
    inside: dict[int, tuple[str, LogRecord]] = {}
    ranks: dict[int, LogRecord] = {}
    for record in snapshot.recent_logs:
        rank = rank_of(record.writer)
        rank = rank_in(record.text) if rank is None else rank
        if rank is None:
            continue
        ranks[rank] = record
        if name := enters(record.text):
            inside[rank] = (name, record)
        else:
            inside.pop(rank, None)  # it went on
    missing = sorted(set(ranks) - set(inside))
    if not inside or not missing:
        return
    name, record = inside[min(inside)]
    who, others = _ranks(sorted(inside)), _ranks(missing)
    proofs = [_proof(one, snapshot) for one in (record, *(ranks[rank] for rank in missing[:_AGAIN]))]
    last = ranks[missing[0]].text[ranks[missing[0]].head :].strip().partition("\n")[0][:_TEXT]
    yield _finding(
        f"{who} entered {name}, at {proofs[0].place}, and did not leave it; {others} did not say so: "
        f"the last line of rank {missing[0]} is: {last}.",
        proofs,
    )


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {spans(numbers)}"


def _proof(record: LogRecord, snapshot: Snapshot) -> Evidence:
    return proof_of(record, snapshot.log_sources[record.source])


def _finding(sentence: str, proofs: Iterable[Evidence], severity: Severity = Severity.WARNING) -> Finding:
    return Finding(
        rule=Waiting.name,
        severity=severity,
        sentence=f"{sentence[:1].upper()}{sentence[1:]}",
        evidence=tuple(proofs),
        next=("read the log of what is waited for",),
        state=VerdictState.UNKNOWN,
        decides=True,
    )


class SpokenFailures:
    """Rule for lines that mention a failure."""

    name = SPOKEN
    doc = (
        "No error was found in the logs, no line says that the run completed, and some speak of a failure "
        "(`failed`, `severe`, `lost`, a code that is not 0): how many, the first three of those that stand together "
        "at the end, and what stands beside them. The verdict is `unknown`. Of a big log its newest lines are searched."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield at most one finding."""
        snapshot = state.snapshot
        if snapshot.processes or snapshot.tasks or _else_is_known(snapshot):
            return
        found = list(_spoken(snapshot))
        if not found or any(completions(snapshot)):
            return
        begin = next((at for at in range(len(found) - 1, 0, -1) if not _together(found[at - 1][0], found[at][0])), 0)
        last = found[begin : begin + _SPOKEN]
        proofs = tuple(_evidence(record, line, snapshot) for record, line in last)
        source = snapshot.log_sources.get(last[0][0].source)
        shows = proofs if source is None else shown(proofs, source, last[0][0].line, snapshot)
        which = "at" if len(found) == 1 else "the first of the last ones at" if begin else "the first at"
        first = f"{which} {proofs[0].place}: {shortened(proofs[0].text, _TEXT).rstrip('. ')}"
        logs = many(len(snapshot.log_sources), "log")
        speak = "line speaks" if len(found) == 1 else "lines speak"
        yield Finding(
            rule=self.name,
            severity=Severity.INFO,
            sentence=(
                f"No known error in {logs}, but {len(found):,} {speak} of a failure, {first}. The outcome is unknown."
            ),
            evidence=shows,
            state=VerdictState.UNKNOWN,
        )


def _together(one: LogRecord, other: LogRecord) -> bool:
    """Return whether two records of a log are near each other."""
    return one.source == other.source and (other.line or 0) - (one.line or 0) <= _NEAR_LINES


def _else_is_known(snapshot: Snapshot) -> bool:
    said = any(one.severity.rank >= Severity.ERROR.rank for one in snapshot.diagnostics.values())
    return said or bool(snapshot.exceptions) or any(source.errors for source in snapshot.log_sources.values())


def _spoken(snapshot: Snapshot) -> Iterator[tuple[LogRecord, int]]:
    harmless = {said.id for said in snapshot.diagnostics.values() if HARMLESS in said.message.marks}
    ends = {record.source: record.line or 0 for record in snapshot.recent_logs}
    for record in snapshot.recent_logs:
        if record.severity is Severity.DEBUG or not harmless.isdisjoint(record.links):
            continue
        if record.severity is Severity.WARNING and ends[record.source] - (record.line or 0) > _WENT_ON:
            continue
        if (number := speaks_of_failure(record.text)) is not None:
            yield record, number


def _evidence(record: LogRecord, number: int, snapshot: Snapshot) -> Evidence:
    source = snapshot.log_sources.get(record.source)
    name = source.name if source is not None else record.source
    return Evidence.of_record(record, name, record.text.split("\n")[number].strip()[:_SPOKEN_TEXT], number)


def rules() -> Sequence[Rule]:
    return (SpokenFailures(), EndedWithError(), Waiting(), LastLines())
