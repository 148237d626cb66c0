"""Files of log entries in some format, converted to one line an entry before they are read.

The beginning of a file tells its form. The output is unwrapped by the front door (livedbg.logs.wrapping): the entries
themselves in one line of JSON each, or those of the journal. The forms are:

- systemd's Journal Export Format (`journalctl -o export`): a field of an entry in each line, a blank line after it.
- Output of many hosts, gathered by host: `dshbak` of pdsh, and `clush -b`. A block begins with a rule, the hosts, and a
  rule; its lines are output with their host.
- JSON over many lines, a list of entries or one after the other: `gcloud logging read --format json` (the newest entry
  first), `aws logs get-log-events`, Grafana's download, Kaggle's log of a kernel, `journalctl -o json-pretty`. The
  oldest entry comes out first.
- Recordings of terminals by asciinema (asciicast 2 and 3): the terminal's output, without the times.

Invariant:
    transcripts.J1. Every entry of JSON comes out once, whole, in one line, whether it is known or not; so does one that
        is cut off, and text between entries.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, BinaryIO, Final

import msgspec

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.entries import entry_json
from livedbg.logs.wrapping.rows import may_be_host
from livedbg.text.patterns import lazy_re

Transcript = Callable[[BinaryIO], Iterator[bytes]]
"""Pieces of the lines of a file that is at its beginning."""


def transcript_of(head: bytes) -> Transcript | None:
    """Return the converter for a file by its first `HEAD` bytes; None for a file that is read as it is."""
    if not head:
        return None
    if _is_cast(head):
        return _shown_bytes
    if _is_export(head):
        return _journal_lines
    if _is_blocks(head):
        return _block_lines
    depth = document_depth(head)
    return None if depth is None else lambda file: document_lines(file, depth)


_FIELDS: Final = frozenset(
    ("MESSAGE", "__REALTIME_TIMESTAMP", "_PID", "_HOSTNAME", "SYSLOG_IDENTIFIER", "_TRANSPORT", "CONTAINER_NAME")
)
_NAME: Final = lazy_re(rb"[A-Z\d_]{1,64}")
_LONGEST: Final = 1 << 20  # bytes of a field that are kept
_PIECE: Final = 64 * 1024


def _is_export(head: bytes) -> bool:
    return head.startswith(b"__CURSOR=") and b"\n__REALTIME_TIMESTAMP=" in head[:4096]


def _journal_entry(**fields: str) -> bytes:
    """Return a line of JSON as the journal writes it, which the front door unwraps."""
    return json.dumps({"MESSAGE": "", "__REALTIME_TIMESTAMP": "", **fields}, ensure_ascii=False).encode() + b"\n"


def _journal_lines(file: BinaryIO) -> Iterator[bytes]:
    fields: dict[str, str] = {}
    lines: list[bytes] = []
    size = 0
    while line := file.readline(_LONGEST):
        if line == b"\n":
            if fields:
                lines.append(_journal_entry(**fields))
                size += len(lines[-1])
            fields = {}
            if size > _PIECE:
                yield b"".join(lines)
                lines, size = [], 0
            continue
        name, equals, value = line.rstrip(b"\n").partition(b"=")
        if _NAME.fullmatch(name) is None:
            continue  # the rest of what is too long
        if not equals:  # its length, 8 bytes, and what may hold newlines
            length = int.from_bytes(file.read(8), "little")
            value = file.read(min(length, _LONGEST))
            file.seek(max(0, length - len(value)) if len(value) == _LONGEST else 0, 1)
            file.readline()
        key = name.decode("ascii", "replace")
        if key in _FIELDS:
            fields[key] = value.decode("utf-8", "replace")
    if fields:
        lines.append(_journal_entry(**fields))
    if lines:
        yield b"".join(lines)


_RULE: Final = lazy_re(rb"-{15,16}\r?\n")
_HOSTS: Final = lazy_re(
    rb"([A-Za-z][\w.-]{0,62}(?:\[[\d,-]{1,200}\][\w.-]{0,62})?(?:,[A-Za-z][\w.,\[\]-]{1,400})?)(?: \(\d{1,6}\))?\r?\n"
)
_PIECE_BLOCKS: Final = 64 * 1024


def _is_blocks(head: bytes) -> bool:
    lines = [line + b"\n" for line in head.split(b"\n")]
    first = _hosts_of(lines[:3])
    if first is None:
        return False
    for number in range(4, len(lines) - 2):
        if lines[number] == lines[0]:
            second = _hosts_of(lines[number : number + 3])
            return second is not None and _stem(second) == _stem(first) and bool(lines[number - 1].strip())
    return False


def _hosts_of(lines: list[bytes]) -> str | None:
    if len(lines) < 3 or _RULE.fullmatch(lines[0]) is None or lines[2] != lines[0]:
        return None
    match = _HOSTS.fullmatch(lines[1])
    return None if match is None or not may_be_host(match[1].decode()) else match[1].decode()


def _stem(hosts: str) -> str:
    return re.sub(r"[\d\[\],-]+", "", hosts.partition(".")[0])


def _block_lines(file: BinaryIO) -> Iterator[bytes]:
    host, out, size = "", list[bytes](), 0
    waiting: list[bytes] = []
    for line in file:
        waiting.append(line)
        if _RULE.fullmatch(waiting[0]) is not None and len(waiting) < 3:
            continue
        hosts = _hosts_of(waiting)
        if hosts is not None:
            host = hosts
            out += waiting
            waiting = []
        while waiting and (_RULE.fullmatch(waiting[0]) is None or len(waiting) == 3):
            out.append(_said(waiting.pop(0), host))
            size += len(out[-1])
        if size > _PIECE_BLOCKS:
            yield b"".join(out)
            out, size = [], 0
    out += [_said(line, host) for line in waiting]
    if out:
        yield b"".join(out)


def _said(line: bytes, host: str) -> bytes:
    text = line.rstrip(b"\r\n").decode("utf-8", "replace")
    return _journal_entry(MESSAGE=text, _HOSTNAME=host) if text else b"\n"


_BEGIN: Final = lazy_re(
    rb"(?:\xef\xbb\xbf)?\s*(?:(?P<list>\[)\s*\{|(?P<of>\{\s*\"(?:events|entries|logs)\"\s*:\s*\[)"
    rb"|(?P<one>\{[ \t]*\r?\n))"
)
_TOKEN: Final = lazy_re(rb"[^\"{}\[\]]*+(?:\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"[^\"{}\[\]]*+)*+", re.DOTALL)
_TRIED: Final = 20  # entries at the beginning of which one must hold a text
_PIECE_DOCUMENTS: Final = 1 << 18
_BETWEEN: Final = b" \t\r\n,\xef\xbb\xbf"
_LONGEST_DOCUMENTS: Final = 8 << 20  # bytes of an entry; what is longer is none


def document_depth(head: bytes) -> int | None:
    """Return the bracket depth of the entries; None if the file has none that a collector of logs writes."""
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
    """Return whether an entry is one line: such lines are read as they are."""
    first = next(_Scan(0).feed(head), None)
    return first is None or b"\n" not in head[first[0] : first[1]].strip()


def document_lines(file: BinaryIO, depth: int) -> Iterator[bytes]:
    """Yield the entries, at a bracket depth, one a line, the oldest first."""
    begin = file.tell()
    scan = _Scan(depth)
    places = array("Q")
    while piece := file.read(_PIECE_DOCUMENTS):
        for place in scan.feed(piece):
            places.extend(place)
    for place in scan.rest():
        places.extend(place)
    count = len(places) // 2

    def entry(number: int) -> bytes:
        file.seek(begin + places[2 * number])
        return file.read(min(places[2 * number + 1] - places[2 * number], _LONGEST_DOCUMENTS))

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
    def __init__(self, depth: int) -> None:
        self._wanted = depth
        self._depth = 0
        self._rest = b""
        self._offset = 0  # of `_rest` in the file
        self._begin = -1  # of the object that has not ended, in the file

    def feed(self, piece: bytes) -> Iterator[tuple[int, int]]:
        """Yield the file offsets of objects that end in the piece, and of text outside of all."""
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
        if len(data) - position > _LONGEST_DOCUMENTS:
            position = len(data)
        self._rest = data[position:]
        self._offset += position

    def rest(self) -> Iterator[tuple[int, int]]:
        end = self._offset + len(self._rest)
        if self._begin >= 0:
            yield self._begin, end
        elif not self._depth and self._rest.strip(_BETWEEN):
            yield self._offset, end


def _line(entry: bytes) -> bytes:
    if not entry.startswith(b"{"):
        return entry.strip(_BETWEEN) + b"\n"
    try:
        return msgspec.json.format(entry, indent=-1) + b"\n"
    except (msgspec.DecodeError, UnicodeError):
        return entry.replace(b"\r", b"").replace(b"\n", b" ") + b"\n"


def _time(entry: bytes) -> int:
    opened = entry_json(_line(entry).decode("utf-8", "replace"), SourceClock(0, 0))
    return 0 if opened is None or opened.wall_ns is None else opened.wall_ns


_BEGIN_TERMINAL: Final = lazy_re(
    rb'\{[^\n]{0,4000}"version": ?[23][,}][^\n]*\n(?:#[^\n]*\n)*(?:\[ ?\d+(?:\.\d+)?, ?"[a-z]", ?"|$)'
)
_PIECE_TERMINAL: Final = 64 * 1024
_event = msgspec.json.Decoder(list[Any])


def _is_cast(head: bytes) -> bool:
    return head.startswith(b"{") and _BEGIN_TERMINAL.match(head) is not None


def _shown_bytes(file: BinaryIO) -> Iterator[bytes]:
    file.readline()
    shown: list[bytes] = []
    size = 0
    for line in file:
        try:
            event = _event.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            continue  # a comment, or the end of a recording that was cut off
        if len(event) > 2 and event[1] == "o" and isinstance(event[2], str):
            shown.append(event[2].encode("utf-8", "replace"))
            size += len(shown[-1])
        if size > _PIECE_TERMINAL:
            yield b"".join(shown)
            shown, size = [], 0
    if shown:
        yield b"".join(shown)
