"""Finds the last step of each run in its output: the last marker that began and did not end, and the last line.

Lines of output are normalised, so that runs can be compared. Markers are lines that report the begin or the end of a
step. A run is in the last step that began and did not end.

Pairs of markers are detected: lines that are equal but for a word or two that means begin or end. `launch pass 7` and
`pass 7 ok` both contain `pass 7`. If for most such names the first line comes before the second, `launch *` begins
something and `* ok` ends it. No list of words is needed.

Invariants:
    marking.K3. Output is read from its files when needed: the memory for a run does not grow with its output.
    marking.L1. At most _MOST_BYTES of a file are read: of a longer file, the beginning is skipped.
    marking.L2. What differs from run to run without a meaning (times, durations, addresses) is removed from a line.
    marking.A1. An end closes the newest begin of the same step in the same lane; an end without a begin closes nothing.
    marking.B2. A pair must repeat, for at least two names and at least three times in all. Nearly each end must have a
        begin, and at most _OPEN begins per run may lack their end.
    marking.B4. Memory and time are bounded by a limit on the lines of all runs together.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from livedbg.repeats.outcome import RunEnd
from livedbg.session.systems import systems
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready

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


Step = tuple[str, str]
"""A lane, or "", and what is done there."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Recognises the lines that begin a step and those that end it: each function returns that step, or None."""

    name: str
    begun: Callable[[str], Step | None]
    ended: Callable[[str], Step | None]


def _shown(mark: _Mark) -> str:
    return f"{mark.words} *" if mark.place == 0 else f"* {mark.words}" if mark.place < 0 else f"* {mark.words} *"


def _of(mark: _Mark, line: str) -> Step | None:
    return next((("", what) for found, what in _splits(line) if found == mark), None)


def found_pairs(runs: Sequence[Sequence[str]]) -> list[Pair]:
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
    pairs: list[Pair] = []
    for (begin, end), _ in good:  # a chain of marks (start, forward, backward, done) is several pairs
        if begin not in begins and end not in ends:
            begins.add(begin)
            ends.add(end)
            pairs.append(Pair(f"{_shown(begin)} / {_shown(end)}", partial(_of, begin), partial(_of, end)))
    return pairs[:_MOST_PAIRS]


def _count(
    lines: Sequence[str],
    follows: Counter[tuple[_Mark, _Mark]],
    things: dict[tuple[_Mark, _Mark], set[str]],
    seen: Counter[_Mark],
    first: Counter[_Mark],
) -> None:
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
    words = [word for word in (part.strip(_EDGE) for part in line.split(None, _MOST_WORDS + 1)) if word]
    count = len(words)
    if not 2 <= count <= _MOST_WORDS:
        return
    for size in range(1, min(_MARK_WORDS, count - 1) + 1):
        for place, mark, rest in ((0, words[:size], words[size:]), (-1, words[count - size :], words[: count - size])):
            if all(map(_constant, mark)):
                yield _Mark(" ".join(mark), place), " ".join(rest)
    for place in range(1, count - 1):
        if _constant(words[place]):
            yield _Mark(words[place], place), " ".join([*words[:place], *words[place + 1 :]])


def _constant(word: str) -> bool:
    """Return whether a word may be part of a mark: it has no digit."""
    return not any(map(str.isdigit, word))


class Marker(msgspec.Struct, frozen=True):
    """A line that reports the begin of a step that did not end."""

    text: str
    pair: str
    line: int
    others: int = 0


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    begin: str
    end: str
    source: str


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pair: tuple[_Entry, ...]


def _named(pattern: re.Pattern[str], line: str) -> Step | None:
    """Return the step in the groups `what` and perhaps `lane` of a match."""
    match = pattern.search(line)
    return (match.groupdict().get("lane") or "", match["what"]) if match is not None else None


