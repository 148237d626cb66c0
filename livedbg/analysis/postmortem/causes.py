"""Cause ranking: of the errors in logs, which one is the cause, and which ones follow from it.

Errors are ranked by their class (`CauseClass`) and by time. An error that a log stamps two minutes before another one
comes first, whatever its class: a later one did not cause it. Among errors that are nearer to each other, the class
decides, since launchers, kernels and watchdogs report late; in the same class the time, or the order in one log.

Invariants:
    causes.C1. The order is reported as known only if it is: stamps of different logs count only if both have them and
        they don't look like those of other time zones. An order by class alone is inferred.
    causes.C2. An error becomes a note only if another one decides the verdict: a job with one error stays crashed.
    causes.C3. An error that is known to be earlier is never said to follow.
    causes.C4. An error of an older run decides nothing. A log is of an older run if it is of an older attempt
        (naming.N2), or if another log of the same name except its numbers begins a minute after its last line.
    causes.C5. A process that aborts does so itself: its earlier error, as of a watchdog, is the cause, also if others
        report the same one; so is an earlier one of its log if one of the two names no rank.
    causes.C6. Programs' own errors in logs that no rank wrote, and whose order is not known, are those of independent
        runs: the first by the name of its log is reported, then how each other one ended.
    causes.C7. An error that names nobody belongs to the rank that all accounts of its log name, if no other error there
        names nobody, and unless they say that a signal ended that rank and the error does not speak of one.
    causes.C8. If only accounts that something failed, aborts and errors of peers are known, an error right above one
        of the accounts is what failed, even if nothing else tells whether its program ended by it; so is one farther
        above an end without a reason (an abort, a traceback that is cut off), or above any of them if it may end its
        program, unless its log goes on after it; a kernel's log always does. Of a peer's error only an end without a
        reason follows so.
    causes.C9. Of stalls of three or more writers, all but one in the same place, the one that stands elsewhere leads.
    causes.C12. A failed test that stands above the first error, in its log and by its writer, leads: what ended the
        program came later, and is said behind it.
    causes.C13. Who only says that it waits leads over no failure of another writer's program or device, also if it said
        so long before: it is said to have waited then, and not to follow. An end by a signal is no such failure.
    causes.C11. If only accounts that something failed are known, the line above the first one is quoted (above a
        kernel's line, if it speaks of a failure); if only aborts without a reason are, the nearest of the few lines
        above that speaks of a failure leads. Not so if a step is reported there, or if an account says that a signal
        ended the program.
    causes.C16. An exception that a log has plain and, with the same message and frames, by a named writer is that
        writer's, once; two named writers with the same stay two.
    causes.C15. Equal waits that several writers report in one minute are one statement, without an order.
    causes.C14. Of the only error of all logs, which says that another process failed, it is said that its cause is not
        there; not where anything else in them is more than a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.beside import BELOW, COMPARED
from livedbg.analysis.postmortem.completed import completed_in
from livedbg.analysis.postmortem.exceptions import exception_of, is_bare_end, same_error
from livedbg.analysis.postmortem.lines import heading_of, lines_before, older_logs
from livedbg.analysis.postmortem.survived import any_line, goes_on_after
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.wording import brief, followers_said, runs_said, time_said, together, with_more
from livedbg.logs.error_lines import EXPLICIT
from livedbg.logs.last_words import (
    ended_by_signal,
    failed_in_another_process,
    may_end_by_signal,
    points_up,
    speaks_of_failure,
    step_of,
)
from livedbg.logs.writers import rank_of
from livedbg.model import CUT_OFF, FAILED_TESTS, CauseClass, Diagnostic, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case, sentences, split_brackets

_ENDS: Final = frozenset({VerdictState.CRASHED, VerdictState.STALLED, VerdictState.DEADLOCK})
_SLACK_NS: Final = 120_000_000_000
"""So much later a cause may be logged than what follows from it: launchers sum up, and clocks of hosts differ."""
_SAME_LOG_NS: Final = 5_000_000_000
"""The same in one log, for what is not summed up when all is over."""
_SAME_MINUTE_NS: Final = 60_000_000_000
"""So near to each other, equal waits began together: their order is that of their printing."""
_HALF_HOUR_NS: Final = 1_800_000_000_000
_ZONES_NS: Final = 55 * 60_000_000_000
"""From so far on, two logs may have the stamps of two time zones ..."""
_NEAR_NS: Final = 120_000_000_000
"""... if they differ by a multiple of half an hour, about."""
_RIGHT_ABOVE: Final = 3  # lines
_ABOVE: Final = 60
"""So many lines above an end something may stand that may end its program."""
_NO_CAUSES: Final = (CauseClass.SUMMARY, CauseClass.PEER)
_OWN: Final = (CauseClass.HOST, CauseClass.DEVICE, CauseClass.PROCESS)
_FAILS: Final = (CauseClass.DEVICE, CauseClass.PROCESS)
"""Classes of a failure that others wait for; a host ends jobs that hang, too (C13)."""
_RUN: Final = 200
"""Characters of what is said of a run beside another one."""
_SAME: Final = "the same"
_COMPARED: Final = 200
"""Errors of which each is compared with the others."""
_FEW: Final = 4
"""So many lines above an abort one is looked for that says why."""
_WORDS: Final = 3
"""A line of fewer words is not quoted."""
_ODD_AMONG: Final = 3
_STANDS_FIRST: Final = "It stands first in the log."
"""Said beside those that follow it."""
_ELSEWHERE: Final = "All others stand in another place."
_WAITED: Final = "waited before that"
_BESIDE: Final = "stands beside"
_BEFORE: Final = "came before"
_UNSEEN: Final = "Its cause is not in these logs."
_IN_ANOTHER: Final = "Its cause is in another process, and not in these logs."


class _Error(Struct, frozen=True):
    """An error in a log, as a finding reports it.

    Attributes:
        writer: see `Diagnostic.writer`.
        writers: those of all its evidence.
        line: its first line there; 0 if not known.
        late: reported after the end (`late` of a diagnostic's attributes), or by a watchdog or a launcher.
        aborts: an end without a reason (C5).
        waits: a message of somebody who waits for others, and no more.
        cut: a traceback without its end: nothing says whether it is the same error, or another one.
        cause: None for a hang without a class: neither a process's error, nor noticed by a peer only.
    """

    number: int
    finding: Finding
    cause: CauseClass | None
    writer: str
    log: str
    line: int
    last: int
    wall_ns: int | None
    late: bool
    aborts: bool = False
    waits: bool = False
    cut: bool = False
    writers: frozenset[str] = frozenset()

    @property
    def weight(self) -> float:
        return self.cause.rank if self.cause is not None else CauseClass.PROCESS.rank + 0.5

    @property
    def stream(self) -> tuple[str, str]:
        return (self.log, self.writer)


def by_cause(findings: Sequence[Finding], state: RuleInput) -> list[Finding]:
    """Turn findings that follow from another one into notes; the first one lists its followers."""
    given = _printed_once(_of_newest(findings, state.snapshot), state.snapshot)
    findings = _with_reasons(given, state.snapshot)
    errors = _errors_of(findings, state.snapshot)
    found = list(findings)
    for error in errors:
        found[error.number] = replace(error.finding, cause=error.cause, writer=error.writer)
    if len(errors) == 1 and _is_told_of_another(errors[0], given, state.snapshot):
        only = errors[0].number
        found[only] = replace(found[only], sentence=f"{found[only].sentence} {_IN_ANOTHER}")
    if len(errors) < 2 or all(error.cause is None for error in errors):
        return found
    times = _Times(errors)
    first, why = _first(errors, times, state.snapshot)
    if (test := _failed_before(first, errors, times, state.snapshot)) is not None:
        ended, then = first.finding, brief(first.finding).rstrip(".")
        found[first.number] = replace(found[first.number], state=None, severity=Severity.WARNING, roots=())
        said = sentences(found[test.number].sentence, f"Then: {then}")
        found[test.number] = replace(found[test.number], sentence=said, next=ended.next)
        errors, first = [error for error in errors if error is not first], test
    equal = _equal_waits(first, errors, times)
    why = why if len(equal) == 1 else ""
    following = _related(first, errors, equal, times, why)
    for error, word in following:
        found[error.number] = _note(found[error.number], word, first)
    chief = found[first.number]
    owner = _owner(first, errors, state.snapshot)
    apart = [error for error, word in following if word in (_WAITED, _BEFORE) or error in equal]
    errors = [error for error in errors if error not in apart]
    following = [(error, word) for error, word in following if error not in apart]
    others = [error for error in errors if error.stream != first.stream and (not owner or error.writer != owner)]
    unseen = _UNSEEN if first.cause is CauseClass.PEER else ""
    told = [(error, (error.writer, brief(error.finding))) for error, _ in following]
    same = brief(first.finding)
    said = followers_said(owner or first.writer, [one for error, one in told if not error.cut], own=same)
    beside_it = followers_said(owner or first.writer, [one for error, one in told if error.cut], does="")
    inferred = chief.inferred or (bool(others) and not why)
    reason = (why or _unknown(first, errors, following)) if others else ""
    reason = reason if said or why is not _STANDS_FIRST else ""
    severity = Severity.CRITICAL if chief.state is VerdictState.CRASHED else chief.severity
    beside = _beside(first, errors, following, snapshot=state.snapshot) if others and not why else []
    reason = "" if beside and all(run.startswith(_SAME) for _, run in beside) else reason
    named = _log_name(first, state.snapshot) if beside else sentence_case(owner)
    own = _of_all(equal, f"{named}: {chief.sentence}" if named else chief.sentence)
    sentence = " ".join(filter(None, (own, unseen, runs_said(beside), reason, said, beside_it)))
    del found[first.number]
    differs = chief.state is VerdictState.CRASHED and _compares(chief, state.snapshot)
    amounts_to = VerdictState.DIVERGED if differs else chief.state
    chief = replace(chief, writer=owner or chief.writer, state=amounts_to)
    return [replace(chief, sentence=sentence, inferred=inferred, severity=severity), *found]


def _printed_once(findings: Sequence[Finding], snapshot: Snapshot) -> Sequence[Finding]:
    """Return the findings, where an exception is printed plain and by a named writer only as that writer's (C16)."""
    errors = _errors_of(findings, snapshot)
    plain, named = [one for one in errors if not one.writer], [one for one in errors if one.writer]
    if not plain or not named or len(errors) > _COMPARED:
        return findings
    raised = {one.number: _raised(one.finding, snapshot) for one in errors}
    found: list[Finding | None] = list(findings)
    for one in plain:
        twins = (two for two in named if raised[one.number] is not None and raised[two.number] == raised[one.number])
        if (twin := next(twins, None)) is None:
            continue
        named.remove(twin)
        first, again = (one, twin) if one.line < twin.line else (twin, one)
        found[first.number] = replace(twin.finding, evidence=first.finding.evidence, writer=twin.writer)
        found[again.number] = None
    return [finding for finding in found if finding is not None]


def _raised(finding: Finding, snapshot: Snapshot) -> tuple[object, ...] | None:
    """Return what tells whether two findings are of one exception, or None of one without frames."""
    hit = exception_of(finding, snapshot)
    return (finding.rule, hit.source, hit.type, hit.message, hit.stack) if hit is not None and hit.stack else None


def _with_reasons(findings: Sequence[Finding], snapshot: Snapshot) -> Sequence[Finding]:
    """Return the findings, where all that ended the run only give account of it, with what stands above them."""
    errors = _errors_of(findings, snapshot)
    if not errors or not all(error.aborts or error.cause in _NO_CAUSES for error in errors):
        return findings
    findings = _proven(findings, errors, snapshot)
    errors = _errors_of(findings, snapshot)
    accounts = all(error.aborts or error.cause is CauseClass.SUMMARY for error in errors)
    return _with_last_words(findings, errors, snapshot) if accounts else findings


def _is_told_of_another(error: _Error, findings: Sequence[Finding], snapshot: Snapshot) -> bool:
    """Return whether an error only says that another process failed, and nothing else in the logs tells how (C14)."""
    said = error.finding.sentence
    others = [one for one in findings if one.sentence != said]
    notes = len(others) < len(findings) and all(one.severity.rank < Severity.WARNING.rank for one in others)
    alone = sum(source.errors for source in snapshot.log_sources.values()) < 2
    return notes and alone and failed_in_another_process(said)


def _proven(findings: Sequence[Finding], accounts: Sequence[_Error], snapshot: Snapshot) -> Sequence[Finding]:
    """Turn findings right above the accounts into ends, too (C8)."""
    known = {
        (said.log, proof.line): said
        for said in snapshot.diagnostics.values()
        for proof in said.evidence[:1]
        if (said.severity.rank >= Severity.ERROR.rank or said.message.ends == "perhaps")
        and not (said.resolved or said.message.over or said.message.warned)
    }

    def failed(finding: Finding) -> Diagnostic | None:
        proof = next(iter(finding.evidence), None)
        if proof is None or finding.state not in (None, VerdictState.UNKNOWN):
            return None
        said = known.get((proof.log, proof.line or 0))
        if said is None or (said.late and finding.state is None):
            return None  # the last: a launcher's account, which its rule has judged
        below = [account for account in accounts if account.log == said.log and account.line > said.message.last]
        if said.cause not in _OWN:  # who lost a peer says more than who gives no reason
            below = [account for account in below if account.aborts and said.cause is CauseClass.PEER]
        severe = said.severity.rank >= Severity.ERROR.rank
        tell = [one.line - said.message.last for one in below if one.cause is CauseClass.SUMMARY]
        bare = severe and any(one.line - said.message.last < _ABOVE for one in below if one.aborts)
        near = severe and min(tell, default=_ABOVE) <= _RIGHT_ABOVE
        may_end = said.message.ends == "perhaps" and any(one.line - said.message.last < _ABOVE for one in below)
        own = any_line if "final" in said.message.marks else None
        return said if near or ((bare or may_end) and not goes_on_after(finding.evidence, snapshot, own)) else None

    return [
        replace(finding, state=VerdictState.CRASHED, severity=Severity.ERROR, cause=said.cause)
        if (said := failed(finding)) is not None
        else finding
        for finding in findings
    ]


def _compares(finding: Finding, snapshot: Snapshot) -> bool:
    """Return whether a finding rests on a comparison of results that failed."""
    place = (finding.evidence[0].log, finding.evidence[0].line) if finding.evidence else None
    compared = (said for said in snapshot.diagnostics.values() if COMPARED in said.message.marks)
    return any((proof.log, proof.line) == place for said in compared for proof in said.evidence[:1])


def _with_last_words(findings: Sequence[Finding], accounts: Sequence[_Error], snapshot: Snapshot) -> Sequence[Finding]:
    """Say with the first account the line above it, which may say why (C11)."""
    first = min(accounts, key=lambda account: account.line)
    if not first.line or len({account.log for account in accounts}) > 1:
        return findings
    if any(_by_signal(account) for account in accounts):
        return findings
    aborts, found = any(one.aborts for one in accounts), list(findings)
    heading = heading_of(first.log, first.line, snapshot)
    ended = _case_ended(first, snapshot)
    most = _FEW if aborts else 1
    near = [heading] if heading else lines_before(first.log, first.line, first.writer, snapshot, most, after=ended)
    leads = aborts or (points_up(first.finding.claim) and (heading or any(map(_tells, near[:1]))))
    steps = (number for number, text in enumerate(near) if step_of(text) is not None)
    near = [text for text in near[: next(steps, len(near))] if len(text.split()) >= _WORDS]
    kernel = any(
        said.log == first.log and "final" in said.message.marks and any(at.line == first.line for at in said.evidence)
        for said in snapshot.diagnostics.values()
    )
    text = next((text for text in near if _tells(text) or not (aborts or kernel)), "")[:_RUN]
    if text and leads:
        found[first.number] = replace(first.finding, sentence=sentences(text, first.finding.sentence))
    elif text:
        found[first.number] = with_more(first.finding, f"The line before that is: {text}")
    return found


def _case_ended(error: _Error, snapshot: Snapshot) -> int:
    """Return the last line above an error that ends a case: what stands above that is of another one (beside.B3)."""
    ends = (
        said.message.last
        for said in snapshot.diagnostics.values()
        if said.log == error.log and BELOW in said.message.marks and said.message.last < error.line
    )
    return max(ends, default=0)


def _tells(text: str) -> bool:
    return speaks_of_failure(text) is not None or EXPLICIT.search(text) is not None


def _owner(first: _Error, errors: Sequence[_Error], snapshot: Snapshot) -> str:
    """Return the rank of the first error from the accounts of its log, if it names nobody (C7); "" if not known."""
    others = [error for error in errors if error.log == first.log and error is not first]
    accounts = [error for error in others if error.writer and (error.cause is CauseClass.SUMMARY or error.aborts)]
    nameless = [error for error in others if not error.writer and error.cause is not CauseClass.SUMMARY]
    told = [one for one in snapshot.diagnostics.values() if one.severity.rank >= Severity.ERROR.rank]
    owners = {one.writer for one in told if one.log == first.log} | {error.writer for error in others}
    owners.discard("")
    if first.writer or nameless or not accounts or len(owners) != 1 or rank_of(accounts[0].writer) is None:
        return ""
    by_signal = any(_by_signal(error) for error in accounts)
    return "" if by_signal and not may_end_by_signal(first.finding.sentence) else accounts[0].writer


def _of_newest(findings: Sequence[Finding], snapshot: Snapshot) -> Sequence[Finding]:
    """Turn findings of an end in the log of an older run into notes."""
    older = older_logs(snapshot)
    if not older:
        return findings
    return [_older(finding, older) for finding in findings]


def _older(finding: Finding, older: Mapping[str, str]) -> Finding:
    log = finding.evidence[0].log if finding.evidence else ""
    if finding.state not in _ENDS or log not in older:
        return finding
    sentence = sentences(f"An older run ended with {brief(finding)} ({older[log]})")
    return replace(finding, state=None, severity=Severity.WARNING, roots=(), sentence=sentence)


def _errors_of(findings: Sequence[Finding], snapshot: Snapshot) -> list[_Error]:
    said: dict[tuple[str, str], Diagnostic] = {}
    for diagnostic in snapshot.diagnostics.values():
        for shown in diagnostic.evidence[:1]:
            other = said.get((shown.log, shown.place))
            if other is None or other.severity.rank <= diagnostic.severity.rank:
                said[shown.log, shown.place] = diagnostic
    spans = {
        (hit.source, hit.raised_line): (hit.first_line or hit.raised_line or 0, hit.line or 0)
        for hit in snapshot.exceptions.values()
        if hit.source is not None
    }
    hits = [(hit, (hit.source, hit.raised_line or hit.line)) for hit in snapshot.exceptions.values()]
    tests = {place for hit, place in hits if hit.catchpoint == f"log: {FAILED_TESTS}" and hit.message}
    aborts = {place for hit, place in hits if is_bare_end(hit)} - tests  # it has its reasons itself
    cuts = {place for hit, place in hits if hit.message == CUT_OFF}
    found = []
    for number, finding in enumerate(findings):
        proof = finding.evidence[0] if finding.evidence else None
        if finding.state not in _ENDS or proof is None or proof.kind != "log" or not proof.log:
            continue
        about = said.get((proof.log, proof.place))
        cause = finding.cause or (about.cause if about is not None else None)
        if cause is None and finding.state is VerdictState.CRASHED:
            cause = CauseClass.PROCESS
        writer = finding.writer or (about.writer if about is not None else "")
        late = about is not None and about.late
        line = proof.line or 0
        first, last = spans.get((proof.log, line), (line, line))
        when = proof.at_wall_ns if proof.at_wall_ns is not None else finding.since_wall_ns
        late = late or cause in (CauseClass.PEER, CauseClass.SUMMARY)
        aborted = (proof.log, line) in aborts or (about is not None and "abort" in about.message.marks)
        others = (said.get((one.log, one.place)) for one in finding.evidence if one.log == proof.log)
        writers = frozenset((writer, *(one.writer for one in others if one is not None)))
        last = max(last, line)
        cut = (proof.log, line) in cuts
        waits = cause is CauseClass.PEER and about is not None and about.message.ends == "waits"
        found.append(
            _Error(number, finding, cause, writer, proof.log, first, last, when, late, aborted, waits, cut, writers)
        )
    return found


class _Times:
    def __init__(self, errors: Iterable[_Error]) -> None:
        begins: dict[str, int] = {}
        for error in errors:
            if error.wall_ns is not None:
                begins[error.log] = min(error.wall_ns, begins.get(error.log, error.wall_ns))
        ordered = sorted(begins.values())
        self.zones = any(_zones_apart(one - ordered[0]) for one in ordered)

    def gap_ns(self, one: _Error, other: _Error) -> int | None:
        """Return how long after `one` the other came; negative: before; None without comparable stamps."""
        if one.wall_ns is None or other.wall_ns is None or (one.log != other.log and self.zones):
            return None
        return other.wall_ns - one.wall_ns

    def clearly_after(self, one: _Error, other: _Error) -> bool:
        """Return whether `other` came too long after `one` to be its cause."""
        gap_ns = self.gap_ns(one, other)
        slack_ns = _SAME_LOG_NS if one.log == other.log and not other.late else _SLACK_NS
        return gap_ns is not None and gap_ns > slack_ns

    def after(self, one: _Error, other: _Error) -> bool | None:
        gap_ns = self.gap_ns(one, other)
        if one.log == other.log and one.line and other.line and one.line != other.line:
            if gap_ns is not None and abs(gap_ns) > _SLACK_NS and not _zones_apart(abs(gap_ns)):
                return gap_ns > 0  # writers of one log may write out of order
            return other.line > one.line
        return gap_ns > 0 if gap_ns else None


def _zones_apart(gap_ns: int) -> bool:
    rest_ns = gap_ns % _HALF_HOUR_NS
    return gap_ns >= _ZONES_NS and min(rest_ns, _HALF_HOUR_NS - rest_ns) <= _NEAR_NS


def _first(errors: Sequence[_Error], times: _Times, snapshot: Snapshot) -> tuple[_Error, str]:
    """Return the cause, and the proof that it came first; "" if only the class, or the order of reading, says so."""
    failed = [error for error in errors if error.cause in _FAILS and not error.aborts and not _by_signal(error)]
    errors = [
        one
        for one in errors
        if not (one.waits and any(one.stream != other.stream and times.clearly_after(one, other) for other in failed))
    ]
    early = [error for error in errors if not any(times.clearly_after(other, error) for other in errors)]
    early = [error for error in early if not _is_explained(error, errors, times)] or early
    best = min(error.weight for error in early)
    alike = [error for error in early if error.weight == best]
    if (odd := _odd_one(alike)) is not None:
        return odd, _ELSEWHERE
    if not any(error.writer or error.cause is not CauseClass.PROCESS for error in alike):
        alike.sort(key=lambda error: _log_name(error, snapshot))
        named_first = alike[0]
        alike.sort(key=lambda error: -_shows(error, named_first, snapshot))
    first = alike[0]
    named = {one.writer for one in snapshot.diagnostics.values() if one.cause is CauseClass.SUMMARY and one.writer}
    for error in alike[1:]:
        before = times.after(error, first)
        if before or (before is None and error.writer in named and first.writer not in named):
            first = error
    rivals = [error for error in errors if error.stream != first.stream and not _same(first, error)]
    gaps = [times.gap_ns(first, error) for error in rivals]
    if gaps and all(gap_ns is not None and gap_ns > 0 for gap_ns in gaps):
        return first, time_said(min(gap_ns for gap_ns in gaps if gap_ns is not None))
    if rivals and all(times.after(first, error) for error in rivals):
        return first, _STANDS_FIRST
    return first, ""


def _by_signal(error: _Error) -> bool:
    return bool(ended_by_signal(brief(error.finding)))


def _failed_before(first: _Error, errors: Iterable[_Error], times: _Times, snapshot: Snapshot) -> _Error | None:
    """Return the failed test above an error, by its writer (C12), or None."""
    failed = {
        (hit.source, hit.raised_line or hit.line)
        for hit in snapshot.exceptions.values()
        if hit.catchpoint == f"log: {FAILED_TESTS}"
    }
    tests = (
        one
        for one in errors
        if one.stream == first.stream and one.finding.evidence and (one.log, one.finding.evidence[0].line) in failed
    )
    return next((one for one in tests if one is not first and times.after(one, first)), None)


def _odd_one(stalls: Sequence[_Error]) -> _Error | None:
    """Return the one stall in another place than all others (C9)."""
    if len(stalls) < _ODD_AMONG or any(one.finding.state is not VerdictState.STALLED for one in stalls):
        return None
    places = Counter(one.finding.claim or one.finding.sentence for one in stalls)
    alone = [one for one in stalls if places[one.finding.claim or one.finding.sentence] == 1]
    writers = {one.writer for one in stalls if one.writer}
    return alone[0] if len(alone) == 1 and len(places) == 2 and len(writers) == len(stalls) else None


def _equal_waits(first: _Error, errors: Sequence[_Error], times: _Times) -> list[_Error]:
    """Return the first error, and behind it the equal waits of other writers whose order tells nothing (C15)."""
    if not (first.waits and first.writer):
        return [first]
    said = first.finding.claim
    alike = [one for one in errors if one.waits and one.writer and one.finding.claim == said and one is not first]
    near = [one for one in alike if (gap := times.gap_ns(first, one)) is not None and abs(gap) <= _SAME_MINUTE_NS]
    return [first, *near]


def _of_all(equal: Sequence[_Error], sentence: str) -> str:
    named = f"{together([one.writer for one in equal])}: {equal[0].finding.claim}"
    return sentences(named) if len(equal) > 1 else sentence


def _shows(error: _Error, first: _Error, snapshot: Snapshot) -> int:
    """Return how many frames a log shows of the same error as the first one's (C6); those of another are no matter."""
    hit, own = exception_of(error.finding, snapshot), exception_of(first.finding, snapshot)
    return len(hit.stack) if hit is not None and own is not None and same_error(hit, own) else 0


def _log_name(error: _Error, snapshot: Snapshot) -> str:
    return snapshot.log_sources[error.log].name if error.log in snapshot.log_sources else ""


def _beside(
    first: _Error, errors: Sequence[_Error], following: Sequence[tuple[_Error, str]], *, snapshot: Snapshot
) -> list[tuple[str, str]]:
    """Return by log how independent runs ended (C6)."""
    followers = [one for one, _ in following]
    equals = [error for error in errors if error.log != first.log and error not in followers]
    own = not any(error.writer or error.cause is not CauseClass.PROCESS for error in (first, *equals))
    if not equals or not own:
        return []
    ended = {error.log: _said_beside(error.finding, first.finding, snapshot) for error in reversed(equals)}
    for source in snapshot.log_sources.values():
        if source.id != first.log and source.id not in ended and (last := completed_in(source, snapshot)):
            ended[source.id] = f"{last[-1].sentence[:1].lower()}{last[-1].sentence[1:]}"
    return sorted((snapshot.log_sources[log].name, said) for log, said in ended.items())


def _said_beside(finding: Finding, first: Finding, snapshot: Snapshot) -> str:
    """Return how another run ended; of the same failure only its place, `the same (libvalve.so)`."""
    hit, own = exception_of(finding, snapshot), exception_of(first, snapshot)
    if hit is not None and own is not None and same_error(hit, own):
        return _SAME
    (said, place), (other, _) = split_brackets(finding.claim), split_brackets(first.claim)
    alike = said == other != first.claim
    return f"{_SAME}{place}" if alike or finding.sentence == first.sentence else brief(finding, _RUN)


def _is_explained(abort: _Error, errors: Sequence[_Error], times: _Times) -> bool:
    others = (
        one for one in errors if one.log == abort.log and one is not abort and one.cause is not CauseClass.SUMMARY
    )
    own = (one for one in others if abort.writer in one.writers or not (_is_named(abort) and _is_named(one)))
    return abort.aborts and any(times.after(one, abort) for one in own)


def _is_named(error: _Error) -> bool:
    return any(rank_of(writer) is not None for writer in error.writers)


def _unknown(first: _Error, errors: Sequence[_Error], following: Sequence[tuple[_Error, str]]) -> str:
    equals = [error for error in errors if error is not first and error not in [one for one, _ in following]]
    if any(error.cause is first.cause and error.stream != first.stream for error in equals):
        return "Which of these errors came first is not known: their lines have no times that can be compared."
    return "That it came first is inferred from the kind of error."


def _related(
    first: _Error, errors: Sequence[_Error], equal: Sequence[_Error], times: _Times, why: str
) -> list[tuple[_Error, str]]:
    related = ((error, _BESIDE if error in equal[1:] else _relation(first, error, times, why)) for error in errors)
    return [(error, word) for error, word in related if word]


def _relation(first: _Error, error: _Error, times: _Times, why: str) -> str:
    if error is first or error.cause is None or _same(first, error):
        return ""
    if why is _ELSEWHERE and error.finding.state is VerdictState.STALLED:
        return _BESIDE
    after = times.after(first, error)
    if error.weight > max(first.weight, CauseClass.PROCESS.rank):
        early, gap_ns = times.clearly_after(error, first), times.gap_ns(first, error)
        if first.waits and error.log != first.log and gap_ns is not None and gap_ns < 0:
            return _BEFORE  # C3: who waits says so long after it began
        known = error.log == first.log or gap_ns is not None or error.writer or first.writer
        return ("follows from" if known else "may follow from") if not early else _WAITED if error.waits else ""
    if not after:
        return ""
    within = error.stream == first.stream and first.cause is CauseClass.DEVICE
    return "follows from" if within else "came after"


def _same(one: _Error, other: _Error) -> bool:
    return one.log == other.log and (one.line <= other.line <= one.last or other.line <= one.line <= other.last)


def _note(finding: Finding, word: str, first: _Error) -> Finding:
    said = brief(first.finding)
    named = first.writer == finding.writer or said.lower().startswith(first.writer)
    more = f"It {word}: {said}" if named else f"It {word}: {first.writer}: {said}"
    return with_more(finding, more, state=None, severity=Severity.WARNING, roots=())
