"""The report as Markdown, for bug reports: foreign text can't become markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from livedbg.report.document import EntityOut, ReportDocument
from livedbg.report.text import label
from livedbg.report.tree import wait_tree
from livedbg.text.wording import many

__all__ = ["to_markdown"]

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~!&@])")
_STACKS: Final = 12


def to_markdown(report: ReportDocument) -> str:
    """The report for an issue tracker."""
    return "\n".join(_lines(report)) + "\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ")


def _code(text: str) -> str:
    """An inline code span that no backtick in the text can end."""
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
        yield f"{'  ' * row.depth}- {text}{' ' if text and row.note else ''}{row.note}"


def _stacks(report: ReportDocument) -> Iterator[str]:
    named = dict.fromkeys(entity for finding in report.findings for entity in finding.entities)
    shown = [(name, report.entities[name]) for name in named if name in report.entities]
    stacks = [(name, known) for name, known in shown if isinstance(known.stack, tuple) and known.stack]
    if stacks:
        yield from ("", "## Stacks")
    for name, known in stacks[:_STACKS]:
        yield from ("", _escaped(label(name, report)), "")
        yield from _frames(known)


def _frames(known: EntityOut) -> Iterator[str]:
    frames = known.stack if isinstance(known.stack, tuple) else ()
    for number, frame in enumerate(frames):
        place = f"{frame.file}:{frame.line}" if frame.file else frame.module or ""
        yield f"    #{number} {frame.function}{f' at {place}' if place else ''}".replace("\n", " ")
    if isinstance(known.stack_note, str):
        yield from ("", f"({_escaped(known.stack_note)})")
