"""A picture of the wait-for graph around the selection: blockers above, waiters below."""

from __future__ import annotations

from typing import Final

from rich.style import Style
from textual import events
from textual.geometry import Size

from livedbg.panels.base import Key, LinePanel, Opened, Picked
from livedbg.panels.cells import Line, fit, width_of
from livedbg.panels.draw_context import ASCII, DrawContext
from livedbg.panels.neighbourhood import Box, Layout, Neighbourhood, Scope, Wire, around, arrange, missing_edges
from livedbg.panels.verdict import at
from livedbg.text.quantities import count, elapsed
from livedbg.themes import Role

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES: Final = {
    0: " ", 1: "│", 2: "│", 3: "│", 4: "─", 8: "─", 12: "─", 5: "╯", 9: "╰", 6: "╮", 10: "╭",
    7: "┤", 11: "├", 13: "┴", 14: "┬", 15: "┼",
}  # fmt: skip
_ASCII: Final = {"│": "|", "─": "-", " ": " "}


class Canvas:
    """A grid of cells for line drawing; later drawings are on top, and lines join where they meet."""

    def __init__(self, width: int, height: int, *, ascii_only: bool = False) -> None:
        self.width, self.height = width, height
        self._ascii = ascii_only
        self._lines: dict[tuple[int, int], tuple[int, Style]] = {}
        self._texts: dict[int, list[tuple[int, str, int, Style]]] = {}

    def wire(self, x0: int, y0: int, x1: int, y1: int, style: Style) -> None:
        """Draw a straight line, ends included; it joins the lines that it meets."""
        if x0 == x1:
            low, high = sorted((y0, y1))
            for y in range(low, high + 1):
                self._mark(x0, y, (_UP if y > low else 0) | (_DOWN if y < high else 0), style)
        else:
            low, high = sorted((x0, x1))
            for x in range(low, high + 1):
                self._mark(x, y0, (_LEFT if x > low else 0) | (_RIGHT if x < high else 0), style)

    def box(self, x: int, y: int, width: int, height: int, style: Style) -> None:
        """Draw a frame, clearing the area."""
        for row in range(y, y + height):
            for column in range(x, x + width):
                self._lines.pop((column, row), None)
        right, bottom = x + width - 1, y + height - 1
        for row in (y, bottom):
            self.wire(x, row, right, row, style)
        for column in (x, right):
            self.wire(column, y, column, bottom, style)

    def text(self, x: int, y: int, text: str, width: int, style: Style) -> None:
        self._texts.setdefault(y, []).append((x, text, width, style))

    def sign(self, column: int, row: int) -> str:
        """Return the line character of a cell."""
        mask, _style = self._lines.get((column, row), (0, None))
        sign = _LINES[mask]
        return _ASCII.get(sign, "+") if self._ascii else sign

    def draw(self, y: int, left: int, line: Line) -> None:
        """Draw one row of the canvas, from column `left` on."""
        texts = sorted(self._texts.get(y, ()), key=lambda item: item[0])
        column = left
        for x, text, width, style in texts:
            if x + width <= column or x >= left + line.width:
                continue
            self._draw_lines(y, column, x, line)
            cut = max(column - x, 0)
            line.add(fit(text, width)[cut:], style)
            column = max(x, column) + width - cut
        self._draw_lines(y, column, left + line.width, line)

    def _draw_lines(self, y: int, start: int, end: int, line: Line) -> None:
        for column in range(start, end):
            cell = self._lines.get((column, y))
            line.cell(self.sign(column, y), 1, cell[1] if cell else None)

    def _mark(self, x: int, y: int, mask: int, style: Style) -> None:
        old = self._lines.get((x, y))
        self._lines[x, y] = (mask | (old[0] if old else 0), style)


_HEIGHT = 4
_WIDE = 120  # cells of a screen on which boxes may be wider
_MOST, _WIDEST = 40, 56  # cells of a label, at most
_LACKS = " missing "


