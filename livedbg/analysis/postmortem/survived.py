"""Survival: whether a program went on after an error in its log, so that the error was handled or another program's.

Invariants:
    survived.V1. An error after which the same log goes on is no crash: with ordinary lines that no crash leaves behind,
        with such lines for 30 s by its own times, or, where its lines are no longer known, for 30 s or for 200 lines.
    survived.V2. Output after a crash (summaries of launchers, exit codes, further tracebacks, tables, advice, the other
        lines of a runtime that ends) is no progress, nor are a few lines of other ranks.
    survived.V7. After a launcher's account that it failed, ordinary lines are the launcher's.
    survived.V10. After a run of tests of which some failed, the lines up to a launcher's account are the launcher's,
        unless another error is between.
    survived.V3. The same holds for crashes reported by a system's own rules, if their evidence is lines of a log.
    survived.V4. A program went on, too, if the steps that its log reports rise three times after the error, if the log
        says that the run completed, or if a launcher starts the workers again. One step is enough after the results
        that a program counts itself: no runner of tests has ended.
    survived.V5. So it did if a later attempt of the same job has written a log: that one decides the job's end.
    survived.V6. An exception that a logger wrote is handled if the same code (the outermost function of its traceback)
        caught and logged three others in that log, after each of which its program went on.
    survived.V8. So is such an exception, or the end of a thread, if its server answered a request after it; health
        probes don't count.
    survived.V9. So is an exception right below a line that announces a retry, if any ordinary line follows: after an
        exception of the last attempt, none does.
    survived.V11. So is one that has come before, if the same wait follows it as came before it, and no launcher's
        account that something failed: it is tried again.
    survived.V12. So is an exception that a logger wrote, if it was raised again after it, out of as many functions (of
        more, if a logger wrote that one, too): it says more. So is one whose name is not printed below its frames, if
        a later one came from the same place.
    survived.V14. So is one after which the log begins again, with its first lines: it ended an earlier run.
    survived.V15. So is one in a test that has passed since (tested.P1): where several prove an error, if all are.
    survived.V13. So is an exception of Java that a thread of a server's pool logged: it ends no program.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.completed import completes_after
from livedbg.analysis.postmortem.ended import heads, went_well
from livedbg.analysis.postmortem.lines import KnownLine, first_after, known_lines
from livedbg.analysis.postmortem.tested import last_of_tests, passed_around, printed_of_failed
from livedbg.analysis.rules.words import duration, many
from livedbg.analysis.wording import with_more
from livedbg.logs.last_words import answers_requests, gives_up, says_caught, waits, without_numbers
from livedbg.logs.naming import older_attempts
from livedbg.logs.tracebacks import UNNAMED
from livedbg.model import FAILED_TESTS, TESTS_WENT_ON, CauseClass, Evidence, ExceptionHit, LogSource, Severity
from livedbg.model.snapshot import Snapshot

OwnLines = Callable[[str], object]
"""Finds the lines of a runtime, which it also writes while it ends: they are no progress."""

_GOES_ON_NS: Final = 30_000_000_000
_LINES: Final = 200
_FEW: Final = 20
"""So many unknown lines, over that time, are more than a traceback."""
_ORDINARY: Final = 5
"""So many ordinary lines are more than a wrapper, a launcher or an exit handler prints."""
_ORDINARY_LATER: Final = 2
"""So many are enough if they come long after the error."""
_BEFORE: Final = 3
"""So many exceptions that the same code handled: it is no last resort that ends the program."""
_RIGHT_ABOVE: Final = 2  # lines
_TWICE: Final = 2
_MANY: Final = 1_000  # exceptions, among which equal ones are not looked for
_TELLING: Final = 16  # characters of a message that are no chance
_RISES: Final = 3
"""So many times the number of a step rises where a run goes on; ranks that print the same step are no progress."""


def any_line(_line: str) -> bool:
    """Accept every line: for a program that can write nothing but its end."""
    return True


class _Spot(Struct, frozen=True):
    """The end of an error in a log.

    Attributes:
        logged: it was caught, and a logger wrote it.
        caught: the lines right above announce a retry, or mark it as expected; or it is a row of a program's own
            results, below which nothing says that any failed.
        over: its program writes nothing more: a run of tests, at its end.
    """

    source: str
    line: int
    wall_ns: int | None
    logged: bool = False
    caught: bool = False
    over: bool = False


def survived(hit: ExceptionHit, snapshot: Snapshot) -> str:
    """Return the proof that the program went on after an exception in a log, or ""."""
    if hit.survived:
        return "" if hit.survived == TESTS_WENT_ON and _fails_its_run(hit, snapshot) else hit.survived
    if hit.line is None or hit.source is None:
        return ""
    _KEPT.renew(snapshot)
    if (hit.logged and _KEPT.raised_again(hit, snapshot)) or _named_later(hit, snapshot):
        return "it was raised again after it"
    if hit.stack and hit.stack[-1].language == "java" and any(map(answers_requests, _right_above(hit, snapshot))):
        return "a thread that answers requests logged it"
    return _KEPT.after(hit, snapshot) or _KEPT.as_before(hit, snapshot) or _waits_again(hit, snapshot)


def _fails_its_run(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether a failed test is all that is known of how its run ended: it fails the run, whatever tests follow.

    Where ordinary lines come behind the last test, something else goes on, which may not have minded.
    """
    source = snapshot.log_sources.get(hit.source or "")
    if hit.catchpoint != f"log: {FAILED_TESTS}" or hit.line is None or source is None:
        return False
    lines = known_lines(source, snapshot)
    last = max(hit.line, last_of_tests(source.id, snapshot))
    behind = (line for line in lines if line.number > last and not printed_of_failed(source.id, line.number, snapshot))
    if not lines or lines[0].number > hit.line or sum(line.ordinary for line in behind) >= _ORDINARY:
        return False
    passed = (said for said in snapshot.diagnostics.values() if said.message.ends == "completes")
    return not any(said.log == hit.source and said.message.last > hit.line for said in passed)


