"""The front door of a log: takes off every line what launchers and collectors put around it.

Invariants:
    door.D1. The lines of each writer come out in their order, and each with the place of the physical line that it
        begins in.
    door.D2. A wrapping that no single line proves is taken off only once consecutive lines have proved it
        (livedbg.logs.wrapping.guesses); these lines are unwrapped too. Lines of other writers between them don't count.
    door.D3. Parts of a line that was cut by its wrapper are joined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import HEADING, REPORTS, Line, after_bar
from livedbg.logs.wrapping.certain import CERTAIN, Certain
from livedbg.logs.wrapping.guesses import GUESSES
from livedbg.logs.wrapping.heads import HEAD, Watch, learned, watching
from livedbg.logs.wrapping.opening import FIRST_LINES, shown_by
from livedbg.logs.wrapping.peeling import Known, Peeler, Plain
from livedbg.logs.wrapping.rows import LONGEST, Guess, Row
from livedbg.logs.writers import NO_TAG, Tag

__all__ = ["UNCALM", "FrontDoor", "Plain"]

UNCALM: Final = ("%|", "Traceback (", *REPORTS)
"""What makes a line worth a closer look wherever it stands: a progress bar, a traceback, a sanitizer's report."""

_REJECTED: Final = 16  # rows after which a guess is not made any more
_FIRSTS: Final = 256
_ROWS: Final = 256  # writers whose lines are held at once
_FRAME: Final = '  File "'


class _Held:
    """Lines of one writer that are held until guesses about them are proved or given up.

    Attributes:
        from_first: no line of the log came before them.
        learning: the first one shows a prefix by itself.
    """

    __slots__ = ("from_first", "guessed", "learning", "plains")

    def __init__(self, plain: Plain, guessed: list[Guess], from_first: bool, *, learning: bool) -> None:
        self.plains, self.guessed, self.from_first, self.learning = [plain], guessed, from_first, learning


