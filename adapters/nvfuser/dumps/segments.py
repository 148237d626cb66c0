"""Parse the dump of a segmented fusion: its groups, and their dependencies.

The form: NVIDIA/Fuser csrc/fusion_segmenter.cpp (`operator<<(…, const SegmentedFusion*)`, `detailGroupPrint`). Edges
name no group, but scheduler and expressions of both ends, by which the groups are found. Up to 2023 neither the
edges had a scheduler nor the details an id; such groups are numbered in the order of the details.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.nvfuser.dumps.ir import Expression, Tensor, parse_expression, parse_tensor, tensors_in
from livedbg.text.patterns import lazy_re

BEGIN: Final = "Segmented_Fusion{"
END: Final = "} //Segmented_Fusion"

_GROUP: Final = lazy_re(r"(?<!\w)(?P<scheduler>\w++)\{(?P<expressions>[\d, ]*+)\}")
_EDGE: Final = lazy_re(r"^\s*e\{ ?(?P<from>\w+\{[\d, ]*\})(?: \(merged\))? -> (?P<to>\w+\{[\d, ]*\})(?: \(merged\))?")
_DETAIL: Final = lazy_re(r"^g\{(?:\((?P<scheduler>\w+)\))?\s*$")
_ID: Final = lazy_re(r"^group id: (\d{1,18})$")
_SCALAR: Final = lazy_re(r"^  ([a-z]\d{1,18}) (\S+)$")
_NUMBER: Final = lazy_re(r"^\((\d{1,18})\)$")


class Group(Struct):
    """One segment.

    Attributes:
        number: its group id.
        scheduler: `pointwise`, `reduction`, …; "none" if not printed.
        scalars: numeric inputs: (name, type).
        stated: the id was printed; if not, it was counted.
        complete: its details are complete.
    """

    number: int
    scheduler: str
    expressions: list[Expression] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    scalars: list[tuple[str, str]] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    stated: bool = False
    complete: bool = False

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(expression.number for expression in self.expressions)

    @property
    def defines(self) -> frozenset[int]:
        """Return the numbers of the defined tensors."""
        return frozenset(tensor.number for expression in self.expressions for tensor in expression.outputs)


class GroupEdge(NamedTuple):
    """A dependency of one group on another's output; `tensor` is the output's number, if printed."""

    producer: int
    consumer: int
    tensor: int | None


class SegmentedFusion(Struct):
    """A fusion divided into groups.

    Attributes:
        groups: by number, in the dump's order (producers first). A negative number stands for a missing id.
        loose: edges whose ends are unknown, as printed.
        complete: the dump is complete.
    """

    groups: dict[int, Group] = field(default_factory=dict)
    edges: list[GroupEdge] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    complete: bool = False

    def behind(self, number: int) -> set[int]:
        """Return the groups that need a group, directly or indirectly."""
        return _reach(number, [(edge.producer, edge.consumer) for edge in self.edges])

    def before(self, number: int) -> set[int]:
        """Return the groups that a group needs, directly or indirectly."""
        return _reach(number, [(edge.consumer, edge.producer) for edge in self.edges])


def _reach(number: int, arcs: list[tuple[int, int]]) -> set[int]:
    ahead: dict[int, list[int]] = {}
    for near, far in arcs:
        ahead.setdefault(near, []).append(far)
    found: set[int] = set()
    todo = [number]
    while todo:
        for other in ahead.get(todo.pop(), ()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found


def parse_segments(lines: Iterable[str]) -> SegmentedFusion:
    """Parse the groups and edges of a dump from `Segmented_Fusion{` on; it may be truncated."""
    fusion = SegmentedFusion()
    edges: list[str] = []
    heads: list[tuple[str, frozenset[int]]] = []
    part = ""
    group: Group | None = None
    held: list[str] = []
    for raw in lines:
        line = raw.rstrip()
        if line == END:
            fusion.complete = True
            break
        detail = _DETAIL.match(line) if line.startswith("g{") else None
        if detail is not None and part in {"group details:", "inputs:", "outputs:", "expressions"}:
            group = _begin(fusion, group, detail["scheduler"] or "none")
            part, held = "group details:", []
        elif line in {"groups:", "edges:", "group details:"}:
            part = line
        elif part == "groups:":
            heads += [(match["scheduler"], _numbers(match["expressions"])) for match in _GROUP.finditer(line)]
        elif part == "edges:" and line:
            edges.append(line)
        elif group is not None:
            part = _detail(group, part, line, held)
    if group is not None:
        _keep(fusion, group)
    for scheduler, numbers in heads:
        if not any(known.numbers == numbers for known in fusion.groups.values()):
            _add_incomplete(fusion, scheduler, numbers)
    _connect(fusion, edges)
    return fusion


def _begin(fusion: SegmentedFusion, former: Group | None, scheduler: str) -> Group:
    if former is not None:
        _keep(fusion, former)
    return Group(len(fusion.groups), scheduler)


def _keep(fusion: SegmentedFusion, group: Group) -> None:
    if not group.stated:
        while group.number in fusion.groups:
            group.number += 1
    fusion.groups[group.number] = group


def _add_incomplete(fusion: SegmentedFusion, scheduler: str, numbers: frozenset[int]) -> None:
    """Add a listed group whose details are missing: it gets a negative number, since its id is not known."""
    number = min([-1, *(known - 1 for known in fusion.groups)])
    fusion.groups[number] = Group(number, scheduler, [Expression(n, "") for n in sorted(numbers)])


def _detail(group: Group, part: str, line: str, held: list[str]) -> str:
    """Process one line of a group's details; return its part."""
    stated = _ID.match(line) if line.startswith("group id: ") else None
    if stated is not None:
        group.number, group.stated = int(stated[1]), True
    elif line in {"inputs:", "outputs:"}:
        return line
    elif part in {"inputs:", "outputs:"} and line and (line[0] == " " or line.endswith(_TYPES)):
        tensor = parse_tensor(line)
        scalar = _SCALAR.match(line)
        if tensor is not None:
            (group.inputs if part == "inputs:" else group.outputs).append(tensor)
        elif scalar is not None and part == "inputs:":
            group.scalars.append((scalar[1], scalar[2]))
    elif line == "}":
        group.complete = True
        return "group details:"
    elif line:
        number = _NUMBER.match(line) if line.startswith("(") else None
        if number is None:
            held.append(line)
        else:
            group.expressions.append(parse_expression(int(number[1]), "\n".join(held)))
            held.clear()
        return "expressions"
    elif part == "outputs:":
        return "expressions"
    return part


_TYPES: Final = ("] float", "] double", "] __half", "] __bfloat", "] bool", "] int", "] int64_t")


def _numbers(text: str) -> frozenset[int]:
    """Return numbers of expressions; one of more than 18 digits is damage."""
    return frozenset(int(word) for word in text.replace(" ", "").split(",") if 0 < len(word) < 19)


def _connect(fusion: SegmentedFusion, lines: list[str]) -> None:
    by_content = {(group.scheduler, group.numbers): number for number, group in fusion.groups.items()}
    by_numbers = {group.numbers: number for number, group in fusion.groups.items()}
    for line in lines:
        match = _EDGE.match(line)
        ends = []
        for name in ("from", "to"):
            head = _GROUP.match(match[name]) if match is not None else None
            if head is not None:
                numbers = _numbers(head["expressions"])
                ends.append(by_content.get((head["scheduler"], numbers), by_numbers.get(numbers)))
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
            tensors = tensors_in(line)
            fusion.edges.append(GroupEdge(ends[0], ends[1], tensors[0].number if tensors else None))
        else:
            fusion.loose.append(line.strip())
