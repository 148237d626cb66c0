"""Search of the bytes of a log, block by block, forwards and backwards.

Literals go by `bytes.find`, the rest by a regular expression over a block of whole lines. A match counts only within
one line. Escape sequences and CR are removed from a block first, so that results agree with the display. In a log whose
lines are wrapped, the displayed text is searched, not the file.

Invariants:
    search.Q1. A line is found if and only if the pattern is found in it as a reader shows it, or in its writer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, AnyStr, Final, Generic, Protocol

from livedbg.logs.lines import Line, line_text
from livedbg.logs.writers import WORDS, written_by
from livedbg.text.patterns import lazy_re

if TYPE_CHECKING:  # whoever searches lines as they are need not know what wraps them
    from livedbg.logs.wrapping.door import FrontDoor

Progress = Callable[[float], bool]
"""Called with the share done; returns False to give up."""

_WINDOW = 96 * 1024  # buffers of 128 KiB and more would come from the kernel, and go back to it
_OVERLAP = 4096  # of the pieces of a line that is longer than a window
_REPORT_EVERY = 64  # windows between two progress reports
_FOLD = bytes(range(256)).lower()  # ASCII upper case to lower case, several times as fast as bytes.lower
_META = frozenset(".^$*+?{}[]\\|()")
_ALONE = lazy_re(r"\\[AZ]|\(\?<?[=!]")  # constructs that see beyond the match: line by line
_SEQUENCE = lazy_re(
    rb"\x1b(?:\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[PX^_][^\x1b\n]*\x1b\\|\[[0-?]*[ -/]*[@-~]|[ -/]*[0-Z\\^-~])"
)


class Matcher(Protocol):
    """A matcher for the lines of a block."""

    def __call__(self, block: bytes, last: bool) -> int | None:
        """Return the number in the block (from 0) of the first (or last) line that matches, or None."""
        ...

    def every(self, block: bytes) -> Iterator[int]:
        """Yield the numbers in the block (from 0) of all lines that match, in order."""
        ...


class _Literal:
    def __init__(self, text: str, fold: bool) -> None:
        self._needle = text.lower().encode() if fold else text.encode()
        self._fold = fold

    def __call__(self, block: bytes, last: bool) -> int | None:
        if self._fold:
            block = block.translate(_FOLD)
        position = block.rfind(self._needle) if last else block.find(self._needle)
        return None if position < 0 else block.count(b"\n", 0, position)

    def every(self, block: bytes) -> Iterator[int]:
        if self._fold:
            block = block.translate(_FOLD)
        number = counted = 0
        position = block.find(self._needle)
        while position >= 0:
            number += block.count(b"\n", counted, position)
            yield number
            counted = block.find(b"\n", position)
            position = block.find(self._needle, counted) if counted >= 0 else -1


class _Expression(Generic[AnyStr]):
    def __init__(self, pattern: re.Pattern[AnyStr], newline: AnyStr, decode: Callable[[bytes], AnyStr]) -> None:
        self._pattern: re.Pattern[AnyStr] = pattern
        self._newline: AnyStr = newline
        self._decode: Callable[[bytes], AnyStr] = decode
        self._alone = _ALONE.search(str(pattern.pattern)) is not None

    def __call__(self, block: bytes, last: bool) -> int | None:
        text = self._decode(block)
        if self._alone:
            lines = text.split(self._newline)
            numbers = range(len(lines) - 1, -1, -1) if last else range(len(lines))
            return next((number for number in numbers if self._pattern.search(lines[number])), None)
        found = self._next(text, 0)
        if found is None:
            return None
        while last:
            end = text.find(self._newline, found)
            later = self._next(text, end + 1) if end >= 0 else None
            if later is None:
                break
            found = later
        return text.count(self._newline, 0, found)

    def every(self, block: bytes) -> Iterator[int]:
        text = self._decode(block)
        if self._alone:
            yield from (number for number, line in enumerate(text.split(self._newline)) if self._pattern.search(line))
            return
        number = counted = 0
        found = self._next(text, 0)
        while found is not None:
            number += text.count(self._newline, counted, found)
            yield number
            counted = text.find(self._newline, found)
            if counted < 0:
                return
            found = self._next(text, counted + 1)

    def _next(self, text: AnyStr, position: int) -> int | None:
        while (match := self._pattern.search(text, position)) is not None:
            if self._newline not in match[0]:
                return match.start()
            begin = text.rfind(self._newline, 0, match.start()) + 1
            end = text.find(self._newline, match.start())
            alone = self._pattern.search(text[begin:end])
            if alone is not None:
                return begin + alone.start()
            position = end + 1
        return None


def _folds(pattern: str) -> bool:
    plain = re.sub(r"\\.", "", pattern)
    return plain == plain.lower()


def _is_literal(pattern: str) -> bool:
    return not _META.intersection(pattern) and (pattern.isascii() or not _folds(pattern))


def compile_pattern(pattern: str) -> Matcher:
    """Return a matcher for a regular expression, case-insensitive if `pattern` is all lower case.

    Raises:
        ValueError: it is no regular expression.
    """
    fold = _folds(pattern)
    if _is_literal(pattern):
        return _Literal(pattern, fold)
    flags = re.MULTILINE | (re.IGNORECASE if fold else 0)
    try:
        if pattern.isascii():
            return _Expression(re.compile(pattern.encode("ascii"), flags), b"\n", bytes)
        return _Expression(re.compile(pattern, flags), "\n", _decoded)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error


def _decoded(block: bytes) -> str:
    return block.decode("utf-8", "replace")


def _seen(block: bytes) -> bytes:
    """Return a block as displayed: without escape sequences and CR."""
    if b"\x1b" in block:
        block = _SEQUENCE.sub(b"", block)
    return block.replace(b"\r\n", b"\n") if b"\r" in block else block


def search_forward(
    read: Callable[[int, int], bytes],
    matcher: Matcher,
    *,
    offset: int,
    number: int,
    size: int,
    progress: Progress | None = None,
) -> int | None:
    """Return the number of the first line that matches, from the line `number` that begins at `offset`, or None."""
    begin, rest = offset, b""
    for windows in count():
        data = read(offset, min(_WINDOW, size - offset))
        piece = rest + data
        cut = piece.rfind(b"\n") + 1 if data else len(piece)
        found = matcher(_seen(_lines(piece, cut)), False) if piece else None
        if found is not None:
            return number + _newlines(read, begin, offset - len(rest)) + found
        if not data:
            return None
        rest = piece[cut:] if cut else piece[-_OVERLAP:]
        offset += len(data)
        if progress is not None and windows % _REPORT_EVERY == 0 and not progress(_share(offset - begin, size - begin)):
            return None
    return None


def _lines(piece: bytes, cut: int) -> bytes:
    """Return the lines before `cut` without the last one's end; the whole piece if its line does not end in it."""
    end = cut or len(piece)
    return piece[: end - 1] if piece.endswith(b"\n", 0, end) else piece[:end]


