"""Removal of a log's known wrappings from its lines.

Invariants:
    peeling.P1. A process that has written a line with its rank is that rank in all later lines that only name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import HEADING, LINE_LIMIT, REPORTS, Line, after_bar, apart, redrawn
from livedbg.logs.wrapping.certain import CERTAIN
from livedbg.logs.wrapping.prefixes import Layer
from livedbg.logs.wrapping.rows import begins_line
from livedbg.logs.writers import NO_TAG, Tag, merged
from livedbg.text.sanitize import clean

_DEEPEST: Final = 6  # wrappings around one line
_FIRSTS: Final = 256
_PROCESSES: Final = 100_000


class Known(NamedTuple):
    """A wrapping of a log.

    Attributes:
        first: the characters that its lines begin with; empty: any.
        once: it is around a line at most once.
        joins: it cut lines of any writer in pieces.
        rewrites: the text of a line is not in the file verbatim.
    """

    first: str
    open: Layer
    escaped: bool = False
    once: bool = False
    joins: bool = False
    rewrites: bool = False


class Plain(NamedTuple):
    """A line without its wrappings; those in `once` were taken off, and can't recur."""

    line: Line
    text: str
    tag: Tag
    wall_ns: int | None
    once: tuple[Known, ...] = ()


class Peeler:
    """Takes off known wrappings; `parts` has, by writer, the beginnings of lines whose rest comes later."""

    def __init__(self, clock: SourceClock) -> None:
        self._clock = clock
        self._of_first: dict[str, tuple[Known, ...]] = {}
        self.proved: list[Known] = []
        self.parts: dict[Tag, Plain] = {}
        self._ranks: dict[tuple[str, int], Tag] = {}  # by host and pid
        self.escaped = False
        self.stamped = False
        self.took = False

    def add(self, known: Known) -> None:
        self.proved.append(known)
        self._of_first.clear()

    def unwrapped(self, line: Line) -> Iterator[Plain]:
        """Yield the unwrapped texts of a line: none yet, or several."""
        for text in line.text.split("\n") if "\n" in line.text else (line.text,):
            yield from self.peeled(Plain(line, text, NO_TAG, None))

    def cleared(self, plains: Iterable[Plain]) -> list[Plain]:
        """Remove progress bars before lines, which may precede a wrapping; part reports from unfinished lines."""
        out: list[Plain] = []
        for plain in plains:
            text = plain.text
            rest = after_bar(text) if "%|" in text or HEADING in text else text
            if rest is not text:
                out += self.cleared(self.peeled(plain._replace(text=rest)))
            elif "==" in text and any(word in text for word in REPORTS):
                out += (plain._replace(text=piece) for piece in apart(text))
            else:
                out.append(plain)
        return out

    def peeled(self, plain: Plain) -> Iterator[Plain]:
        """Yield a line without its known wrappings."""
        line, text, tag, wall_ns, once = plain
        for _ in range(_DEEPEST):
            first = text[:1]
            layers = self._of_first.get(first)
            for layer in self._layers_of(first) if layers is None else layers:
                opened = None if layer in once else layer.open(text, self._clock)
                if opened is not None:
                    break
            else:
                break
            self.took = True
            if layer.once:
                once = (*once, layer)
            self.stamped = self.stamped or opened.wall_ns is not None
            text, tag = opened.text, merged(tag, opened.tag)
            wall_ns = opened.wall_ns if wall_ns is None else wall_ns  # one clock for all lines: the outer one
            before = self.parts.pop(tag, None) if self.parts else None
            if before is not None and layer.joins and begins_line(text):
                yield from self.peeled(before)
            elif before is not None:
                line, text = before.line, before.text + text
                wall_ns = before.wall_ns
            if opened.part and len(text) < LINE_LIMIT:
                self.parts[tag] = Plain(line, text, tag, wall_ns, once)
                return
            if layer.escaped:
                self.escaped = True
                text = clean("\n".join(map(redrawn, text.split("\n"))) if "\r" in text else text)
                if "\n" in text:
                    for piece in text.split("\n"):
                        yield from self.peeled(Plain(line, piece, tag, wall_ns, once))
                    return
        yield Plain(line, text, tag if tag.pid is None else self._ranked(tag), wall_ns, once)

    def _ranked(self, tag: Tag) -> Tag:
        """Return a tag with the rank of its process (P1)."""
        assert tag.pid is not None, "asked for a tag without a process"
        if tag.rank is None:
            known = self._ranks.get((tag.host, tag.pid)) if tag.writer == f"pid {tag.pid}" else None
            return tag if known is None else tag._replace(writer=known.writer, rank=known.rank)
        if len(self._ranks) < _PROCESSES:
            self._ranks[tag.host, tag.pid] = tag
        return tag

    def _layers_of(self, first: str) -> tuple[Known, ...]:
        if len(self._of_first) >= _FIRSTS:
            self._of_first.clear()
        known = [*self.proved, *(Known(one.first, one.open, one.escaped) for one in CERTAIN)]
        found = tuple(one for one in known if not one.first or (first and first in one.first))
        self._of_first[first] = found
        return found
