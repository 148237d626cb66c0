"""The parts of the app by themselves: cells, filters, layout, tree, neighbourhood, pages, options."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.app.cell_updates import AsciiOnly, FewColours, Guard, to_ascii
from livedbg.app.commands import key_reference
from livedbg.app.options import AppOptions, Colours, check_terminal, colours_of, interval_of, wants_ascii
from livedbg.app.views import VIEWS
from livedbg.model import Edge, EdgeKey, EdgeKind, LogRecord, Severity
from livedbg.model.errors import UsageError
from livedbg.panels.cells import Line, fit, wrap
from livedbg.panels.draw_context import ink_of
from livedbg.panels.logsearch import PAGE, PAGES, LogPages, Places, Search
from livedbg.panels.neighbourhood import MAX_NODES, Scope, around, arrange
from livedbg.panels.table import Column, layout
from livedbg.panels.waits import FAN, MAX_ROWS, tree_rows
from livedbg.text.quantities import elapsed, rate, stopwatch
from livedbg.text.sanitize import clean_line
from livedbg.themes import PALETTES
from tests.app.fakes import MemoryLogs
from tests.app.graphs import PlainGraph
from tests.app.hostile_strings import HOSTILE
from tests.text.hostile import MARKUP
from tests.waiting import until

CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
text = st.one_of(st.text(max_size=60), st.sampled_from(HOSTILE))


@given(text, st.integers(0, 40))
@pytest.mark.invariant("cells.C1", "cells.C3")
def test_C1_C3_cells_are_clean_and_exactly_wide(value: str, width: int) -> None:
    assert cell_len(fit(value, width)) == width
    strip = Line(width, Style()).add(value).add(value).cell(value, 5).strip()
    assert strip.cell_length == sum(cell_len(s.text) for s in strip) == width
    assert not any(CONTROLS.search(s.text) for s in strip)


@pytest.mark.parametrize("name", MARKUP)
@pytest.mark.invariant("cells.C2")
def test_C2_markup_is_shown_as_it_is(name: str) -> None:
    drawn = list(Line(9_000, Style()).add(MARKUP[name]).strip())
    assert drawn[0].text == clean_line(MARKUP[name]) and not "".join(segment.text for segment in drawn[1:]).strip()
    assert {segment.style for segment in drawn} == {Style()}


@given(text, st.integers(8, 40), st.integers(8, 40))
def test_wrapped_lines_fit_and_lose_no_word(value: str, width: int, first: int) -> None:
    lines = wrap(value, width, min(first, width))
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(fit(value, 500).split())


@given(st.lists(text, max_size=5))
@pytest.mark.invariant("cell_updates.L1", "cell_updates.L2")
def test_L1_L2_nothing_but_ascii_leaves(values: list[str]) -> None:
    segments = [Segment(value) for value in values]
    guarded = Guard().apply(segments, Color(0, 0, 0))
    assert not any(CONTROLS.search(s.text) for s in guarded)
    ascii_only = AsciiOnly().apply(guarded, Color(0, 0, 0))
    assert all(s.text.isascii() for s in ascii_only)
    assert [cell_len(s.text) for s in ascii_only] == [cell_len(s.text) for s in guarded]
    assert to_ascii("│├─ ●…") == "|+- *~"


@pytest.mark.parametrize("name", PALETTES)
@pytest.mark.invariant("cell_updates.L3")
def test_L3_without_colours_selection_is_reversed(name: str) -> None:
    ink = ink_of(name)
    (drawn,) = FewColours(PALETTES[name], none=True).apply([Segment("x", ink.selected)], Color(0, 0, 0))
    assert drawn.style is not None
    assert drawn.style.color is None
    assert drawn.style.bgcolor is None
    assert drawn.style.reverse
    (drawn,) = FewColours(PALETTES[name], none=False).apply([Segment("x", ink.selected)], Color(0, 0, 0))
    assert drawn.style is not None
    assert drawn.style.bgcolor is not None
    assert drawn.style.bgcolor.number == 4


def contrast(one: str, other: str) -> float:
    """Contrast of two colours as WCAG 2.1 computes it."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", PALETTES)
