"""The page of a graph: no arrow crosses a box, and what lies over what."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from livedbg.adapters.ascend.dumps.graphs import read_graph
from livedbg.adapters.ascend.names import task_name
from livedbg.graphs import ashtml, layout
from livedbg.graphs.ashtml import to_html
from livedbg.graphs.declared import Terms
from livedbg.graphs.drawing import EXTRA, MISSING, Arrow, Drawing, Node
from livedbg.graphs.fromdeclared import drawing_of
from livedbg.graphs.lost import lost_orders

_CAPTURES = sorted((Path(__file__).parents[1] / "fixtures" / "ascend").rglob("deps.json"))
_STEPS = 24
Point = tuple[float, float]


def _drawn(line: str) -> Iterator[Point]:
    """Points along a path of the page, close enough that no box (46 high, 150 wide) lies between two."""
    x = y = 0.0
    for sign, numbers in re.findall(r"([MCHVv])([-\d ]*)", line):
        given = [int(number) for number in numbers.split()]
        if sign == "C":
            a, b, c, d, end, low = given
            for step in range(1, _STEPS + 1):
                t = step / _STEPS
                s = 1 - t
                yield (
                    s**3 * x + 3 * s * s * t * a + 3 * s * t * t * c + t**3 * end,
                    s**3 * y + 3 * s * s * t * b + 3 * s * t * t * d + t**3 * low,
                )
            x, y = end, low
            continue
        goal = (
            (given[0], given[1]) if sign == "M" else (given[0], y) if sign == "H" else (x, given[0] + y * (sign == "v"))
        )
        length = 0.0 if sign == "M" else abs(goal[0] - x) + abs(goal[1] - y)
        for step in range(int(length // 10) + 1):
            share = step * 10 / length if length else 1.0
            yield x + (goal[0] - x) * share, y + (goal[1] - y) * share
        x, y = goal
        yield x, y


def _check(drawing: Drawing) -> None:
    """Every arrow leads from the lower edge of its box to the upper edge of the other, and through none."""
    page = to_html(drawing)
    found = re.findall(r'data-id="([^"]+)" transform="translate\((\d+) (\d+)\)"', page)
    boxes = {name: (int(x), int(y)) for name, x, y in found}
    assert boxes.keys() == drawing.nodes.keys()
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', page)
    assert size is not None
    rows: dict[int, list[int]] = {}
    for x, y in boxes.values():
        assert 0 <= x <= int(size[1]) - ashtml.WIDTH and 0 <= y <= int(size[2]) - ashtml.HEIGHT
        rows.setdefault(y, []).append(x)
    for row in rows.values():
        row.sort()
        assert all(right - left > ashtml.WIDTH for left, right in pairwise(row)), "boxes overlap"
    arrows = re.findall(r'<path class="(?:edge|missing|extra)[^>]*? d="([^"]*)"[^>]*><title>[^<]*?(\w+) → (\w+)', page)
    assert len(arrows) == len(drawing.arrows)
    for line, first, second in arrows:
        points = list(_drawn(line))
        (x, y), (end, low) = points[1], points[-1]
        assert (x, y) == (boxes[first][0] + ashtml.WIDTH // 2, boxes[first][1] + ashtml.HEIGHT)
        assert (end, low) == (boxes[second][0] + ashtml.WIDTH // 2, boxes[second][1])
        for x, y in points[1:]:
            assert 0 <= x <= int(size[1]), (first, second)
            for top, row in rows.items():
                if top < y < top + ashtml.HEIGHT:
                    assert not any(left < x < left + ashtml.WIDTH for left in row), (first, second, line)


def _random(seed: int, count: int, reach: float) -> Drawing:
    chance = random.Random(seed)
    names = [f"t{number}" for number in range(count)]
    pairs = {
        (names[max(0, number - 1 - int(chance.expovariate(1 / reach)))], names[number])
        for number in range(1, count)
        for _ in range(chance.choice([0, 1, 2, 3]))
    }
    states = {pair: chance.choice(["declared"] * 8 + [MISSING, EXTRA]) for pair in sorted(pairs)}
    return Drawing("g", {name: Node(name) for name in names}, tuple(Arrow(*pair, states[pair]) for pair in states))


@pytest.mark.parametrize("capture", _CAPTURES, ids=lambda path: path.parts[-3])
@pytest.mark.invariant("ashtml.L1")
def test_no_arrow_of_a_real_run_crosses_a_box(capture: Path) -> None:
    graph = read_graph(capture)
    drawing = drawing_of(graph, lost_orders(graph), "g", Terms(task_name=task_name))
    assert len(drawing.arrows) >= 1
    _check(drawing)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.invariant("ashtml.L1")
def test_no_arrow_crosses_a_box(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ashtml, "ROW", [60, 3][seed % 2])  # wide layers have several rows
    monkeypatch.setattr(layout, "POINTS", [100_000, 100_000, 10][seed % 3])  # the others go around
    drawing = _random(seed, 60, [2.0, 10.0][seed % 2])
    assert len(drawing.arrows) > 40
    _check(drawing)
    if seed % 3 == 2:
        assert 'class="edge around"' in to_html(drawing)


def test_circles_go_around() -> None:
    arrows = [Arrow("a", "b"), Arrow("b", "c"), Arrow("c", "a"), Arrow("b", "b"), Arrow("b", "a", EXTRA)]
    _check(Drawing("g", {name: Node(name) for name in "abcd"}, tuple(arrows)))
    _check(Drawing("g", {"a": Node("a")}, (Arrow("a", "a", MISSING),)))
    assert "<svg" in to_html(Drawing("g", {}, ()))


def test_what_is_missing_goes_between_though_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The points are for what is wrong first."""
    monkeypatch.setattr(layout, "POINTS", 6)
    names = [f"t{number}" for number in range(6)]
    chain = [Arrow(*pair) for pair in pairwise(names)]
    long = [Arrow("t0", name) for name in names[2:]]
    page = to_html(Drawing("g", {name: Node(name) for name in names}, (*chain, *long, Arrow("t1", "t5", MISSING))))
    lost = re.search(r'class="missing" d="([^"]*)"', page)
    assert lost is not None and "H" not in lost[1] and 'class="edge around"' in page


def test_what_is_missing_lies_over_all_with_a_tip_of_its_own() -> None:
    page = to_html(Drawing("g", {name: Node(name) for name in "ab"}, (Arrow("a", "b", MISSING),)))
    assert page.index('class="missing" d=') > page.rindex('class="node')
    assert page.count('marker-end="url(#lost)"') == 1 and 'marker id="lost"' in page