def _newlines(read: Callable[[int, int], bytes], begin: int, end: int) -> int:
    return sum(read(place, min(_WINDOW, end - place)).count(b"\n") for place in range(begin, end, _WINDOW))


def search_all(
    read: Callable[[int, int], bytes],
    matcher: Matcher,
    *,
    offset: int,
    number: int,
    size: int,
    found: Callable[[list[int], float], bool],
) -> None:
    """Find all lines that match, from the line `number` that begins at `offset`.

    Args:
        found: called with the numbers of more matching lines, in order, and the share done; returns False to give up.
    """
    begin, rest, newest = offset, b"", -1
    while True:
        data = read(offset, min(_WINDOW, size - offset))
        piece = rest + data
        cut = piece.rfind(b"\n") + 1 if data else len(piece)
        hits = [number + hit for hit in matcher.every(_seen(_lines(piece, cut)))] if piece else []
        if hits and hits[0] == newest:  # a line that is longer than a window is searched in pieces
            del hits[0]
        newest = hits[-1] if hits else newest
        offset += len(data)
        if not found(hits, _share(offset - begin, size - begin)) or not data:
            return
        number += piece.count(b"\n", 0, cut)
        rest = piece[cut:] if cut else piece[-_OVERLAP:]


def search_backward(
    read: Callable[[int, int], bytes],
    matcher: Matcher,
    end: int,
    line_at: Callable[[int], int],
    progress: Progress | None = None,
) -> int | None:
    """Return the number of the last match among lines that begin before `end` (the end of a line), or None."""
    position = end
    for windows in count():
        if position <= 0:
            return None
        begin = max(0, position - _WINDOW)
        piece = read(begin, position - begin)
        cut = piece.find(b"\n") + 1 if begin else 0
        if cut == len(piece):  # the piece's only line end is its last byte: the line is longer than a window
            cut = 0
        found = matcher(_seen(piece[cut:].removesuffix(b"\n")), True)
        if found is not None:
            return line_at(begin + cut) + found
        if begin == 0:
            return None
        position = begin + cut if cut else begin + _OVERLAP
        if progress is not None and windows % _REPORT_EVERY == 0 and not progress(_share(end - position, end)):
            return None
    return None


