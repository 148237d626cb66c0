"""Detects pairs of markers in output: lines that are equal but for a word or two that means begin or end.

`launch pass 7` and `pass 7 ok` both contain `pass 7`. If for most such names the first line comes before the second,
`launch *` begins something and `* ok` ends it. No list of words is needed.

Invariants:
    marker_pairs.K2. A pair must repeat, for at least two names and at least three times in all. Nearly each end must
        have a begin, and at most _OPEN begins per run may lack their end.
    marker_pairs.K4. Memory and time are bounded by a limit on the lines of all runs together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["FoundPair", "found_pairs"]

_MOST_LINES: Final = 20_000  # of a run, the last ones
_MOST_TOGETHER: Final = 60_000  # of all runs: each line is read in some 16 ways
_MOST_WORDS: Final = 14
_MARK_WORDS: Final = 3  # a mark is at most so long
_MOST_PAIRS: Final = 4
_OPEN: Final = 3
_EDGE: Final = ".,:;…!()[]{}'\"`"


class _Mark(NamedTuple):
    """The constant words of a marker, and their place: before the name, after it, or within."""

    words: str
    place: int  # 0: before; -1: behind; else before the word of that number


@dataclass(frozen=True, slots=True)
class FoundPair:
    """Two marks, of which one begins and one ends something."""

    begin: _Mark
    end: _Mark

    @property
    def name(self) -> str:
        """Its name, as shown to users."""
        return f"{_shown(self.begin)} / {_shown(self.end)}"

    def begun(self, line: str) -> tuple[str, str] | None:
        """See Pair."""
        return _of(line, self.begin)

    def ended(self, line: str) -> tuple[str, str] | None:
        """See Pair."""
        return _of(line, self.end)


def _shown(mark: _Mark) -> str:
    return f"{mark.words} *" if mark.place == 0 else f"* {mark.words}" if mark.place < 0 else f"* {mark.words} *"


def _of(line: str, mark: _Mark) -> tuple[str, str] | None:
    return next((("", what) for found, what in _splits(line) if found == mark), None)


def found_pairs(runs: Sequence[Sequence[str]]) -> list[FoundPair]:
    """Detect the pairs in the lines of some runs, the best first."""
    follows: Counter[tuple[_Mark, _Mark]] = Counter()
    things: dict[tuple[_Mark, _Mark], set[str]] = defaultdict(set)
    seen: Counter[_Mark] = Counter()
    first: Counter[_Mark] = Counter()
    most = min(_MOST_LINES, _MOST_TOGETHER // max(len(runs), 1))
    for lines in runs:
        _count(lines[-most:], follows, things, seen, first)
    good = [
        (pair, count)
        for pair, count in follows.items()
        if count >= 3
        and len(things[pair]) >= 2
        and (count, first[pair[0]]) > (follows[pair[1], pair[0]], first[pair[1]])
        and count >= 0.9 * seen[pair[1]]
        and seen[pair[0]] - count <= _OPEN * len(runs)
    ]
    good.sort(key=lambda entry: (-entry[1], sum(len(mark.words) for mark in entry[0]), entry[0]))
    begins: set[_Mark] = set()
    ends: set[_Mark] = set()
    pairs: list[FoundPair] = []
    for (begin, end), _ in good:  # a chain of marks (start, forward, backward, done) is several pairs
        if begin not in begins and end not in ends:
            begins.add(begin)
            ends.add(end)
            pairs.append(FoundPair(begin, end))
    return pairs[:_MOST_PAIRS]


def _count(
    lines: Sequence[str],
    follows: Counter[tuple[_Mark, _Mark]],
    things: dict[tuple[_Mark, _Mark], set[str]],
    seen: Counter[_Mark],
    first: Counter[_Mark],
) -> None:
    """Count, for one run, which mark follows which for the same name."""
    last: dict[str, _Mark] = {}
    for line in lines:
        for mark, what in _splits(line):
            seen[mark] += 1
            before = last.get(what)
            if before is None:
                first[mark] += 1
            elif before != mark:
                follows[before, mark] += 1
                things[before, mark].add(what)
            last[what] = mark


def _splits(line: str) -> Iterator[tuple[_Mark, str]]:
    """All ways to split a line into a mark and a name."""
    words = [word for word in (part.strip(_EDGE) for part in line.split(None, _MOST_WORDS + 1)) if word]
    count = len(words)
    if not 2 <= count <= _MOST_WORDS:
        return
    for size in range(1, min(_MARK_WORDS, count - 1) + 1):
        for place, mark, rest in (
            (0, words[:size], words[size:]),
            (-1, words[count - size :], words[: count - size]),
        ):
            if all(map(_constant, mark)):
                yield _Mark(" ".join(mark), place), " ".join(rest)
    for place in range(1, count - 1):
        if _constant(words[place]):
            yield _Mark(words[place], place), " ".join([*words[:place], *words[place + 1 :]])


def _constant(word: str) -> bool:
    """Whether it may be a word of a mark: it has no digit."""
    return not any(map(str.isdigit, word))
