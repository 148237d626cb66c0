"""What the terminal shows after updates that write only cells that differ, beside what Textual's own output gives."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from livedbg.app.cell_updates import ShownCells
from tests.app.terminal import Terminal

WIDTH = 12
CONSOLE = Console(force_terminal=True, color_system="256", width=WIDTH)
STYLES = [
    Style(), Style(color="red"), Style(color="#123456", bgcolor="#654321"), Style(bgcolor="blue", bold=True),
    Style(bold=True), Style(dim=True, italic=True, color="red"), Style(reverse=True), Style(color="red", bold=False),
]  # fmt: skip
_TOKEN = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[([\d;]*)m|(\n)|([^\x1b])")


class Emulator:
    """A terminal that knows what these outputs consist of: text, CUP, SGR and a line feed."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, frozenset[str]]] = {}

    def feed(self, output: str) -> None:
        """Show a text; its attributes end with it."""
        x = y = 0
        attributes: dict[str, str] = {}
        at = 0
        for token in _TOKEN.finditer(output):
            assert token.start() == at, output[at:]
            at = token.end()
            line, column, codes, feed, sign = token.groups()
            if line:
                x, y = int(column) - 1, int(line) - 1
            elif codes is not None:
                _select(attributes, codes)
            elif feed:
                x, y = 0, y + 1
            else:
                width = get_character_cell_size(sign)
                if not width:
                    before = (x - 1, y) if self.cells[x - 1, y][0] else (x - 2, y)
                    text, style = self.cells[before]
                    self.cells[before] = (text + sign, style)
                    continue
                shown = frozenset(f"{key}={value}" for key, value in attributes.items())
                self.cells[x, y] = (sign, shown)
                if width == 2:
                    self.cells[x + 1, y] = ("", shown)
                x += width
        assert at == len(output)
        assert not attributes, "attributes are left on"


def _select(attributes: dict[str, str], parameters: str) -> None:
    codes = parameters.split(";")
    while codes:
        code = codes.pop(0)
        if code in ("", "0"):
            attributes.clear()
        elif code in ("38", "48"):
            kind = codes.pop(0)
            attributes[code] = ";".join([kind, *(codes.pop(0) for _ in range(1 if kind == "5" else 3))])
        elif int(code) >= 30:
            attributes["38" if code[0] in "39" and len(code) == 2 else "48"] = code
        else:
            attributes[code] = "on"


def _strip(pieces: list[tuple[str, int]]) -> Strip:
    strip = Strip([Segment(text, STYLES[style]) for text, style in pieces])
    return strip.adjust_cell_length(WIDTH, STYLES[0])


TEXT = st.text(alphabet="ab c─é日本", min_size=1, max_size=6)
STRIPS = st.lists(st.tuples(TEXT, st.integers(0, len(STYLES) - 1)), min_size=1, max_size=5).map(_strip)
UPDATES = st.lists(st.tuples(STRIPS, st.integers(0, 1), st.booleans()), max_size=8)


def _chops(strip: Strip, y: int, begin: int, end: int) -> ChopsUpdate:
    lines: list[dict[int, Strip | None]] = [{0: None}, {0: None}]
    lines[y][0] = strip
    return ChopsUpdate(lines, [(y, begin, end)], [[WIDTH], [WIDTH]])


@pytest.mark.invariant("cell_updates.E1")
@given(st.tuples(STRIPS, STRIPS), UPDATES)
def test_E1_the_terminal_shows_what_all_of_the_output_would_show(
    first: tuple[Strip, Strip], updates: list[tuple[Strip, int, bool]]
) -> None:
    shown, ours, whole = ShownCells(), Emulator(), Emulator()
    current = list(first)
    begun = LayoutUpdate([[strip] for strip in first], Region(0, 0, WIDTH, 2))
    for terminal, update in ((ours, shown.update(begun, (WIDTH, 2))), (whole, begun)):
        terminal.feed(update.render_segments(CONSOLE))
    assert ours.cells == whole.cells
    for strip, y, all_of_it in updates:
        current[y] = strip
        one: CompositorUpdate
        if all_of_it:
            one = LayoutUpdate([[line] for line in current], Region(0, 0, WIDTH, 2))
        else:
            one = _chops(strip, y, 0, WIDTH)
        ours.feed(shown.update(one, (WIDTH, 2)).render_segments(CONSOLE))
        whole.feed(one.render_segments(CONSOLE))
        assert ours.cells == whole.cells


def test_one_digit_that_changes_is_one_cell() -> None:
    shown = ShownCells()
    before, after = (_strip([("waits ", 2), (f"{number} s", 3)]) for number in (41, 42))
    shown.update(_chops(before, 0, 0, WIDTH), (WIDTH, 2)).render_segments(CONSOLE)
    output = shown.update(_chops(after, 0, 0, WIDTH), (WIDTH, 2)).render_segments(CONSOLE)
    assert re.sub(r"\x1b\[[\d;]*m", "", output) == "\x1b[1;8H2"


def test_cells_outside_of_the_span_are_left_alone() -> None:
    shown = ShownCells()
    shown.update(_chops(_strip([("aaaaaaaaaaaa", 0)]), 0, 0, WIDTH), (WIDTH, 2)).render_segments(CONSOLE)
    output = shown.update(_chops(_strip([("bbbbbbbbbbbb", 0)]), 0, 3, 5), (WIDTH, 2)).render_segments(CONSOLE)
    assert output == "\x1b[1;4Hbb"


@pytest.mark.invariant("cell_updates.E2")
def test_E2_an_update_of_the_whole_screen_is_written_whole() -> None:
    shown = ShownCells()
    update = LayoutUpdate([[_strip([("aaaaaaaaaaaa", 0)])]], Region(0, 0, WIDTH, 1))
    outputs = [shown.update(update, (WIDTH, 2)).render_segments(CONSOLE) for _ in range(2)]
    assert outputs[0] == outputs[1] == "\x1b[1;1H" + "a" * WIDTH


@pytest.mark.invariant("cell_updates.E2")
def test_E2_after_a_resize_nothing_is_taken_for_shown() -> None:
    shown = ShownCells()
    strip = _strip([("aaaaaaaaaaaa", 0)])
    outputs = [
        shown.update(_chops(strip, 0, 0, WIDTH), (width, 2)).render_segments(CONSOLE)
        for width in (WIDTH, WIDTH, WIDTH + 1)
    ]
    assert [len(output) > 0 for output in outputs] == [True, False, True]


def test_an_update_that_is_not_written_is_not_taken_for_shown() -> None:
    shown = ShownCells()
    update = _chops(_strip([("aaaaaaaaaaaa", 0)]), 0, 0, WIDTH)
    shown.update(update, (WIDTH, 2))
    assert shown.update(update, (WIDTH, 2)).render_segments(CONSOLE)


def test_the_app_resets_attributes_once_an_update_and_not_for_each_piece() -> None:
    with Terminal("deadlock") as terminal:
        terminal.until(b"DEADLOCK")
        terminal.type(b"j")
        terminal.type(b"q")
        assert terminal.wait() == 0
        assert terminal.output.count(b"\x1b[0m") > 1
        assert re.search(rb"\x1b\[0m\x1b\[[\d;]+m", terminal.output) is None