def _share(done: int, total: int) -> float:
    return min(1.0, done / total) if total > 0 else 1.0


_OF_NAMES: Final = lazy_re(r"[\w.,:/@\[\] -]*", re.ASCII)
_WORD: Final = lazy_re(r"[A-Za-z\d]+")
_COLOUR: Final = lazy_re(rb"\\u001[bB]\[[0-9;?]*[ -/]*[@-~]")


class ShownMatcher:
    """A `Matcher` for lines as they are displayed: masked or cleaned by `shown`."""

    def __init__(self, pattern: str, matcher: Matcher, door: FrontDoor, shown: Callable[[str], str]) -> None:
        self._matcher = matcher
        self._door = door
        self._shown = shown
        self._fold = _folds(pattern)
        words: Iterable[bytes] = ()
        if _is_literal(pattern) and not door.rewrites:
            word = _in_writers(pattern)
            words = with_escaped([pattern.encode()]) if word is None else [word.encode()] if word else ()
        self._words = tuple(dict.fromkeys(word.translate(_FOLD) if self._fold else word for word in words))

    def __call__(self, block: bytes, last: bool) -> int | None:
        lines = self._lines(block)
        chosen = reversed(list(lines)) if last else lines
        return next((number for number, line in chosen if self._in(line)), None)

    def every(self, block: bytes) -> Iterator[int]:
        return (number for number, line in self._lines(block) if self._in(line))

    def _in(self, line: bytes) -> bool:
        plains = self._door.alone(Line(line_text(line), 0, None))
        tag = plains[-1].tag
        texts = ("\n".join(plain.text for plain in plains), written_by(tag.writer, tag.host, tag.pid))
        return any(self._matcher(self._shown(text).encode("utf-8", "replace"), False) is not None for text in texts)

    def _lines(self, block: bytes) -> Iterator[tuple[int, bytes]]:
        if b"\\u001" in block:
            block = _COLOUR.sub(b"", block)
        lines = block.split(b"\n")
        if not self._words:
            yield from enumerate(lines)
            return
        searched = block.translate(_FOLD) if self._fold else block
        if not any(word in searched for word in self._words):
            return
        for number, line in enumerate(lines):
            folded = line.translate(_FOLD) if self._fold else line
            if any(word in folded for word in self._words):
                yield number, line


def _in_writers(pattern: str) -> str | None:
    """Return a word of every line whose writer or text can match; "" if there is none, None if no writer's name
    matches.
    """
    if _OF_NAMES.fullmatch(pattern) is None:
        return None
    known = [word for word in _WORD.findall(pattern) if word.lower() not in WORDS]
    return max(known, key=len, default="")


_GO: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
_BEGIN: Final = b'{"log":"'


def with_escaped(words: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return words and their forms in JSON: as Go writes them, and with all but ASCII escaped.

    A word that begins with a newline is at the beginning of a line, which here is that of a string.
    """
    found: dict[bytes, None] = {}
    for word in words:
        found[word] = None
        body = word.removeprefix(b"\n")
        before = _BEGIN if body != word else b""
        text = body.decode("utf-8", "replace")
        for plain in (False, True):
            quoted = json.dumps(text, ensure_ascii=plain)[1:-1]
            found[before + quoted.encode()] = None
            found[before + quoted.translate(_GO).encode()] = None
    return tuple(found)