def test_texts_can_be_read(name: str) -> None:
    palette = PALETTES[name]
    least = 7.0 if name == "contrast" else 4.5
    for role, colour in palette.roles.items():
        if role != "faint":
            assert contrast(colour, palette.background) >= least, role
    assert contrast(palette.selection_text, palette.selection) >= least


edges = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=30)


@settings(max_examples=60)
@given(edges)
def test_boxes_of_a_picture_never_overlap_and_every_edge_is_drawn(pairs: list[tuple[int, int]]) -> None:
    wanted = {(f"n{a}", f"n{b}") for a, b in pairs if a != b}
    nodes = sorted({n for pair in wanted for n in pair})
    picture = arrange(nodes, sorted(wanted), dict.fromkeys(nodes, 14), 4)
    assert set(picture.boxes) == set(nodes)
    spots = [(x, y) for b in picture.boxes.values() for x in range(b.x, b.x + b.width) for y in range(b.y, b.y + 4)]
    assert len(spots) == len(set(spots))
    drawn = {frozenset((wire.waiter, wire.blocker)) for wire in picture.wires}
    assert drawn == {frozenset(pair) for pair in wanted}
    assert all(b.x >= 0 and b.x + b.width <= picture.width for b in picture.boxes.values())


def waits(*pairs: tuple[str, str]) -> Diagnosis:
    made = [Edge(kind=EdgeKind.WAITS_FOR, source=a, target=b) for a, b in pairs]
    graph = PlainGraph({EdgeKey(e.kind, e.source, e.target): e for e in made})
    state = VerdictState.DEADLOCK if graph.cycles else VerdictState.STALLED
    return Diagnosis(Verdict(state=state, sentence="s", roots=tuple(graph.roots)), {}, graph)


@pytest.mark.invariant("tree.T1", "neighbourhood.H1")
def test_T1_H1_big_graphs_are_cut_and_what_is_left_out_is_counted() -> None:
    fan = waits(*((f"thread:h/1/{n}", "mutex:h/1/0x1") for n in range(1000)))
    rows = tree_rows(fan)
    assert len(rows) == FAN + 2 <= MAX_ROWS
    assert rows[-1].more == 1000 - FAN
    part = around(fan, "thread:h/1/7", Scope.AROUND, 5)
    assert len(part.nodes) <= MAX_NODES
    assert part.hidden
    chain = waits(*((f"task:x/{n + 1}", f"task:x/{n}") for n in range(300)))
    assert len(tree_rows(chain)) <= MAX_ROWS
    assert len(around(chain, "task:x/10", Scope.AROUND, 9).nodes) <= MAX_NODES


@pytest.mark.invariant("neighbourhood.H2")
def test_H2_selection_and_its_chain_are_shown() -> None:
    graph = waits(*((f"thread:h/1/{n}", "mutex:h/1/0x1") for n in range(1000)), ("mutex:h/1/0x1", "thread:h/1/5000"))
    part = around(graph, "thread:h/1/900", Scope.AROUND, 2)
    assert {"thread:h/1/900", "mutex:h/1/0x1", "thread:h/1/5000"} <= set(part.nodes)


@settings(max_examples=60)
@given(edges)
@pytest.mark.invariant("tree.T2")
def test_T2_a_circle_ends_where_it_began(pairs: list[tuple[int, int]]) -> None:
    rows = tree_rows(waits(*((f"thread:h/1/{a}", f"thread:h/1/{b}") for a, b in pairs)), "thread:h/1/3")
    assert len(rows) <= MAX_ROWS
    for row in rows:
        assert row.parent is not None or not row.guide


@given(st.integers(1, 200))
def test_columns_never_take_more_than_there_is(width: int) -> None:
    columns = [Column("A", 9, keep=9), Column("B", 20, stretch=2, keep=3), Column("C", 12, stretch=1, keep=5)]
    widths = layout(columns, width)
    shown = [w for w in widths if w]
    assert sum(shown) + 2 * (len(shown) - 1) <= max(width, 9)