@lru_cache(maxsize=1)
def known_pairs() -> tuple[Pair, ...]:
    """Return the pairs of livedbg/repeats/data/markers.toml, and those that systems declare."""
    text = files("livedbg.repeats").joinpath("data", "markers.toml").read_bytes()
    known = [(entry.name, entry.begin, entry.end) for entry in msgspec.toml.decode(text, type=ready(_Data)).pair]
    known += [(pair.name, pair.begin, pair.end) for system in systems() for pair in system.markers]
    return tuple(
        Pair(name, partial(_named, re.compile(begin)), partial(_named, re.compile(end))) for name, begin, end in known
    )


def last_open(lines: Sequence[str], pairs: Sequence[Pair]) -> Marker | None:
    """Return the last step of a run that began and did not end."""
    still = {number: pair for pair in reversed(pairs) for number in _still_open(lines, pair)}
    if not still:
        return None
    newest = max(still)
    return Marker(lines[newest], still[newest].name, newest, len(still) - 1)


def _still_open(lines: Sequence[str], pair: Pair) -> Iterator[int]:
    begun: dict[Step, list[int]] = {}
    for number, line in enumerate(lines):
        ended = pair.ended(line)
        if ended is not None and begun.get(ended):
            begun[ended].pop()
        elif (began := pair.begun(line)) is not None:
            begun.setdefault(began, []).append(number)
    for numbers in begun.values():
        yield from numbers


_MOST_BYTES: Final = 8 << 20
_LONGEST: Final = 300
_STAMP: Final = lazy_re(
    r"^(?:\[?(?:\d{4}-\d\d-\d\d[T ]?)?\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ :]*"
    r"|\[?\d{4}-\d\d-\d\d[T ]?\]?[ :]*|\[ *\d+\.\d+\] *)+"
)
_DURATION: Final = lazy_re(
    r" ?(?:\b(?:in|took|after|for) )?(?<![\w.])\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?|min|minutes?)\b"
)
_ADDRESS: Final = lazy_re(r"\b0x[0-9a-fA-F]{5,}\b")
_BRACKETS: Final = lazy_re(r" ?(?:\(\s*\)|\[\s*\])")


def lines_of(path: Path) -> list[str]:
    """Return the normalised lines of a file; [] if it can't be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MOST_BYTES))
            data = file.read(_MOST_BYTES)
    except OSError:
        return []
    lines = data.split(b"\n")
    if size > _MOST_BYTES:
        del lines[0]  # incomplete
    return [line for line in map(_cleaned, lines) if line]


def _cleaned(line: bytes) -> str:
    text = line[: 4 * _LONGEST].decode("utf-8", "replace").rstrip()
    return compared(clean_line(text, _LONGEST)) if text else ""


def compared(line: str) -> str:
    """Return a line without times, durations and addresses."""
    text = _STAMP.sub("", line)
    if any(character.isdigit() for character in text):
        text = _ADDRESS.sub("0x…", text)
        text = _BRACKETS.sub("", _DURATION.sub("", text))
    return text.strip()


_MOST_RUNS: Final = 12
"""Number of runs in whose output pairs of markers are detected."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that has ended, and the files of its logs and output, standard output and error last."""

    end: RunEnd
    outputs: tuple[Path, ...]


def marked(runs: Sequence[Ran]) -> Iterator[Ran]:
    """Yield the runs with their markers, by known pairs and by pairs that the output shows."""
    searched = sorted(runs, key=lambda ran: not ran.end.bad)[:_MOST_RUNS]
    shown = [lines for ran in searched for path in ran.outputs if (lines := lines_of(path))]
    pairs = [*known_pairs(), *found_pairs(shown)]
    for ran in runs:
        yield replace(ran, end=_marked(ran, pairs))


def _marked(ran: Ran, pairs: Sequence[Pair]) -> RunEnd:
    outputs = [lines_of(path) for path in ran.outputs]
    last_line = next((lines[-1] for lines in outputs[-2:] if lines), "")
    for lines in outputs:
        marker = last_open(lines, pairs)
        if marker is not None:
            return structs.replace(ran.end, marker=marker.text, others=marker.others, last_line=last_line)
    return structs.replace(ran.end, marker="", others=0, last_line=last_line)
