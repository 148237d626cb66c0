"""The report as plain text of at most 80 columns, and as Markdown, in which foreign text can't become markup.

Both have the verdict, who waits for whom, evidence and next steps.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from livedbg.analysis.place_names import place_text
from livedbg.analysis.python_calls import said_call
from livedbg.report.document import EntityOut, FindingOut, FrameOut, ReportDocument
from livedbg.report.entities import folded_lines, group_lines
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import many

_ROOTS: Final = 5
_ROWS: Final = 40
_CHILDREN: Final = 8


class Branch(NamedTuple):
    """A row of the wait tree at a depth; `entity` is "" for a row that only counts omitted rows."""

    depth: int
    entity: str
    note: str


def wait_tree(report: ReportDocument) -> list[Branch]:
    """Return the rows of the tree of the verdict's roots, bounded."""
    waiters: dict[str, dict[str, bool]] = {}  # of each, who waits for it, and whether that is sure to be direct
    for edge in report.edges:
        if edge.state == "pending" and edge.kind in ("waits_for", "depends_on"):
            of_it = waiters.setdefault(edge.target, {})
            of_it[edge.source] = of_it.get(edge.source, False) or not (edge.inferred and edge.kind == "depends_on")
        elif edge.state == "pending" and edge.kind == "holds":
            waiters.setdefault(edge.source, {})[edge.target] = True
    rows: list[Branch] = []
    seen: set[str] = set()
    for root in report.verdict.roots:
        if root not in seen and len(seen) < _ROWS and sum(1 for row in rows if not row.depth) < _ROOTS:
            below = list(_below(root, (), waiters, seen))
            if len(below) > 1:
                rows += below
    return rows[:_ROWS]


def _below(
    entity: str, above: tuple[str, ...], waiters: dict[str, dict[str, bool]], seen: set[str]
) -> Iterator[Branch]:
    depth = len(above)
    if entity in seen:
        yield Branch(depth, entity, "(closes the cycle)" if entity in above else "(see above)" if depth else "")
        return
    seen.add(entity)
    direct = not above or waiters[above[-1]][entity]
    yield Branch(depth, entity, "" if direct else "(perhaps not directly)")
    children = list(waiters.get(entity, ()))
    for child in children[:_CHILDREN]:
        if len(seen) < _ROWS:
            yield from _below(child, (*above, entity), waiters, seen)
    if len(children) > _CHILDREN:
        yield Branch(depth + 1, "", f"{len(children) - _CHILDREN:,} more")


_WIDTH: Final = 80
_FINDINGS: Final = 10
_EVIDENCE: Final = 8
_STACKS: Final = 4


def to_text(report: ReportDocument) -> str:
    """Return the report for a terminal or a mail; plain characters, no colours."""
    lines: list[str] = []
    since = f" since {report.verdict.since}" if report.verdict.since else ""
    lines.append(f"{report.verdict.state.upper()}{since}")
    lines += _wrap(report.verdict.sentence, "  ")
    for target in report.targets[:_FINDINGS]:
        rank = f"rank {target.rank}, " if target.rank is not None else ""
        lines += _wrap(f"{target.host}:{target.pid} {' '.join(target.command)}  ({rank}{target.state})", "  ", "    ")
    lines += _section("Who waits for whom", _tree_lines(report))
    bearing = [f for f in report.findings if f.id in report.verdict.findings] or list(report.findings[:1])
    lines += _section("Evidence", _evidence(bearing, report.verdict.sentence))
    lines += _section("Next", _next(bearing))
    lines += _section("Stacks", _stacks(report))
    others = [f for f in report.findings if f not in bearing and f.rule != "cant-see"]
    lines += _section("Also seen", _others(others))
    lines += _section("Could not be seen", _limits(report))
    touched = report.intrusions
    taken = f"Taken {report.taken_at}; target paused for {touched.paused_ms:.1f} ms." if report.taken_at else ""
    if gone := report.omitted.get("processes", 0):
        taken += f" {many(gone, 'process')} that exited earlier {'is' if gone == 1 else 'are'} not listed."
    lines += ["", *_wrap(taken.lstrip(), "")] if taken else []
    return "\n".join(lines) + "\n"


def label(entity: str, report: ReportDocument) -> str:
    """Return an entity in a user's words."""
    known = report.entities.get(entity)
    kind, _, path = entity.partition(":")
    number = path.rpartition("/")[2]
    if known is None or kind not in ("thread", "process", "task"):
        return known.name if known is not None and known.name else f"{kind} {number}"
    extra = known.kernel if kind == "task" else known.name
    shown = extra if isinstance(extra, str) and extra else ""
    if kind == "task":
        number = path.partition("/")[2] or path  # with its run, rank or graph, in which it differs from its namesakes
        return f"task {number}{f' {shown}' if shown else ''}"
    return f"{kind} {number}{f' ({shown})' if shown else ''}"