class GraphPanel(LinePanel, scope="graph"):
    """A neighbourhood of the graph, never all of it."""

    LABEL = "Graph"
    HELP = (
        "Nodes above are waited for, nodes below wait; an edge points at what is waited for. The edges of a cycle "
        "are red; a missing dependency is labelled. `w` switches between the wait chain of the selection, its "
        "neighbourhood and all roots; + and - change the number of hops."
    )
    KEYS = (
        Key("left,h", "← h", "side(-1)", "node on the left", "node-left"),
        Key("right,l", "→ l", "side(1)", "node on the right", "node-right"),
        Key("w", "w", "scope", "switch between wait chain, neighbourhood and all roots"),
        Key("plus,equals_sign", "+", "hops(1)", "show one more hop", "hops-more"),
        Key("minus", "-", "hops(-1)", "show one hop less", "hops-fewer"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.scope = Scope.AROUND
        self.hops = 0
        self.shown_hops = 2
        self.part = Neighbourhood()
        self.layout_ = Layout({}, ())
        self._canvas: Canvas | None = None
        self._centre: str | None = None
        self._key: object = None
        self._cycles: list[set[str]] = []
        self._missing: tuple[tuple[str, str], ...] = ()

    def context_changed(self, before: DrawContext) -> None:
        """Lay out again if the graph, the centre or the scope changed; else redraw the states."""
        selection = self.context.selection
        if self._centre is None or selection not in self.layout_.boxes:
            self._centre = selection
        graph = self.context.diagnosis.graph
        missing = missing_edges(self.context.diagnosis, self.context.snapshot.edges)
        key = (id(graph), self.context.diagnosis.verdict.roots, self._centre, self.scope, self.hops, missing)
        if key != self._key:
            self._key, self._missing = key, missing
            self._arrange()
        self._canvas = None
        hidden = f"{count(self.part.hidden)} more beyond" if self.part.hidden else ""
        hops = f"{self.shown_hops} hops" if self.scope is not Scope.CHAIN else ""
        names = "  ".join(filter(None, (self.LABEL, self.scope.value, hops)))
        self.title(names, hidden)

    def _arrange(self) -> None:
        """Choose and lay out nodes, with as many hops as fit on the screen, unless the user chose `hops`."""
        room = self.size
        fan = max(2, room.width // 30)
        for hops in [self.hops] if self.hops else range(2, 9):
            part = around(self.context.diagnosis, self._centre, self.scope, hops, fan, missing=self._missing)
            widths = {node: self._width(node) for node in part.nodes}
            layout = arrange(part.nodes, part.edges, widths, _HEIGHT)
            fits = layout.width <= room.width - 4 and layout.height <= room.height - 2
            if not (self.hops or hops == 2 or fits):
                break
            self.part, self.layout_, self.shown_hops = part, layout, hops
            if not part.hidden or not fits:
                break
        shown = self.layout_.boxes.keys()
        cycles = (shown & set(one) for one in self.context.diagnosis.graph.cycles)
        self._cycles = [cycle for cycle in cycles if cycle]
        chosen = self.layout_.boxes.get(self.context.selection or "")
        if chosen is not None:
            self.call_after_refresh(self._show, chosen)

    def resize_rows(self) -> None:
        size = Size(self.layout_.width + 2, self.layout_.height)
        if size != self.virtual_size:
            self.virtual_size = size

    def count(self) -> int:
        return self.layout_.height

    def entity(self, index: int) -> str | None:
        """Return the selected node, for any line."""
        return self.context.selection if self.context.selection in self.layout_.boxes else None

    def follow(self, entity: str) -> None:
        box = self.layout_.boxes.get(entity)
        if box is not None:
            self._canvas = None
            self._show(box)

    def line(self, index: int, width: int) -> Line:
        drawn = Line(width, self.context.ink.base)
        if self._canvas is None:
            self._canvas = self._paint()
        left = int(self.scroll_offset.x)
        spare = max((width - self.layout_.width) // 2, 0)
        self._canvas.draw(index, left - spare, drawn)
        return drawn

    def placeholder(self) -> str:
        return "There are no waits."

    def copy_text(self) -> str:
        """Return the selected node's label, or the picture."""
        chosen = self.entity(0)
        if chosen is not None:
            return self.context.names.label(chosen)
        return "\n".join(self.line(y, self.layout_.width).strip().text.rstrip() for y in range(self.count()))

    # the picture

    def _texts(self, node: str) -> tuple[str, str]:
        names, glyphs = self.context.names, self.context.glyphs
        mark = names.mark(node, self.context.stalled)
        age = elapsed(names.age_ns(node))
        behind = self.context.diagnosis.graph.behind(node)
        state = " ".join(filter(None, (mark.sign(glyphs), mark.word, age)))
        place = at(self.context, node)
        shown = f"{state}  {behind} behind" if behind else state
        return names.label(node), f"{shown}  {place}" if place else shown

    def _width(self, node: str) -> int:
        label, state = self._texts(node)
        most = _WIDEST if self.size.width >= _WIDE else _MOST
        return min(max(width_of(label), width_of(state) + 1, 16), most) + 4

    def _paint(self) -> Canvas:
        context, ink = self.context, self.context.ink
        canvas = Canvas(self.layout_.width, self.layout_.height, ascii_only=context.glyphs is ASCII)
        selection = context.selection
        for wire in sorted(self.layout_.wires, key=self._closes):  # those of a cycle on top
            strong = selection in {wire.waiter, wire.blocker}
            bad = self._closes(wire) or self._is_missing(wire)
            style = ink.style(Role.BAD if bad else Role.ACCENT if strong else Role.FAINT)
            for (x0, y0), (x1, y1) in zip(wire.points, wire.points[1:], strict=False):
                canvas.wire(x0, y0, x1, y1, style)
        for box in self.layout_.boxes.values():
            self._paint_box(canvas, box)
        for wire in self.layout_.wires:
            (x, y), arrow = (
                (wire.points[0], context.glyphs.up) if wire.upward else (wire.points[-1], context.glyphs.down)
            )
            canvas.text(x, y, arrow, 1, ink.style(Role.BAD if self._closes(wire) else Role.DIM))
            if self._is_missing(wire):
                (x, y), above = wire.points[-1], wire.points[0][1]
                canvas.text(
                    max(x - len(_LACKS) // 2, 0), max(y - 1, above + 1), _LACKS, len(_LACKS), ink.style(Role.BAD)
                )
        return canvas

    def _is_missing(self, wire: Wire) -> bool:
        return (wire.waiter, wire.blocker) in self.part.missing

    def _closes(self, wire: Wire) -> bool:
        """Return whether a line is part of a cycle."""
        return not wire.upward or any({wire.waiter, wire.blocker} <= cycle for cycle in self._cycles)

    def _paint_box(self, canvas: Canvas, box: Box) -> None:
        context, ink = self.context, self.context.ink
        chosen = box.node == context.selection
        mark = context.names.mark(box.node, context.stalled)
        root = box.node in context.diagnosis.verdict.roots
        frame = Role.ACCENT if chosen else mark.role if root else Role.FAINT
        canvas.box(box.x, box.y, box.width, box.height, ink.style(frame, bold=chosen))
        label, state = self._texts(box.node)
        inner = box.width - 2
        text = ink.selected if chosen else ink.style(Role.TEXT, bold=root)
        canvas.text(box.x + 1, box.y + 1, f" {label}", inner, text)
        canvas.text(box.x + 1, box.y + 2, f" {state}", inner, ink.selected if chosen else ink.style(mark.role))

    # moving

    def on_resize(self) -> None:
        """Lay out again: another size has room for more or fewer hops."""
        self._key = None
        self.context_changed(self.context)
        super().on_resize()

    def action_move(self, rows: int) -> None:
        """Move to the nearest node of the next layer."""
        box = self._box()
        if box is not None:
            step = 1 if rows > 0 else -1
            layer = [b for b in self.layout_.boxes.values() if b.layer == box.layer + step]
            self._pick(min(layer, key=lambda b: abs(b.middle - box.middle), default=None))

    def action_page(self, pages: int) -> None:
        self.scroll_relative(y=pages * self.page_rows, animate=False)

    def action_edge(self, side: int) -> None:
        """Move to the first or the last layer."""
        boxes = sorted(self.layout_.boxes.values(), key=lambda b: (b.layer, b.x))
        if boxes:
            self._pick(boxes[0] if side < 0 else boxes[-1])

    def action_side(self, step: int) -> None:
        """Move to the next node of the same layer."""
        box = self._box()
        if box is not None:
            row = sorted((b for b in self.layout_.boxes.values() if b.layer == box.layer), key=lambda b: b.x)
            at = row.index(box) + step
            self._pick(row[at] if 0 <= at < len(row) else None)

    def action_open(self) -> None:
        chosen = self.entity(0)
        if chosen is not None:
            self.post_message(Opened(chosen))

    def action_scope(self) -> None:
        scopes = list(Scope)
        self.scope = scopes[(scopes.index(self.scope) + 1) % len(scopes)]
        self.centre()

    def action_hops(self, step: int) -> None:
        self.hops = max(1, min((self.hops or self.shown_hops) + step, 9))
        self.centre()

    def centre(self) -> None:
        """Draw again around the selection."""
        self._centre = self.context.selection or self._centre
        self.context_changed(self.context)
        self.resize_rows()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Select a node by mouse; a double click opens it."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        spare = max((self.scrollable_content_region.width - self.layout_.width) // 2, 0)
        x, y = offset.x + int(self.scroll_offset.x) - spare, offset.y + int(self.scroll_offset.y)
        for box in self.layout_.boxes.values():
            if box.x <= x < box.x + box.width and box.y <= y < box.y + box.height:
                self._pick(box)
                if event.chain == 2:
                    self.post_message(Opened(box.node))

    def _box(self) -> Box | None:
        chosen = self.layout_.boxes.get(self.context.selection or "")
        return chosen or next(iter(self.layout_.boxes.values()), None)

    def _pick(self, box: Box | None) -> None:
        if box is not None:
            self.post_message(Picked(box.node))

    def _show(self, box: Box) -> None:
        width, height = self.scrollable_content_region.size
        x, y = int(self.scroll_target_x), int(self.scroll_target_y)
        if not (x <= box.x and box.x + box.width <= x + width and y <= box.y and box.y + box.height <= y + height):
            self.scroll_to(max(box.middle - width // 2, 0), max(box.y - height // 3, 0), animate=False)
