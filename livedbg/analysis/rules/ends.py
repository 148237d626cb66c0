"""Hangs that somebody ended, programs ended by Ctrl-C, and completed runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.completed import completed_in, completions, is_bare, line_of, not_completed
from livedbg.analysis.postmortem.ended import hang_before, heads, how_ended, is_interrupt, lives, was_hung
from livedbg.analysis.postmortem.lines import known_lines, older_logs
from livedbg.analysis.postmortem.survived import goes_on_after, survived
from livedbg.analysis.postmortem.tested import tests_open
from livedbg.analysis.postmortem.unexplained import errors_at
from livedbg.analysis.rules.base import INTERRUPTED, Rule, RuleInput
from livedbg.analysis.rules.words import many, name_of
from livedbg.logs.last_words import waits
from livedbg.logs.sanitizers import WARNED
from livedbg.model import CauseClass, Evidence, ExceptionHit, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.quantities import duration
from livedbg.text.wording import listing, sentence_case, sentences

_SHOWN: Final = 2
_ABOVE: Final = 6
"""So many lines above an interrupt may say what was waited for."""
_SILENT_NS: Final = 60_000_000_000
_LINE: Final = 120


class EndedHang:
    """Rule for a hang that somebody ended."""

    name = "ended-hang"
    doc = (
        "The job hung (a deadlock or a stall was found), and then it was ended by SIGINT, SIGTERM, SIGHUP, SIGQUIT or "
        "SIGKILL: it stays a hang. A job that ends by itself after a hang (a watchdog that aborts it, an exception) is "
        "judged by that end, and the hang is reported beside it; one that ends with status 0 did not hang."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield at most one finding."""
        snapshot = state.snapshot
        hang, job = hang_before(snapshot), heads(snapshot)
        if hang is None or not job or not all(process.exited for process in job):
            return
        first = next((process for process in job if process.exit_status != 0), None)
        if first is None:
            return
        stays = was_hung(snapshot)
        end = f"{sentence_case(name_of(first.id, snapshot))} ended {how_ended(first.exit_status)}"
        yield Finding(
            rule=self.name,
            severity=Severity.CRITICAL if stays else Severity.WARNING,
            sentence=f"{hang.sentence} {end}." if stays else f"Before it ended: {hang.sentence}",
            entities=hang.entities,
            evidence=(Evidence(kind="proc", source=f"wait status of {first.pid}", text=end),),
            next=("livedbg record PID -o FILE   keeps the state of the next one",),
            since_wall_ns=hang.at_wall_ns,
            state=stays,
            roots=hang.entities if stays else (),
        )


class Interrupted:
    """Rule for a program that its user ended by Ctrl-C."""

    name = INTERRUPTED
    doc = (
        "A log shows a KeyboardInterrupt: the user ended the program. That is no crash. Where nothing shows that it "
        "hung before, the verdict is `unknown`; the stack of the exception says where it was, and the lines above it "
        "what was waited for, and for how long nothing was logged."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        for hit in snapshot.exceptions.values():
            if not (hit.catchpoint or "").startswith("log") or not is_interrupt(hit):
                continue
            frame = next((frame for frame in hit.stack if frame.file and not frame.file.startswith("<")), None)
            where = f" in {frame.function} ({(frame.file or '').rpartition('/')[2]}:{frame.line})" if frame else ""
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=f"Interrupted by Ctrl-C{where}{_waited(hit, snapshot)}: whether it hung is not known.",
                entities=tuple(entity for entity in (hit.process, hit.thread) if entity),
                evidence=(
                    Evidence(kind="log", source=hit.catchpoint or "log", text=hit.type, at_wall_ns=hit.at_wall_ns),
                ),
                since_wall_ns=hit.at_wall_ns,
                state=None if lives(snapshot) else VerdictState.UNKNOWN,
            )


def _waited(hit: ExceptionHit, snapshot: Snapshot) -> str:
    """Return `, after it logged "waiting for rank 3"`, and how long the log was silent before the interrupt, or ""."""
    source, begins = snapshot.log_sources.get(hit.source or ""), hit.first_line or hit.line or 0
    lines = known_lines(source, snapshot) if source is not None else ()
    above = [line for line in lines if line.number < begins and line.text.strip()][-_ABOVE:]
    stamps = [line.wall_ns for line in above if line.wall_ns is not None]
    silent = max((after - before for before, after in pairwise(stamps)), default=0)
    last = next((line for line in reversed(above) if waits(line.text) or line.step is not None), None)
    if last is None or last.step is not None:
        return ""
    long = f" and nothing for {duration(silent)}" if silent >= _SILENT_NS else ""
    return f', after it logged "{last.text.strip()[:_LINE].rstrip(".")}"{long}'


class RunCompleted:
    """Rule for a run that reports its completion."""

    name = "run-completed"
    doc = (
        "The logs end with a line that says that the run has reached its end (a trainer's, the summary of tests that "
        "all passed, a launcher's or a CI's account, exit code 0), and nothing follows but what is printed at an end: "
        "`exited`. Where only some of the logs or ranks say so, the verdict is `unknown`, with those that don't. An "
        "error that nothing explains counts more, if it comes after that line."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield at most one finding."""
        snapshot = state.snapshot
        told = list(completions(snapshot))
        if not told or snapshot.processes or snapshot.tasks:
            return
        older = older_logs(snapshot)
        sources = [one for one in snapshot.log_sources.values() if one.size != 0 and one.id not in older]
        if any(source.pending for source in sources):
            return
        missing = not_completed(sources, snapshot)
        last = [said for source in sources for said in completed_in(source, snapshot)]
        said = max(last or told, key=lambda one: (not is_bare(one), line_of(one), one.cause is CauseClass.SUMMARY))
        if missing is None:
            logs = many(len(sources), "log")
            more = "" if _else_ended(snapshot) else f"; no error is known to have ended it, in {logs}"
        else:
            who = f"{listing(missing[:_SHOWN])} did" if missing else "its log goes on, or another one does"
            more = f"; {who} not say so"
        opened = tests_open(snapshot) if missing is not None else ""
        yield Finding(
            rule=self.name,
            severity=Severity.INFO,
            sentence=sentences(opened, f"{said.sentence}, at {said.evidence[-1].place}{more}"),
            claim=said.sentence,
            evidence=tuple(reversed(said.evidence)),
            since_wall_ns=said.evidence[-1].at_wall_ns,
            state=VerdictState.EXITED if missing is None else VerdictState.UNKNOWN,
        )


def _else_ended(snapshot: Snapshot) -> bool:
    """Return whether an error is known that nothing survived: another finding is about that."""
    told = (said for said in snapshot.diagnostics.values() if said.evidence)
    known = errors_at(snapshot)
    errors = (said for said in told if (said.log, said.evidence[0].line) in known)
    return any(not goes_on_after(said.evidence, snapshot) for said in errors) or any(
        (hit.catchpoint or "").startswith("log") and hit.catchpoint != f"log: {WARNED}" and not survived(hit, snapshot)
        for hit in snapshot.exceptions.values()
    )


def rules() -> Sequence[Rule]:
    return (EndedHang(), Interrupted(), RunCompleted())
