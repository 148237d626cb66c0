"""A graph to draw: nodes, arrows and remarks, from any source.

An arrow points as time goes: from what must be done first to what depends on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from livedbg.graphs.layers import Layers, layered

DECLARED: Final = "declared"
MISSING: Final = "missing"
INFERRED: Final = "inferred"  # one waits behind the other, and whether directly is not known
EXTRA: Final = "extra"  # only here, where another run is compared with


@dataclass(frozen=True, slots=True)
class Node:
    """A task, or whatever waits and is waited for.

    Attributes:
        id: unique: `r1t2`.
        label: what it runs: `MUL`.
        detail: its state and place, or "".
    """

    id: str
    label: str = ""
    detail: str = ""

    @property
    def title(self) -> str:
        """`r1t2 MUL`."""
        return f"{self.id} {self.label}".strip()


@dataclass(frozen=True, slots=True)
class Arrow:
    """One edge.

    Attributes:
        state: DECLARED, INFERRED, MISSING or EXTRA.
        word: who declared it: `creator`, `tensormap`, `explicit`; or what it is: `waits_for`.
    """

    first: str
    second: str
    state: str = DECLARED
    word: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that is wrong, or may be: both ends, the claim, why, and what to do.

    Attributes:
        kind: `missing`, `perhaps`, `only-here`, `only-there`, `not-tracked`.
        facts: the same for programs.
    """

    kind: str
    first: str
    second: str
    text: str
    why: str = ""
    next: tuple[str, ...] = ()
    facts: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is to be drawn.

    Attributes:
        name: what it was read from.
        notes: what a reader must know, e.g. that the file was cut.
        hidden: nodes that were left out.
    """

    name: str
    nodes: dict[str, Node]
    arrows: tuple[Arrow, ...]
    remarks: tuple[Remark, ...] = ()
    notes: tuple[str, ...] = ()
    hidden: int = 0

    def remarks_of(self, kind: str) -> list[Remark]:
        """The remarks of a kind."""
        return [remark for remark in self.remarks if remark.kind == kind]


def around(drawing: Drawing, centres: Iterable[str], hops: int, most: int) -> Drawing:
    """The part of a drawing within `hops` of some nodes, `most` nodes at most, nearest first."""
    near: dict[str, list[str]] = defaultdict(list)
    for arrow in drawing.arrows:
        near[arrow.first].append(arrow.second)
        near[arrow.second].append(arrow.first)
    kept = dict.fromkeys(centre for centre in centres if centre in drawing.nodes)
    fringe = list(kept)
    for _ in range(hops):
        fringe = [other for node in fringe for other in near[node] if other not in kept]
        fringe = list(dict.fromkeys(fringe))[: max(0, most - len(kept))]
        kept |= dict.fromkeys(fringe)
    return _part(drawing, list(kept)[:most])


def _part(drawing: Drawing, kept: Sequence[str]) -> Drawing:
    chosen = set(kept)
    return replace(
        drawing,
        nodes={name: node for name, node in drawing.nodes.items() if name in chosen},
        arrows=tuple(arrow for arrow in drawing.arrows if arrow.first in chosen and arrow.second in chosen),
        hidden=drawing.hidden + len(drawing.nodes) - len(chosen),
    )


def cut_down(drawing: Drawing, most: int) -> Drawing:
    """A drawing of `most` nodes at most: those near what is wrong first, then in order."""
    if len(drawing.nodes) <= most:
        return drawing
    ends = dict.fromkeys(end for remark in drawing.remarks_of(MISSING) for end in (remark.first, remark.second))
    near = around(drawing, ends, 2, most).nodes if ends else {}
    kept = list(near) + [name for name in drawing.nodes if name not in near]
    return _part(drawing, kept[:most])


def layers(drawing: Drawing) -> Layers:
    """The layers in which every form of the drawing shows its nodes."""
    return layered(drawing.nodes, ((arrow.first, arrow.second) for arrow in drawing.arrows))