def goes_on_after(evidence: Iterable[Evidence], snapshot: Snapshot, own_lines: OwnLines | None = None) -> str:
    """Return the proof that the program went on after an error that rests on lines of a log, or "".

    The log of the first line of evidence counts, and the last line there. `own_lines` are of the runtime that reported
    it.
    """
    evidence = tuple(evidence)
    spots = list(_spots(evidence))
    last = max((spot for spot in spots if spot.source == spots[0].source), key=lambda spot: spot.line, default=None)
    if last is None:
        return ""
    begins = [proof.line for proof in evidence if proof.log == last.source and proof.line is not None]
    return _in_passed(last.source, begins, snapshot) or _after(last, snapshot, own_lines)


def _in_passed(log: str, begins: Sequence[int], snapshot: Snapshot) -> str:
    """Return the proof that a test around the lines in which an error begins has passed (V15), or ""."""
    source = snapshot.log_sources.get(log)
    if source is None or snapshot.processes:
        return ""
    lines = known_lines(source, snapshot)
    writers = {_writer(_Spot(log, line, None), lines) for line in begins}
    test = passed_around(log, writers.pop(), begins, snapshot) if len(writers) == 1 else ""
    return f"it was in test {test}, which passed" if test else ""


def summaries(log: str, snapshot: Snapshot) -> set[int]:
    """Return the log's lines in which a launcher, a CI or a shell reports a failure, or a program aborts."""
    told = snapshot.diagnostics.values()
    ended = (said for said in told if said.cause is CauseClass.SUMMARY or "abort" in said.message.marks)
    bad = (proof for said in ended if said.severity.rank >= Severity.ERROR.rank for proof in said.evidence)
    return {proof.line for proof in bad if proof.log == log and proof.line is not None}


