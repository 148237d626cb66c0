"""JSON that was written over many lines: a list of log entries, or one entry after the other.

`gcloud logging read --format json` (the newest entry first), `aws logs get-log-events`, Grafana's download, Kaggle's
log of a kernel, `journalctl -o json-pretty`. The oldest entry comes out first.

Invariant:
    documents.J1. Every entry comes out once, whole, in one line, whether it is known or not; so does one that is cut
        off, and text that stands between entries.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import BinaryIO, Final

import msgspec

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.certain import entry_json

__all__ = ["document_depth", "document_lines"]

_BEGIN: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:(?P<list>\[)\s*\{|(?P<of>\{\s*\"(?:events|entries|logs)\"\s*:\s*\[)"
    rb"|(?P<one>\{[ \t]*\r?\n))"
)
_TOKEN: Final = re.compile(rb"[^\"{}\[\]]*+(?:\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"[^\"{}\[\]]*+)*+", re.DOTALL)
_TRIED: Final = 20  # entries at the beginning of which one must hold a text
_PIECE: Final = 1 << 18
_BETWEEN: Final = b" \t\r\n,\xef\xbb\xbf"
_LONGEST: Final = 8 << 20  # bytes of an entry; what is longer is none


def document_depth(head: bytes) -> int | None:
    """In how many brackets the entries stand; None where a file holds none that a collector of logs writes."""
    match = _BEGIN.match(head)
    if match is None:
        return None
    depth = 1 if match["list"] else 2 if match["of"] else 0
    if depth == 0 and _over_one_line(head):
        return None
    clock = SourceClock(0, 0)
    entries = (_line(head[begin:end]) for begin, end in islice(_Scan(depth).feed(head), _TRIED))
    known = any(entry_json(line.decode("utf-8", "replace"), clock) is not None for line in entries)
    return depth if known else None


def _over_one_line(head: bytes) -> bool:
    """Whether an entry is one line: such lines are read as they are."""
    first = next(_Scan(0).feed(head), None)
    return first is None or b"\n" not in head[first[0] : first[1]].strip()


def document_lines(file: BinaryIO, depth: int) -> Iterator[bytes]:
    """The entries, one a line, the oldest first.

    Args:
        file: at its beginning.
        depth: in how many brackets the entries stand.
    """
    begin = file.tell()
    scan = _Scan(depth)
    places = array("Q")
    while piece := file.read(_PIECE):
        for place in scan.feed(piece):
            places.extend(place)
    for place in scan.rest():
        places.extend(place)
    count = len(places) // 2

    def entry(number: int) -> bytes:
        file.seek(begin + places[2 * number])
        return file.read(min(places[2 * number + 1] - places[2 * number], _LONGEST))

    numbers: Iterable[int] = range(count)
    first = next((number for number in range(min(count, _TRIED)) if _time(entry(number))), count)
    last = next((number for number in range(count - 1, max(count - _TRIED, 0) - 1, -1) if _time(entry(number))), 0)
    if first < last and _time(entry(first)) > _time(entry(last)):
        while last + 1 < count and entry(last + 1).startswith(b"{"):
            last += 1
        while first and entry(first - 1).startswith(b"{"):
            first -= 1
        numbers = chain(range(first), range(last, first - 1, -1), range(last + 1, count))
    lines: list[bytes] = []
    for number in numbers:
        lines.append(_line(entry(number)))
        if len(lines) >= 256:
            yield b"".join(lines)
            lines.clear()
    if lines:
        yield b"".join(lines)


class _Scan:
    """Finds the objects at a depth of brackets, piece by piece.

    Args:
        depth: of brackets around an object.
    """

    def __init__(self, depth: int) -> None:
        self._wanted = depth
        self._depth = 0
        self._rest = b""
        self._offset = 0  # of `_rest` in the file
        self._begin = -1  # of the object that has not ended, in the file

    def feed(self, piece: bytes) -> Iterator[tuple[int, int]]:
        """Begin and end of the objects that end in the piece, and of text outside of all, as offsets in the file."""
        data, position = self._rest + piece, 0
        while True:
            match = _TOKEN.match(data, position)
            end = match.end() if match is not None else position
            if end >= len(data) or data[end : end + 1] == b'"':  # a string that has not ended
                break
            if not self._depth and data[position:end].strip(_BETWEEN):
                yield self._offset + position, self._offset + end
            if data[end] in b"{[":
                if self._depth == self._wanted and data[end] == ord("{"):
                    self._begin = self._offset + end
                self._depth += 1
            else:
                self._depth = max(self._depth - 1, 0)
                if self._depth == self._wanted and self._begin >= 0:
                    yield self._begin, self._offset + end + 1
                    self._begin = -1
            position = end + 1
        if len(data) - position > _LONGEST:
            position = len(data)
        self._rest = data[position:]
        self._offset += position

    def rest(self) -> Iterator[tuple[int, int]]:
        """An object that has not ended, or text behind the last one."""
        end = self._offset + len(self._rest)
        if self._begin >= 0:
            yield self._begin, end
        elif not self._depth and self._rest.strip(_BETWEEN):
            yield self._offset, end


def _line(entry: bytes) -> bytes:
    """An entry in one line; other text as it is."""
    if not entry.startswith(b"{"):
        return entry.strip(_BETWEEN) + b"\n"
    try:
        return msgspec.json.format(entry, indent=-1) + b"\n"
    except (msgspec.DecodeError, UnicodeError):
        return entry.replace(b"\r", b"").replace(b"\n", b" ") + b"\n"


def _time(entry: bytes) -> int:
    """When an entry was written, ns; 0 where it doesn't say."""
    opened = entry_json(_line(entry).decode("utf-8", "replace"), SourceClock(0, 0))
    return 0 if opened is None or opened.wall_ns is None else opened.wall_ns