@pytest.mark.invariant("pages.G1", "pages.G2")
def test_G1_G2_pages_are_bounded_and_never_waited_for() -> None:
    gate = threading.Event()

    class Slow(MemoryLogs):
        def read(self, source: str, start: int, count: int) -> Sequence[LogRecord]:
            gate.wait(60)
            return super().read(source, start, count)

    lines = [
        LogRecord(source="s", text=f"line {n}", severity=list(Severity)[n % 5]) for n in range(PAGE * (PAGES + 20))
    ]
    pages = LogPages(Slow(lines), lambda: None)
    assert pages.line("s", 0) is None  # at once, though the reader is stuck
    gate.set()
    until(lambda: (record := pages.line("s", 0)) is not None and record.text == "line 0")
    until(lambda: pages.count("s") == (len(lines), True))
    for page in range(PAGES + 20):
        until(lambda page=page: pages.line("s", page * PAGE) is not None)
    assert len(pages._pages) <= PAGES
    places = Places(MemoryLogs(lines), lambda: None).severe(Severity.CRITICAL, "s")
    until(lambda: places.done)
    assert [line for _source, line in places.found] == list(range(4, len(lines), 5))
    bad = Search(MemoryLogs(lines), "s", lambda: None)
    bad.find("(", 0, backwards=False)
    until(lambda: bad.done)
    assert bad.error
    pages.close()


def test_terminals_and_options() -> None:
    for term in ("dumb", "", "unknown"):
        with pytest.raises(UsageError, match="livedbg report"):
            check_terminal({"TERM": term}, is_terminal=True)
    with pytest.raises(UsageError):
        check_terminal({"TERM": "xterm"}, is_terminal=False)
    check_terminal({"TERM": "xterm"}, is_terminal=True)
    assert colours_of(AppOptions(), {"NO_COLOR": "1", "TERM": "xterm-256color"}) is Colours.NONE
    assert colours_of(AppOptions(), {"TERM": "linux"}) is Colours.SIXTEEN
    assert colours_of(AppOptions(), {"TERM": "xterm-256color"}) is Colours.FULL
    assert interval_of(AppOptions(), {}) == 0.25
    assert interval_of(AppOptions(), {"SSH_CONNECTION": "x"}) == 0.5
    assert interval_of(AppOptions(low_bandwidth=True), {}) == 1.25
    utf8 = io.TextIOWrapper(io.BytesIO(), "utf-8")
    for environment in ({"LC_ALL": "C"}, {"LANG": "C"}, {"LANG": "POSIX"}, {"LANG": "C.UTF-8", "TERM": "linux"}):
        assert wants_ascii(AppOptions(), utf8, environment)
        assert not wants_ascii(AppOptions(ascii=False), utf8, environment)
    assert not wants_ascii(AppOptions(), utf8, {"LANG": "C", "LC_CTYPE": "C.UTF-8"})
    assert not wants_ascii(AppOptions(), utf8, {})
    assert wants_ascii(AppOptions(), io.TextIOWrapper(io.BytesIO(), "latin-1"), {"LANG": "de_DE"})


def test_times_and_counts() -> None:
    assert [elapsed(n * 1e9) for n in (0.0004, 0.5, 43.1, 302, 11_220, 187_200)] == [
        "0.4 ms", "0.5 s", "43.1 s", "5 m 02 s", "3 h 07 m", "2 d 04 h",
    ]  # fmt: skip
    assert stopwatch(43_000_000_000) == "00:43"
    assert stopwatch(3_729_000_000_000) == "1:02:09"
    assert [rate(n) for n in (0, 3, 1234, 12_100, 2_500_000)] == ["0", "3", "1,234", "12.1k", "2.5M"]


def test_every_panel_declares_itself_and_the_reference_has_it() -> None:
    reference = key_reference()
    for spec in VIEWS:
        for panel in spec.kinds:
            assert panel.LABEL
            assert panel.HELP in reference
            assert all(key.help in reference for key in panel.KEYS)