def unless_survived(finding: Finding, snapshot: Snapshot, own_lines: OwnLines | None = None) -> Finding:
    """Turn a crash found by a system's own rule into a warning if the program went on or ended with status 0 (V3)."""
    if finding.state is not VerdictState.CRASHED or any(proof.kind == "proc" for proof in finding.evidence):
        return finding
    went_on = goes_on_after(finding.evidence, snapshot, own_lines)
    named = [snapshot.processes[entity] for entity in finding.entities if entity in snapshot.processes]
    if not went_on and went_well(named or heads(snapshot)):
        went_on = "its process ended with status 0"
    if not went_on:
        return finding
    more = f"It was handled or survived: {went_on}"
    return with_more(finding, more, state=None, severity=Severity.WARNING, roots=(), over=True)


class _Kept:
    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._after: dict[str, str] = {}
        self._caught: Counter[tuple[object, ...]] | None = None
        self._raised: dict[tuple[object, ...], list[ExceptionHit]] | None = None
        self._errors: dict[str, list[_Spot]] | None = None

    def renew(self, snapshot: Snapshot) -> None:
        rests_on = (snapshot.exceptions, snapshot.diagnostics, snapshot.log_sources, snapshot.recent_logs)
        if len(self._of) != len(rests_on) or any(a is not b for a, b in zip(self._of, rests_on, strict=True)):
            self._of, self._after, self._caught, self._raised, self._errors = rests_on, {}, None, None, None

    def after(self, hit: ExceptionHit, snapshot: Snapshot) -> str:
        found = self._after.get(hit.id)
        if found is None:
            caught = _is_caught(hit, snapshot)
            over = hit.catchpoint == f"log: {FAILED_TESTS}"
            spot = _Spot(
                hit.source or "",
                hit.line or 0,
                hit.at_wall_ns,
                logged=hit.logged,
                caught=caught or (over and hit.logged and bool(hit.message) and not hit.related),
                over=over,
            )
            found = _in_passed(spot.source, (hit.raised_line or hit.first_line or spot.line,), snapshot)
            found = self._after[hit.id] = found or _after(spot, snapshot, None)
        return found

    def errors_after(self, spot: _Spot, snapshot: Snapshot) -> Sequence[_Spot]:
        """Return the errors below a place in its log, one a line, in order."""
        self.renew(snapshot)
        if self._errors is None:
            of: dict[str, dict[int, _Spot]] = {}
            for error in _errors(snapshot):
                of.setdefault(error.source, {})[error.line] = error
            self._errors = {log: [by_line[line] for line in sorted(by_line)] for log, by_line in of.items()}
        errors = self._errors.get(spot.source, [])
        return errors[bisect_right(errors, spot.line, key=lambda error: error.line) :]

    def as_before(self, hit: ExceptionHit, snapshot: Snapshot) -> str:
        """Return the proof that the same code has logged other exceptions, after which its program went on (V6).

        The program also survived all earlier exceptions of the same process: they were logged one after the other.
        """
        place = _caught_at(hit)
        if place is None:
            return ""
        if self._caught is None:
            self._caught = self._counted(snapshot)
        others = self._caught[place]
        if hit.writer:
            others += self._caught[*place, hit.writer, "logged"] - 1 - self._caught[*place, hit.writer]
        return "the same code caught and logged others, and went on" if others >= _BEFORE else ""

    def raised_again(self, hit: ExceptionHit, snapshot: Snapshot) -> bool:
        """Return whether the program raised an exception again that it had logged (V12)."""
        if self._raised is None:
            self._raised = {}
            for one in snapshot.exceptions.values():
                if one.line is not None:
                    self._raised.setdefault(_same_error(one), []).append(one)
        key = _same_error(hit)
        again = (one for one in self._raised.get(key, ()) if (one.line or 0) > (hit.line or 0))
        return len(str(key[-1])) >= _TELLING and any(len(one.stack) >= len(hit.stack) + one.logged for one in again)

    def _counted(self, snapshot: Snapshot) -> Counter[tuple[object, ...]]:
        counts: Counter[tuple[object, ...]] = Counter()
        for hit in snapshot.exceptions.values():
            place = _caught_at(hit)
            if place is not None:
                counts[*place, hit.writer, "logged"] += hit.count
                if self.after(hit, snapshot):
                    counts.update({place: hit.count, (*place, hit.writer): hit.count})
        return counts


