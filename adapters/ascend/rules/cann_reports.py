"""What CANN, torch_npu, HCCL or MindSpore report as failed: the first cause, and what only follows from it.

Invariants:
    cann_rule.C1. The report of a process that is not the target's decides nothing; nor does one while a target lives.
    cann_rule.C2. Warnings that only carry a code (torch_npu prints them while it ends) are no crash.
    cann_rule.C3. Ranks that waited for others are no cause where a rank reports a failure of its own
        (livedbg.analysis.postmortem.causes makes them notes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.ascend.cann_reports.report import CODE, Kind, is_npu
from livedbg.adapters.ascend.lines import OWN_LINES
from livedbg.adapters.ascend.rules.cann_words import details_of, headline_of, kind_of, steps_of, who_of
from livedbg.adapters.ascend.rules.sentences import jobs
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.survived import unless_survived
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import many, name_of
from livedbg.model import Diagnostic, ExceptionHit, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

__all__ = ["CannReports"]

_FOLLOWERS: Final = 4
_NAMED: Final = 8
_RANKS: Final = {kind: rank for rank, kind in enumerate(Kind)}


class CannReports:
    """A failure on an NPU, as its software reports it."""

    name = "ascend-report"
    doc = (
        "A log holds a report of CANN, torch_npu, HCCL or MindSpore: a kernel that failed on a core, out of memory, an "
        "operator that was refused, a collective operation that ran out of time, a device that could not be opened. "
        "Of several processes the one with a failure of its own comes first; ranks that only waited follow from it. "
        "A crash if no target lives and the log does not go on after it. A code alone in a warning is `unknown`, the "
        "report of a process outside the target is a note. In the log of a `simpler` run, the run's own rules judge."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """What is most likely the cause, then one finding for each other kind."""
        snapshot = state.snapshot
        reports = [said for said in snapshot.diagnostics.values() if said.system == "ascend" and said.code == CODE]
        told = [report for report in reports if kind_of(report) is not Kind.EXIT] or reports
        judged = sorted(((self._judged(report, snapshot), report) for report in told), key=lambda one: _order(*one))
        if not judged:
            return
        finding, cause = judged[0]
        yield self._main(finding, cause, judged[1:])
        yield from self._following(cause, judged[1:])

    def _judged(self, report: Diagnostic, snapshot: Snapshot) -> Finding:
        hit = _exception(report, snapshot)
        place = _place(hit)
        finding = Finding(
            rule=self.name,
            severity=Severity.CRITICAL,
            sentence=f"{headline_of(report)}.{details_of(report)}{f' Raised at {place}.' if place else ''}",
            entities=report.entities,
            evidence=report.evidence,
            next=steps_of(report),
            since_wall_ns=report.at_wall_ns,
            state=VerdictState.CRASHED,
        )
        return _weighed(finding, report, snapshot, hit)

    def _main(self, finding: Finding, cause: Diagnostic, rest: Sequence[tuple[Finding, Diagnostic]]) -> Finding:
        words = ""
        same = [
            report
            for other, report in rest
            if kind_of(report) is kind_of(cause) and other.state is finding.state and not _same_process(report, cause)
        ]
        if same:
            verb = "report" if len(same) > 1 else "reports"
            words = f" {many(len(same), 'other process', 'other processes')} {verb} the like{_names(same)}."
        if kind_of(cause) is Kind.COLLECTIVE:
            words += _missing([cause, *same])
        return replace(finding, sentence=finding.sentence + words)

    def _following(self, cause: Diagnostic, rest: Sequence[tuple[Finding, Diagnostic]]) -> Iterator[Finding]:
        by_kind: dict[tuple[Kind, bool], list[tuple[Finding, Diagnostic]]] = {}
        for finding, report in rest:
            if kind_of(report) is not kind_of(cause) or finding.state is None:
                by_kind.setdefault((kind_of(report), finding.state is None), []).append((finding, report))
        for told in list(by_kind.values())[:_FOLLOWERS]:
            finding, _ = told[0]
            others = [report for _, report in told[1:]] if finding.state is not None else []
            more = f" {many(len(others), 'more process', 'more processes')} like it{_names(others)}." if others else ""
            yield replace(finding, sentence=finding.sentence + more)


def _same_process(one: Diagnostic, other: Diagnostic) -> bool:
    """Whether two reports are of one process, whose lines come by two ways."""
    pids = [report.attributes.get("pid", "") for report in (one, other)]
    return (pids[0] == pids[1] != "") or who_of(one) == who_of(other) != ""


def _order(finding: Finding, report: Diagnostic) -> tuple[int, int, int, int]:
    state = {VerdictState.CRASHED: 0, VerdictState.UNKNOWN: 1}.get(finding.state or VerdictState.EXITED, 2)
    return state, _RANKS[kind_of(report)], report.at_wall_ns or 0, int(report.attributes.get("order", "0"))


def _weighed(finding: Finding, report: Diagnostic, snapshot: Snapshot, hit: ExceptionHit | None) -> Finding:
    """The finding with the state that it may have (C1, C2)."""
    targets = [process for process in snapshot.processes.values() if process.target]
    pid = report.attributes.get("pid", "")
    own = report.attributes.get("process", "")
    if targets and pid and not own and all(str(process.pid) != pid for process in targets):
        return _note(finding, "It is no process of the target.")
    alive = next((process for process in targets if not process.exited and own in ("", process.id)), None)
    if alive is not None:
        said = f"{sentence_case(name_of(alive.id, snapshot))} still lives."
        return _note(finding, said, VerdictState.UNKNOWN)
    if any(job.first("cann-code") or job.first("fatal") or job.first("timeout-exit") for job in jobs(snapshot)):
        return _note(finding, "The run's own log tells more.")
    kind = kind_of(report)
    if report.attributes.get("raised") != "yes" and kind in (
        Kind.MASKED,
        Kind.TIMEOUT,
        Kind.OTHER,
        Kind.MEMORY,
        Kind.EXIT,
    ):
        return _note(finding, "It is a warning only; whether it ended the process is not known.", VerdictState.UNKNOWN)
    if kind is Kind.LOGGED and hit is None:
        return _note(finding, "Whether it ended the process is not known.", VerdictState.UNKNOWN)
    if kind is Kind.MASKED:
        finding = replace(finding, sentence=f"{finding.sentence} That masks the cause, which these logs do not hold.")
    return unless_survived(finding, snapshot, OWN_LINES.search)


def _note(finding: Finding, why: str, state: VerdictState | None = None) -> Finding:
    return replace(
        finding,
        severity=Severity.WARNING,
        sentence=f"{finding.sentence} {why}",
        state=state,
        decides=state is VerdictState.UNKNOWN,
    )


def _names(reports: Sequence[Diagnostic]) -> str:
    names = list(dict.fromkeys(filter(None, map(who_of, reports))))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" ({', '.join(names[:_NAMED])}{more})" if names else ""


def _missing(reports: Sequence[Diagnostic]) -> str:
    """Which ranks of the group that waited have reported nothing."""
    fields = [report.attributes for report in reports if "member" in report.attributes and "size" in report.attributes]
    groups = {one.get("group", "") for one in fields}
    if len(groups) != 1 or not fields:
        return ""
    size, told = int(fields[0]["size"]), {int(one["member"]) for one in fields}
    missing = [rank for rank in range(min(size, 100_000)) if rank not in told]
    if not missing or len(missing) > len(told) or len(missing) > _NAMED:
        return ""
    named = ", ".join(map(str, missing))
    one = len(missing) == 1
    who = f"Rank {named} of that group has" if one else f"Ranks {named} of that group have"
    return f" {who} reported nothing here: look there first."


def _exception(report: Diagnostic, snapshot: Snapshot) -> ExceptionHit | None:
    """The exception that a report ended as: of the same log, with words of the NPU's software."""
    source = report.attributes.get("source")
    for hit in snapshot.exceptions.values():
        if hit.source == source and hit.stack and is_npu(hit):
            return hit
    return None


def _place(hit: ExceptionHit | None) -> str:
    """The innermost line of Python that is in no library: `step (train.py:14)`."""
    frames = [frame for frame in hit.stack if frame.file and frame.line] if hit is not None else []
    own = [
        frame for frame in frames if "-packages/" not in (frame.file or "") and "/lib/python" not in (frame.file or "")
    ]
    first = next(iter(own or frames), None)
    return f"{first.function} ({(first.file or '').rpartition('/')[2]}:{first.line})" if first is not None else ""
