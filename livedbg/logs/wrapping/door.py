"""The front door of a log: every line passes it, and comes out without what launchers and collectors put around it.

Invariants:
    door.D1. The lines come out in their order, and each with the place of the physical line that it begins in.
    door.D2. A wrapping that no single line proves is taken off only once lines in a row have proved it
        (livedbg.logs.wrapping.guesses); these lines are unwrapped too.
    door.D3. Parts of a line that was cut by what wraps it are put together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LINE_LIMIT, Line
from livedbg.logs.wrapping.certain import CERTAIN, Certain
from livedbg.logs.wrapping.guesses import GUESSES
from livedbg.logs.wrapping.learned import learned
from livedbg.logs.wrapping.redraw import after_bar, redrawn
from livedbg.logs.wrapping.rows import LONGEST, Guess, Layer, Row
from livedbg.logs.wrapping.tags import NO_TAG, Tag, merged
from livedbg.text.sanitize import clean

__all__ = ["FrontDoor", "Plain"]

_DEEPEST: Final = 6  # wrappings around one line
_REJECTED: Final = 16  # rows after which a guess is not made any more
_FIRSTS: Final = 256


class Plain(NamedTuple):
    """A line without its wrappings.

    Attributes:
        line: where it was (its text is what was wrapped).
        text: what it says.
        tag: who wrote it.
        wall_ns: when, as a wrapping says.
        once: what was taken off, and can't be there again.
    """

    line: Line
    text: str
    tag: Tag
    wall_ns: int | None
    once: tuple[_Layer, ...] = ()


class _Layer(NamedTuple):
    """A wrapping that a log has.

    Attributes:
        escaped: the text in it is a JSON string.
        once: it is around a line at most once.
    """

    first: str
    open: Layer
    escaped: bool = False
    once: bool = False


class FrontDoor:
    """Unwraps the lines of one log.

    Args:
        clock: maps its time stamps.
    """

    def __init__(self, clock: SourceClock) -> None:
        self._clock = clock
        self._layers: list[_Layer] = []  # that were proved
        self._certain: list[Certain] = list(CERTAIN)
        self._guesses: list[Guess] = list(GUESSES)
        self._rejected: dict[Guess, int] = {}
        self._of_first: dict[str, tuple[_Layer, ...]] = {}
        self._guess_of_first: dict[str, tuple[Guess, ...]] = {}
        self._likely: dict[str, Callable[[str], object] | None] = {}  # what to ask whether a line may be wrapped
        self._row: list[Plain] = []  # lines that are held until the guesses are proved or given up
        self._guessed: list[Guess] = []
        self._from_first = False
        self._begun = False
        self._parts: dict[Tag, Plain] = {}
        self.escaped = False  # some text was a JSON string
        self.stamped = False  # some wrapping had a time

    @property
    def waiting(self) -> bool:
        """Whether lines are held back."""
        return bool(self._row or self._parts)

    def bare(self, text: str) -> bool:
        """Whether a line surely has no wrapping; it then comes out as it went in, and need not be taken."""
        if self._row or self._parts:
            return False
        try:
            likely = self._likely[text[:1]]
        except KeyError:
            likely = self._likely_of(text[:1])
        if likely is not None and likely(text) is not None:
            return False
        if "%|" in text or "\n" in text or "Traceback (" in text:
            return False
        self._begun = True
        return True

    def take(self, line: Line) -> Iterable[Plain]:
        """The lines that come out once `line` went in: it itself, more, or none yet."""
        text = line.text
        if self.bare(text):
            return (Plain(line, text, NO_TAG, None),)
        return self._considered(self._unwrapped(line))

    def open(self, line: Line) -> list[Plain]:
        """The same without holding lines back: with the wrappings that are known by now."""
        return list(self._unwrapped(line))

    @property
    def proved(self) -> bool:
        """Whether all lines must be unwrapped: by more than what stands in brackets before a line."""
        return bool(self._layers) or self.escaped or self.stamped

    def learn(self, lines: Iterable[Line]) -> list[Plain]:
        """See how lines are wrapped that come again; gives what they say."""
        plains = [plain for line in lines for plain in self.take(line)]
        plains += self.release()
        self._begun = False
        return plains

    def alone(self, line: Line) -> list[Plain]:
        """What a line says by itself, whatever comes before or after it."""
        parts, self._parts = self._parts, {}
        try:
            plains = list(self._unwrapped(line))
            return plains or [*self._parts.values()]
        finally:
            self._parts = parts

    def peek(self, text: str) -> list[str]:
        """What a line of the log would say, without being taken."""
        return [plain.text for plain in self.alone(Line(text, 0, None))]

    def release(self) -> list[Plain]:
        """No line comes for now: what is held comes out."""
        out = self._judged(whole=True) if self._row else []
        out += self._dropped()
        parts, self._parts = self._parts, {}
        for part in parts.values():
            out += self._peeled(part)
        return out

    # taking off what is known

    def _layers_of(self, first: str) -> tuple[_Layer, ...]:
        if len(self._of_first) >= _FIRSTS:
            self._changed()
        known = [*self._layers, *(_Layer(one.first, one.open, one.escaped) for one in self._certain)]
        found = tuple(one for one in known if not one.first or (first and first in one.first))
        self._of_first[first] = found
        self._guess_of_first[first] = tuple(one for one in self._guesses if first and first in one.first)
        return found

    def _likely_of(self, first: str) -> Callable[[str], object] | None:
        if len(self._likely) >= _FIRSTS:
            self._changed()
        proved = ["" for one in self._layers if not one.first or (first and first in one.first)]
        known: tuple[Certain | Guess, ...] = (*self._certain, *self._guesses)
        likely = [*proved, *(one.likely for one in known if first and first in one.first)]
        found = re.compile("|".join(dict.fromkeys(likely)), re.DOTALL).match if likely else None
        self._likely[first] = found
        return found

    def _changed(self) -> None:
        """What is kept by first character does not hold any more."""
        self._of_first.clear()
        self._guess_of_first.clear()
        self._likely.clear()

    def _unwrapped(self, line: Line) -> Iterator[Plain]:
        for text in line.text.split("\n") if "\n" in line.text else (line.text,):
            yield from self._peeled(Plain(line, text, NO_TAG, None))

    def _peeled(self, plain: Plain) -> Iterator[Plain]:
        """A line without the wrappings that are known."""
        line, text, tag, wall_ns, once = plain
        for _ in range(_DEEPEST):
            if "%|" in text:
                text = after_bar(text)
            first = text[:1]
            layers = self._of_first.get(first)
            for layer in self._layers_of(first) if layers is None else layers:
                opened = None if layer in once else layer.open(text, self._clock)
                if opened is not None:
                    break
            else:
                break
            if layer.once:
                once = (*once, layer)
            self.stamped = self.stamped or opened.wall_ns is not None
            text, tag = opened.text, merged(tag, opened.tag)
            wall_ns = wall_ns if opened.wall_ns is None else opened.wall_ns
            before = self._parts.pop(tag, None) if self._parts else None
            if before is not None:
                line, text = before.line, before.text + text
                wall_ns = before.wall_ns
            if opened.part and len(text) < LINE_LIMIT:
                self._parts[tag] = Plain(line, text, tag, wall_ns, once)
                return
            if layer.escaped:
                self.escaped = True
                text = clean("\n".join(map(redrawn, text.split("\n"))) if "\r" in text else text)
                if "\n" in text:
                    for piece in text.split("\n"):
                        yield from self._peeled(Plain(line, piece, tag, wall_ns, once))
                    return
        yield Plain(line, text, tag, wall_ns, once)

    # guessing

    def _considered(self, plains: Iterable[Plain]) -> list[Plain]:
        out: list[Plain] = []
        for plain in plains:
            out += self._guess(plain)
        return out

    def _guess(self, plain: Plain) -> list[Plain]:
        text = plain.text
        if not text or text.isspace():
            if not self._row:
                return [plain]
            self._row.append(plain)
            return self._dropped() if len(self._row) > 4 * LONGEST else []
        first_ever, self._begun = not self._begun, True
        out: list[Plain] = []
        if self._row:
            self._guessed = [one for one in self._guessed if one.open(text, self._clock) is not None]
            if self._guessed:
                self._row.append(plain)
                out = self._judged(whole=False)
                if not self._row or self._row[-1] is not plain or learned(text) is None:
                    return out
                self._row.pop()
            out += self._dropped()
        candidates = self._guess_of_first.get(text[:1])
        if candidates is None:
            self._layers_of(text[:1])
            candidates = self._guess_of_first[text[:1]]
        self._guessed = [one for one in candidates if one.open(text, self._clock) is not None]
        if (more := learned(text)) is not None:
            self._guessed.append(more)
        if not self._guessed:
            return [*out, plain]
        self._row, self._from_first = [plain], first_ever
        return out

    def _judged(self, whole: bool) -> list[Plain]:
        """Lines that come out because a guess is proved, or all are given up."""
        texts = [one.text for one in self._row if one.text and not one.text.isspace()]
        for guess in self._guessed:
            inner = [opened for text in texts if (opened := guess.open(text, self._clock)) is not None]
            layer = guess.proved(Row(texts, inner, self._from_first, whole))
            if layer is None:
                continue
            self._layers.append(_Layer(guess.first, layer, once=guess.once))
            if guess in self._guesses:
                self._guesses.remove(guess)
            self._changed()
            row, self._row, self._guessed = self._row, [], []
            self._begun = not self._from_first
            return self._considered(piece for one in row for piece in self._peeled(one))
        return self._dropped() if len(texts) >= LONGEST else []

    def _dropped(self) -> list[Plain]:
        """The guesses are given up."""
        row, self._row = self._row, []
        for guess in self._guessed:
            if guess in self._guesses:
                times = self._rejected[guess] = self._rejected.get(guess, 0) + 1
                if times >= _REJECTED:
                    self._guesses.remove(guess)
                    self._changed()
        self._guessed = []
        return row
