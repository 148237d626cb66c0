"""What lies over what on the page of a graph."""

from __future__ import annotations

import re

from livedbg.graphs.ashtml import to_html
from livedbg.graphs.drawing import MISSING, Arrow, Drawing, Node


def test_an_arrow_that_passes_a_box_lies_over_it() -> None:
    """Behind the box it would seem to end there, and another to begin below it."""
    nodes = {name: Node(name) for name in "abc"}
    arrows = (Arrow("a", "b"), Arrow("b", "c"), Arrow("a", "c"))
    page = to_html(Drawing("g", nodes, arrows))
    found = re.findall(r'<path class="(edge[^"]*)"|<g class="(node)', page)
    assert ["".join(pair) for pair in found] == ["edge", "edge", "node", "node", "node", "edge long"]


def test_what_is_missing_lies_over_all_with_a_tip_of_its_own() -> None:
    page = to_html(Drawing("g", {name: Node(name) for name in "ab"}, (Arrow("a", "b", MISSING),)))
    assert page.index('class="missing" d=') > page.rindex('class="node')
    assert page.count('marker-end="url(#lost)"') == 1 and 'marker id="lost"' in page
