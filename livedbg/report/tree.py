"""Who waits for whom, as the rows of a small tree: each root with what waits for it below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from livedbg.report.document import ReportDocument

_ROOTS: Final = 5
_ROWS: Final = 40
_CHILDREN: Final = 8


class Branch(NamedTuple):
    """One row.

    Attributes:
        depth: 0 for a root; what is below it waits for it.
        entity: who; "" for a row that only counts what is not shown.
        note: what else to say.
    """

    depth: int
    entity: str
    note: str


def wait_tree(report: ReportDocument) -> list[Branch]:
    """The rows of the tree of the verdict's roots, bounded."""
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
