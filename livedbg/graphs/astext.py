"""A drawing as text: first the problems, then the tasks in layers, each with its predecessors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from livedbg.graphs.drawing import EXTRA, INFERRED, MISSING, Arrow, Drawing, Remark, layers
from livedbg.text.wording import many

_WIDTH = 100
_REMARKS = 20  # of one kind
_AFTER = 6  # predecessors of one task that are named
_SAID = {
    "missing": "Missing",
    "only-there": "Only in the other",
    "only-here": "Only here",
    "perhaps": "Perhaps missing (no finding)",
    "not-tracked": "Not tracked by the runtime (no finding)",
}


def to_text(drawing: Drawing, most: int) -> str:
    """The drawing as text.

    Args:
        drawing: what to draw.
        most: tasks that are shown, and of each kind of remarks 20 at most.
    """
    return "\n".join(_lines(drawing, most)) + "\n"


def _lines(drawing: Drawing, most: int) -> Iterator[str]:
    missing = sum(arrow.state == MISSING for arrow in drawing.arrows)
    edges = len(drawing.arrows) - missing
    total = len(drawing.nodes) + drawing.hidden
    yield f"{drawing.name}: {many(total, 'task')}, {many(edges, 'edge')}, {missing or 'none'} missing"
    for note in drawing.notes:
        yield from wrap(f"  {note}", _WIDTH, subsequent_indent="  ")
    for kind, title in _SAID.items():
        remarks = drawing.remarks_of(kind)
        if remarks:
            yield ""
            yield f"{title}: {len(remarks)}"
            for remark in remarks[: min(most, _REMARKS)]:
                yield from _remark(remark)
            if len(remarks) > min(most, _REMARKS):
                yield f"  … and {len(remarks) - min(most, _REMARKS)} more (--format json has all)"
    yield ""
    yield from _layers(drawing, most)


def _remark(remark: Remark) -> Iterator[str]:
    sign = {"missing": "!!", "perhaps": "? ", "only-there": "- ", "only-here": "+ "}.get(remark.kind, "  ")
    yield f"  {sign} {remark.first} → {remark.second}"
    texts = [remark.text]
    texts += [f"most likely: {remark.why}"] if remark.why else []
    texts += [f"next: {step}" for step in remark.next]
    for text in texts:
        yield from wrap(text, _WIDTH, initial_indent="     ", subsequent_indent="       ", break_on_hyphens=False)


def _layers(drawing: Drawing, most: int) -> Iterator[str]:
    before: dict[str, list[Arrow]] = defaultdict(list)
    for arrow in drawing.arrows:
        before[arrow.second].append(arrow)
    ranks = layers(drawing).rows
    width = max((len(node.title) for node in drawing.nodes.values()), default=0)
    left = most
    for number, rank in enumerate(ranks):
        if left <= 0:
            break
        yield f"layer {number}: {many(len(rank), 'task')}"
        for name in rank[:left]:
            node = drawing.nodes[name]
            after = _after(before.get(name, ()))
            detail = f"  [{node.detail}]" if node.detail else ""
            yield f"  {node.title.ljust(min(width, 40))}{detail}{after}".rstrip()
        left -= len(rank)
    shown = min(most, len(drawing.nodes))
    rest = len(drawing.nodes) - shown + drawing.hidden
    if rest:
        yield f"… and {many(rest, 'more task')} (--limit, or --task ID --hops N)"


_STATES: Final = {MISSING: " (edge missing!)", EXTRA: " (only here)", INFERRED: " (perhaps not directly)"}


def _after(arrows: Sequence[Arrow]) -> str:
    if not arrows:
        return ""
    order = sorted(arrows, key=lambda arrow: arrow.state != MISSING)
    names = [f"{arrow.first}{_STATES.get(arrow.state, '')}" for arrow in order[:_AFTER]]
    more = f" and {len(order) - _AFTER} more" if len(order) > _AFTER else ""
    return f"  after {', '.join(names)}{more}"