def _section(title: str, body: Iterable[str]) -> list[str]:
    lines = list(body)
    return ["", title, *lines] if lines else []


def _wrap(text: str, first: str, rest: str | None = None) -> list[str]:
    lines = []
    for number, part in enumerate(text.split("\n")):
        lines += textwrap.wrap(
            part,
            _WIDTH,
            initial_indent=first if number == 0 else rest or first,
            subsequent_indent=first if rest is None else rest,
            break_on_hyphens=False,
        )
    return lines


def _tree_lines(report: ReportDocument) -> Iterator[str]:
    for branch in wait_tree(report):
        text = label(branch.entity, report) if branch.entity else branch.note
        known = report.entities.get(branch.entity)
        if known is not None:
            text += _state(known)
        if branch.entity and branch.note:
            text += f"  {branch.note}"
        lead = "  " * (branch.depth + 1)
        yield from _wrap(text, f"{lead}{'<- ' if branch.depth else ''}", f"{lead}     ")


def _state(known: EntityOut) -> str:
    place = said_call(known.waits_in or "", known.called or "")  # unset is falsy
    at = f"at {place_text(known.at)}" if isinstance(known.at, FrameOut) else ""
    words = [word for word in (known.state, f"in {place}" if place else "", at) if word]
    return f"  {' '.join(words)}" if words else ""


def _evidence(findings: Sequence[FindingOut], said: str) -> Iterator[str]:
    for finding in findings[:_FINDINGS]:
        mark = " (inferred)" if finding.inferred else ""
        sentence = "" if finding.sentence == said else f": {finding.sentence}"
        yield from _wrap(f"{finding.id} {finding.rule}{mark}{sentence}", "  ", "     ")
        for proof in finding.evidence[:_EVIDENCE]:
            at = f"  [{proof.at}]" if proof.at else ""
            yield from _wrap(f"- {proof.source}: {proof.text}{at}", "     ", "       ")
        if len(finding.evidence) > _EVIDENCE:
            yield f"     ({len(finding.evidence) - _EVIDENCE} more in --json)"


def _next(findings: Sequence[FindingOut]) -> Iterator[str]:
    for step in dict.fromkeys(step for finding in findings for step in finding.next):
        yield from _wrap(f"- {step}", "  ", "    ")


def _stacks(report: ReportDocument) -> Iterator[str]:
    for heading, frames in folded_lines(report.stacks[:_STACKS], report):
        yield from _wrap(heading, "  ", "    ")
        for frame in frames:
            yield from _wrap(frame, "    ", "       ")
    if len(report.stacks) > _STACKS:
        yield f"  {len(report.stacks) - _STACKS} more in --json, or by `livedbg stacks`"


def _others(findings: Sequence[FindingOut]) -> Iterator[str]:
    for finding in findings[:_FINDINGS]:
        yield from _wrap(f"{finding.id} {finding.rule} ({finding.severity}): {finding.sentence}", "  ", "     ")
    if len(findings) > _FINDINGS:
        yield f"  {len(findings) - _FINDINGS} more in --json"


def _limits(report: ReportDocument) -> Iterator[str]:
    said = {report.verdict.sentence}
    for limit in report.limits:
        if limit.sentence and limit.health != "ended" and limit.sentence not in said:
            said.add(limit.sentence)
            yield from _wrap(f"- {limit.sentence}", "  ", "    ")
            if limit.remedy:
                yield from _wrap(limit.remedy, "      ")


_SPECIAL: Final = lazy_re(r"([\\`*_{}\[\]<>#|~!&@])")
_MARKDOWN_STACKS: Final = 12


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
    yield from _markdown_stacks(report)
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


def _markdown_stacks(report: ReportDocument) -> Iterator[str]:
    if report.stacks:
        yield from ("", "## Stacks")
    for heading, frames in group_lines(report.stacks[:_MARKDOWN_STACKS], report):
        yield from ("", _escaped(heading), "")
        yield from (f"    {frame}" for frame in frames)
    notes = [(name, known.stack_note) for name, known in report.entities.items() if isinstance(known.stack_note, str)]
    if notes:
        yield ""
    for name, note in notes[:_MARKDOWN_STACKS]:
        yield f"({_escaped(label(name, report))}: {_escaped(note)})"
    if len(report.stacks) > _MARKDOWN_STACKS:
        yield from ("", f"{len(report.stacks) - _MARKDOWN_STACKS} more stacks are left out")