_KEPT: Final = _Kept()


def _named_later(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether a traceback that ends without the name of its exception is followed by one that names it (V12)."""
    if hit.type != UNNAMED or not hit.stack:
        return False
    later = (
        one for one in snapshot.exceptions.values() if one.source == hit.source and (one.line or 0) > (hit.line or 0)
    )
    return any(one.type != UNNAMED and one.stack[:1] == hit.stack[:1] for one in later)


def _same_error(hit: ExceptionHit) -> tuple[object, ...]:
    return hit.source, hit.writer, hit.message.partition("\n")[0]


def _caught_at(hit: ExceptionHit) -> tuple[str | None, str, str | None] | None:
    """Return the log and the outermost function of a logged exception; None if no logger wrote it."""
    if not hit.logged or not hit.stack or hit.line is None:
        return None
    return hit.source, hit.stack[-1].function, hit.stack[-1].file


def is_replaced(source: LogSource, snapshot: Snapshot) -> bool:
    """Return whether a later attempt of the same job has written a log (V5)."""
    return source.attempt is not None and source.id in older_attempts(snapshot.log_sources.values())


def _spots(evidence: Iterable[Evidence]) -> Iterator[_Spot]:
    for proof in evidence:
        if proof.kind == "log" and proof.log and proof.line is not None:
            yield _Spot(proof.log, proof.line + proof.text.count("\n"), proof.at_wall_ns)  # the last one of its lines


def _after(spot: _Spot, snapshot: Snapshot, own_lines: OwnLines | None) -> str:
    source = snapshot.log_sources.get(spot.source)
    if source is None:
        return ""
    if is_replaced(source, snapshot):
        return "a later attempt of the job was started after it"
    lines = known_lines(source, snapshot)
    if spot.over:
        lines = tuple(one for one in lines if not printed_of_failed(source.id, one.number, snapshot))
    errors = _KEPT.errors_after(spot, snapshot)
    first = lines[0].number if lines else source.lines
    if first is not None and (unseen := _unseen(spot, errors, first, lines, source)):
        return unseen
    numbers = [error.line for error in errors]
    if completes_after(source.id, spot.line, snapshot, numbers):
        return "its run went on and completed"
    failed = min((line for line in summaries(source.id, snapshot) if line > spot.line), default=None)
    if spot.over and failed is not None and all(number >= failed for number in numbers):
        return ""  # it is what failed
    return _seen(spot, numbers, lines, own_lines, failed)


def _errors(snapshot: Snapshot) -> Iterator[_Spot]:
    for hit in snapshot.exceptions.values():
        if hit.source is not None and hit.line is not None and not hit.survived:
            yield _Spot(hit.source, hit.line, hit.at_wall_ns)
    for diagnostic in snapshot.diagnostics.values():
        if diagnostic.severity.rank >= Severity.ERROR.rank:
            yield from _spots(diagnostic.evidence)


def _unseen(spot: _Spot, errors: Sequence[_Spot], first: int, lines: tuple[KnownLine, ...], source: LogSource) -> str:
    """Return for how long the log goes on by unknown lines: skimmed, or too old."""
    until_ns = next((line.wall_ns for line in lines if line.wall_ns is not None), source.last_wall_ns)
    before = [spot, *(error for error in errors if error.line < first)]
    ends = [(error.line, error.wall_ns) for error in before[1:]] + [(first, until_ns)]
    for one, (line, wall_ns) in zip(before, ends, strict=True):
        after, passed_ns = line - one.line, _passed_ns(one.wall_ns, wall_ns)
        if after >= _FEW and passed_ns >= _GOES_ON_NS:
            return f"its log goes on for {duration(passed_ns)}"
        if after >= _LINES:
            return f"its log goes on for {many(after, 'line')}"
    return ""


def _seen(
    spot: _Spot,
    errors: list[int],
    lines: tuple[KnownLine, ...],
    own_lines: OwnLines | None,
    failed: int | None,
) -> str:
    """Return the proof by known lines; lines after a launcher's `failed` account are the launcher's own."""
    writer = _writer(spot, lines)
    count = later = others = rises = 0
    again = False
    step: float | None = None
    remaining = iter([*errors, None])
    following = next(remaining)
    for line in islice(lines, first_after(spot.line, lines), None):
        if line.anew:
            return "another run begins after it, in the same log"
        if line.tests and not (own_lines is not None and own_lines(line.text)):
            return TESTS_WENT_ON
        while following is not None and line.number >= following:
            count = later = others = rises = 0
            step = None
            following = next(remaining)
        again = line.restarts or (again and not gives_up(line.text))
        if spot.logged and line.serves and line.writer == writer:
            return "its server answered a request after it"
        if line.step is not None and line.writer == writer:
            rises += step is not None and line.step > step
            step = line.step
            if rises >= _RISES or (spot.over and spot.logged):
                return "the run went on with further steps"
        if own_lines is not None and own_lines(line.text):
            count = 0  # the runtime is not at its end: what others write between its lines is no progress of it
            continue
        if not line.ordinary or (failed is not None and line.number > failed):
            continue
        passed_ns = _passed_ns(spot.wall_ns, line.wall_ns)
        long_after = passed_ns >= _GOES_ON_NS
        mine = line.writer == writer
        if spot.caught and mine:
            return "it was caught, and its log goes on"
        count += mine
        others += long_after and not mine
        later += long_after and mine
        if later >= _ORDINARY_LATER or others >= _ORDINARY:
            return f"its log goes on for {duration(passed_ns)}"
        if count >= _ORDINARY:
            return "its log goes on with ordinary lines"
    return "its launcher started the workers again after it" if again else ""


def _waits_again(hit: ExceptionHit, snapshot: Snapshot) -> str:
    """Return the proof that a repeated exception stands between equal waits (V11)."""
    source, first = snapshot.log_sources.get(hit.source or ""), hit.first_line or hit.line
    if source is None or source.pending or first is None:
        return ""
    own = (hit.source, hit.writer, hit.type, hit.message)
    same = [one for one in snapshot.exceptions.values() if (one.source, one.writer, one.type, one.message) == own]
    if sum(one.count for one in same) < _TWICE or len(snapshot.exceptions) > _MANY:
        return ""
    last = max(one.line or 0 for one in same)
    lines = [line for line in known_lines(source, snapshot) if line.writer == hit.writer and line.text.strip()]
    after = next((line.text for line in lines if line.number > last), "")
    before = {without_numbers(line.text) for line in lines if line.number < first and waits(line.text)}
    again = without_numbers(after) in before and all(line <= last for line in summaries(source.id, snapshot))
    return "its program waits again, as before it" if again else ""


def _is_caught(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether a line right above an exception, or its first one, says that it is caught (V9)."""
    return any(map(says_caught, _right_above(hit, snapshot)))


def _right_above(hit: ExceptionHit, snapshot: Snapshot) -> Iterator[str]:
    """Yield the lines right above an exception, and its first one."""
    source, first = snapshot.log_sources.get(hit.source or ""), hit.first_line or hit.line
    if source is not None and first is not None:
        lines = known_lines(source, snapshot)
        near = lines[first_after(first - _RIGHT_ABOVE - 1, lines) : first_after(first, lines)]
        yield from (line.text for line in near)


def _writer(spot: _Spot, lines: Sequence[KnownLine]) -> str:
    before = first_after(spot.line, lines)
    own = (lines[at].writer for at in range(before - 1, -1, -1) if spot.line in lines[at].numbers)
    return next(own, lines[before - 1].writer if before else "")


def _passed_ns(begin_ns: int | None, end_ns: int | None) -> int:
    return end_ns - begin_ns if begin_ns is not None and end_ns is not None else 0