class FrontDoor:
    """Unwraps the lines of one log."""

    def __init__(self, clock: SourceClock) -> None:
        self._clock = clock
        self._peeler = Peeler(clock)
        self._guesses: list[Guess] = list(GUESSES)
        self._rejected: dict[Guess, int] = {}
        self._guess_of_first: dict[str, tuple[tuple[Callable[[str], object], Guess], ...]] = {}
        self._likely: dict[str, Callable[[str], object] | None] = {}  # what to ask whether a line may be wrapped
        self._held: dict[Tag, _Held] = {}
        self._watch: Watch | None = None  # for what shows that a head stands before what another program wrote
        self._begun = False
        self._rewrites = False
        self.looked = False

    @property
    def waiting(self) -> bool:
        """Return whether lines are held back."""
        return bool(self._held or self._peeler.parts)

    @property
    def escaped(self) -> bool:
        """Return whether some text was a JSON string."""
        return self._peeler.escaped

    @property
    def proved(self) -> bool:
        """Return whether all lines must be unwrapped: by more than text in brackets before a line."""
        return bool(self._peeler.proved) or self._peeler.escaped or self._peeler.stamped

    @property
    def rewrites(self) -> bool:
        """Return whether the text of lines can't be searched for in the file itself."""
        return self._rewrites

    @property
    def wraps(self) -> bool:
        return self._peeler.took

    def see(self, lines: Sequence[Line]) -> None:
        """Learn from the first lines of the log together, before they are taken; later calls do nothing."""
        if self.looked or not lines:
            return
        self.looked = True
        texts = [line.text for line in lines[:FIRST_LINES]]
        self._clock.learn(texts)
        for known in shown_by(texts):
            self._peeler.add(known)
            self._rewrites = self._rewrites or known.rewrites
        self._changed()

    def bare(self, text: str) -> bool:
        """Return whether a line surely has no wrapping; it then needs no `take`."""
        if self._held or self._peeler.parts:
            return False
        try:
            likely = self._likely[text[:1]]
        except KeyError:
            likely = self._likely_of(text[:1])
        if likely is not None and likely(text) is not None:
            return False
        if "%|" in text or "\n" in text or "Traceback (" in text:
            return False
        if "==" in text and any(word in text for word in REPORTS):
            return False
        if self._watch is not None and self._watch(text) is not None:
            return False
        self._begun = True
        return True

    def bare_row(self, texts: Sequence[str]) -> int:
        """Return how many of some lines without UNCALM, from the first on, are bare."""
        if self._held or self._peeler.parts:
            return 0
        known, watch = self._likely, self._watch
        for number, text in enumerate(texts):
            first = text[:1]
            likely = known[first] if first in known else self._likely_of(first)
            if (likely is not None and likely(text) is not None) or (watch is not None and watch(text) is not None):
                return number
            self._begun = True
        return len(texts)

    def take(self, line: Line) -> Iterable[Plain]:
        """Return the lines that come out after `line` went in: it itself, more, or none yet."""
        text = line.text
        if self.bare(text):
            return (Plain(line, text, NO_TAG, None),)
        return self._peeler.cleared(self._considered(self._peeler.unwrapped(line)))

    def open(self, line: Line) -> list[Plain]:
        """Unwrap a line with the wrappings known so far, without holding it back."""
        return self._peeler.cleared(self._peeler.unwrapped(line))

    def learn(self, lines: Iterable[Line]) -> list[Plain]:
        """Learn the wrappings of lines that will be fed again; return the unwrapped lines."""
        lines = list(lines)
        self.see(lines)
        plains = [plain for line in lines for plain in self.take(line)]
        plains += self.release()
        self._begun = False
        return plains

    def alone(self, line: Line) -> list[Plain]:
        """Unwrap a line by itself, whatever comes before or after it."""
        parts, self._peeler.parts = self._peeler.parts, {}
        try:
            plains = self.open(line)
            return plains or [*self._peeler.parts.values()]
        finally:
            self._peeler.parts = parts

    def peek(self, text: str) -> list[str]:
        """Return the unwrapped texts of a line, without taking it."""
        return [plain.text for plain in self.alone(Line(text, 0, None))]

    def release(self) -> list[Plain]:
        """Return the lines that are held: no line comes for now."""
        out: list[Plain] = []
        while self._held:
            tag = next(iter(self._held))
            out += self._judged(tag, whole=True)
            out += self._dropped(tag) if tag in self._held else []
        parts, self._peeler.parts = self._peeler.parts, {}
        for part in parts.values():
            out += self._peeler.peeled(part)
        return self._peeler.cleared(out)

    # what a line may be wrapped in

    def _likely_of(self, first: str) -> Callable[[str], object] | None:
        if len(self._likely) >= _FIRSTS:
            self._changed()
        proved = ["" for one in self._peeler.proved if not one.first or (first and first in one.first)]
        known: tuple[Certain | Guess, ...] = (*CERTAIN, *self._guesses)
        likely = [*proved, *(one.likely for one in known if first and first in one.first)]
        found = re.compile("|".join(dict.fromkeys(likely)), re.DOTALL).match if likely else None
        self._likely[first] = found
        return found

    def _guesses_of(self, first: str) -> Sequence[tuple[Callable[[str], object], Guess]]:
        known = self._guess_of_first.get(first)
        if known is None:
            if len(self._guess_of_first) >= _FIRSTS:
                self._changed()
            guesses = [one for one in self._guesses if first and first in one.first]
            known = tuple((re.compile(one.likely, re.DOTALL).match, one) for one in guesses)
            self._guess_of_first[first] = known
        return known

    def _changed(self) -> None:
        self._guess_of_first.clear()
        self._likely.clear()

    # guessing

    def _considered(self, plains: Iterable[Plain]) -> list[Plain]:
        out: list[Plain] = []
        for plain in plains:
            out += self._guess(plain)
        return out

    def _again(self, plains: Iterable[Plain]) -> list[Plain]:
        return self._considered(piece for one in plains for piece in self._peeler.peeled(one))

    def _guess(self, plain: Plain) -> list[Plain]:
        text, tag = plain.text, plain.tag
        held = self._held.get(tag)
        if not text or text.isspace():
            if held is None:
                return [plain]
            held.plains.append(plain)
            return self._dropped(tag) if len(held.plains) > 4 * LONGEST else []
        first_ever, self._begun = not self._begun, True
        out: list[Plain] = []
        if held is not None:
            fitting = [one for one in held.guessed if one.open(text, self._clock) is not None]
            if fitting:
                held.guessed = fitting
                held.plains.append(plain)
                return self._judged(tag, whole=False)
            held.guessed = []
            out = self._dropped(tag)
            if tag in self._held:  # a line in it shows a prefix by itself
                return [*out, *self._again([plain])]
        if self._held and tag is NO_TAG and text.startswith(_FRAME):
            out += self._alone(plain)
        likely = [guess for likely, guess in self._guesses_of(text[:1]) if likely(text) is not None]
        guessed = [guess for guess in likely if guess.open(text, self._clock) is not None]
        if not guessed and ("%|" in text or HEADING in text) and (rest := after_bar(text)) is not text:
            return [*out, *self._again([plain._replace(text=rest)])]
        more = None if guessed else learned(text, self._watch)
        if more is not None:
            guessed.append(more)
        if not guessed or len(self._held) >= _ROWS:
            return [*out, plain]
        self._held[tag] = _Held(plain, guessed, first_ever, learning=more is not None)
        return out

    def _alone(self, frame: Plain) -> list[Plain]:
        """Return the beginning of a traceback right above, if its writer tags only the first line of a message."""
        above = (frame.line.number or 0) - 1
        tags = [one for one, held in self._held.items() if one is not NO_TAG and held.learning]
        alone = [one for one in tags if [plain.line.number for plain in self._held[one].plains] == [above]]
        return [plain for one in alone for plain in self._dropped(one)]

    def _judged(self, tag: Tag, whole: bool) -> list[Plain]:
        """Return lines that come out because a guess is proved, or all are given up."""
        held = self._held[tag]
        texts = [one.text for one in held.plains if one.text and not one.text.isspace()]
        for guess in held.guessed:
            inner = [opened for text in texts if (opened := guess.open(text, self._clock)) is not None]
            layer = guess.proved(Row(texts, inner, held.from_first, whole))
            if layer is None:
                continue
            self._peeler.add(Known(guess.first, layer, once=True))
            if guess in self._guesses:
                self._guesses.remove(guess)
            self._changed()
            rows, self._held = self._held, {}
            self._begun = not held.from_first
            return self._again(plain for row in (rows.pop(tag), *rows.values()) for plain in row.plains)
        return self._dropped(tag) if len(texts) >= LONGEST else []

    def _dropped(self, tag: Tag) -> list[Plain]:
        held = self._held.pop(tag)
        row = held.plains
        if self._watch is None and HEAD in held.guessed:
            self._watch = watching([plain.text for plain in row])
        for guess in held.guessed:
            if guess in self._guesses:
                times = self._rejected[guess] = self._rejected.get(guess, 0) + 1
                if times >= _REJECTED:
                    self._guesses.remove(guess)
                    self._changed()
        for number in range(1 if held.learning else 0, len(row)):
            more = learned(row[number].text, self._watch)
            if more is not None:
                self._held[tag] = _Held(row[number], [more], held.from_first and not number, learning=True)
                return [*row[:number], *self._again(row[number + 1 :])]
        return row
