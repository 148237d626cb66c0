"""The report as Markdown, for bug reports: foreign text can't become markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from livedbg.analysis.place_names import place_text
from livedbg.report.document import FrameOut, ReportDocument
from livedbg.report.stacks import group_lines
from livedbg.report.text import label, wait_tree
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import many

_SPECIAL: Final = lazy_re(r"([\\`*_{}\[\]<>#|~!&@])")
_STACKS: Final = 12


def to_markdown(report: ReportDocument) -> str:
    """Return the report for an issue tracker."""
    return "\n".join(_lines(report)) + "\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ")


def _code(text: str) -> str:
    """Return an inline code span that no backtick in the text can end."""
    ticks = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}".replace("\n", " ")


def _lines(report: ReportDocument) -> Iterator[str]:
    verdict = report.verdict
    yield f"# livedbg: {verdict.state.upper()}"
    yield ""
    yield _escaped(verdict.sentence)
    yield ""
    if verdict.since:
        yield f"- since: {verdict.since}"
    if report.taken_at:
        yield f"- taken: {report.taken_at}"
    for target in report.targets:
        yield f"- target: {_code(f'{target.host}:{target.pid}')} {_code(' '.join(target.command) or '?')}"
    yield f"- target paused for {report.intrusions.paused_ms:.1f} ms"
    if gone := report.omitted.get("processes", 0):
        yield f"- {many(gone, 'process')} that exited earlier {'is' if gone == 1 else 'are'} not listed"
    yield from _tree(report)
    if report.findings:
        yield from ("", "## Findings")
    for finding in report.findings:
        inferred = ", inferred" if finding.inferred else ""
        yield from ("", f"### {finding.id} {_code(finding.rule)} ({finding.severity}{inferred})", "")
        yield _escaped(finding.sentence)
        yield from [""] * bool(finding.evidence)
        for proof in finding.evidence:
            yield f"- {_escaped(proof.source)}: {_code(proof.text)}{f' at {proof.at}' if proof.at else ''}"
        if finding.next:
            yield from ("", "Next:", "", *[f"- {_escaped(step)}" for step in finding.next])
    yield from _stacks(report)
    limits = [limit for limit in report.limits if limit.sentence and limit.health != "ended"]
    if limits:
        yield from ("", "## Could not be seen", "")
        for limit in limits:
            yield f"- {_escaped(limit.sentence)}{f' ({_escaped(limit.remedy)})' if limit.remedy else ''}"


def _tree(report: ReportDocument) -> Iterator[str]:
    rows = wait_tree(report)
    if rows:
        yield from ("", "## Who waits for whom", "")
    for row in rows:
        text = _escaped(label(row.entity, report)) if row.entity else ""
        known = report.entities.get(row.entity)
        if known is not None and isinstance(known.at, FrameOut):
            text += f" at {_escaped(place_text(known.at))}"
        yield f"{'  ' * row.depth}- {text}{' ' if text and row.note else ''}{row.note}"


def _stacks(report: ReportDocument) -> Iterator[str]:
    if report.stacks:
        yield from ("", "## Stacks")
    for heading, frames in group_lines(report.stacks[:_STACKS], report):
        yield from ("", _escaped(heading), "")
        yield from (f"    {frame}" for frame in frames)
    notes = [(name, known.stack_note) for name, known in report.entities.items() if isinstance(known.stack_note, str)]
    if notes:
        yield ""
    for name, note in notes[:_STACKS]:
        yield f"({_escaped(label(name, report))}: {_escaped(note)})"
    if len(report.stacks) > _STACKS:
        yield from ("", f"{len(report.stacks) - _STACKS} more stacks are left out")
