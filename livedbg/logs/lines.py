"""Cutting blocks of bytes into lines, with bounded memory; of redrawn lines, the last state.

Invariants:
    logs_lines.L1. The lines of a stream are the same however it is cut into blocks.
    logs_lines.L2. At most `limit` bytes of a line are kept; dropped bytes are counted and noted in their place.
    logs_lines.L3. A sanitizer's report that begins behind an unfinished line of progress is a line of its own; one that
        a line quotes is none.
    logs_lines.L4. A traceback's header behind a bar that does not show its own end is a line of its own, with the
        rank that stands right before it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean

_BAR: Final = lazy_re(  # tqdm (std.py: format_meter)
    r"[^|\n]{0,200}?\d{1,3}%\|[^|\n]{0,400}\| *[\d.]{1,20}[kKMGT]?/[\d.?]{1,20}[kKMGT]? \[[^\]\n]{0,200}\] ?"
)
_DRAWN: Final = lazy_re(  # rich's, and tqdm's in another form: nothing marks where it ends
    r"[^\n]{0,400}?(?:[━╸╺]{4}|\d{1,3}% Completed \|)[^\n]{0,600}?"
    r"(?=(?:\[[A-Za-z_]{1,12}:? ?\d{1,6}\]: ?)?Traceback \(most recent call last\):$)"
)
HEADING: Final = "Traceback (most"


def redrawn(text: str) -> str:
    """Return the last state of a line with carriage returns, and earlier text that was no progress bar."""
    parts = [part for part in text.split("\r") if part and not part.isspace()]
    if len(parts) < 2:
        return parts[0] if parts else ""
    last = len(parts) - 1
    kept = [part for number, part in enumerate(parts) if number == last or _stays(part)]
    while len(kept) > 1 and _only_bar(kept[-1]):
        kept.pop()
    return "\n".join(kept)


def after_bar(text: str) -> str:
    """Return the text after a progress bar (L4: of one without an end, too); the line itself if there is none."""
    match = _BAR.match(text) if "%|" in text else _DRAWN.match(text) if HEADING in text else None
    if match is None:
        return text
    rest = text[match.end() :]
    return after_bar(rest) if rest and not rest.isspace() else text


_REPORT: Final = lazy_re(r"={9} (?=[A-Z]\w)|==\d{1,10}==(?:ERROR|WARNING): (?=\w{2,20}Sanitizer: )")
"""The beginning of a sanitizer's report, which is on the other stream than what a program prints of its progress."""
REPORTS: Final = ("========= ", "==ERROR: ", "==WARNING: ")
_UNENDED: Final = lazy_re(r"\.py::\S[^\n]{0,1000}$|(?<!\.)\.{2,}$|(?:^|\.py )[.FEsxX]{1,400}$")
"""A test's name, dots, marks of tests that have passed: the line is ended only when what it tells of has."""


def apart(text: str) -> tuple[str, ...]:
    """Return the line; or what a program had printed of its progress, and a report that begins behind it."""
    report = _REPORT.search(text, 1)
    if report is None or _UNENDED.search(text[: report.start()].rstrip()) is None:
        return (text,)
    return text[: report.start()], text[report.start() :]


def _only_bar(text: str) -> bool:
    match = _BAR.match(clean(text))
    return match is not None and not clean(text)[match.end() :].strip()


_SAID: Final = lazy_re(
    r"rror|xception|raceback|  File \"|[Ff]ault|FATAL|fatal|abort|Abort|assert|WARN|warn|fail|Fail|Kill|terminate"
)


def _stays(part: str) -> bool:
    """Return whether an overwritten part was a message."""
    return not _only_bar(part) and _SAID.search(part) is not None


LINE_LIMIT = 64 * 1024
"""How many bytes of a line are decoded and shown."""

_FAR_BACK = 64 * 1024  # bytes at the end that are looked at


class Line(Struct, frozen=True, gc=False):
    """A sanitised line without its end; its number (from 1) is None if the reader began in mid-source."""

    text: str
    offset: int
    number: int | None


def line_text(data: bytes, dropped: int = 0) -> str:
    """Return the text of a line's bytes: clean, without CR at its end; notes the length that a limit cut off.

    Text of a line before it was overwritten after a carriage return becomes a line of its own, if it was no progress
    bar.
    """
    if len(data) > LINE_LIMIT:
        dropped += len(data) - LINE_LIMIT
        data = data[:LINE_LIMIT]
    text = data.decode("utf-8", "replace")
    if text.isprintable() and not dropped:  # the usual case
        return text
    if "\r" in text:
        text = redrawn(text)
    text = clean(text)
    return f"{text} … ({dropped:,} more bytes)" if dropped else text


class LineCutter:
    """Cuts blocks, taken in order, into lines."""

    def __init__(self, offset: int = 0, number: int | None = 1, limit: int = LINE_LIMIT) -> None:
        self._offset = offset  # of the first byte that is not in a finished line
        self._number = number
        self._limit = limit
        self._rest = b""
        self._dropped = 0
        self._cut = False  # the beginning of the open line was flushed

    @property
    def offset(self) -> int:
        """Return the offset of the next line."""
        return self._offset

    @property
    def number(self) -> int | None:
        """Return the number of the next line."""
        return self._number

    @property
    def open(self) -> bool:
        """Return whether a line has begun and not ended."""
        return self.holds or self._cut

    @property
    def holds(self) -> bool:
        """Return whether a part of a line is held back until it ends."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that end in `data`."""
        parts = data.split(b"\n")
        last = parts.pop()
        lines: list[Line] = []
        if parts:
            first = self._finish(parts[0])
            lines.append(first)
            offset, number = self._offset, self._number
            for part in parts[1:]:
                lines.append(Line(line_text(part), offset, number))
                offset += len(part) + 1
                if number is not None:
                    number += 1
            self._offset, self._number = offset, number
        room = self._limit - len(self._rest)
        self._rest += last[:room]
        self._dropped += max(0, len(last) - room)
        return lines

    def skip(self, count: int) -> None:
        """Skip `count` bytes of the open line that have no line end."""
        self._dropped += count

    def flush(self) -> list[Line]:
        """Return the line that has no end yet; later bytes are a line of their own."""
        if not self._rest and not self._dropped:
            return []
        line = Line(line_text(self._rest, self._dropped), self._offset, self._number)
        self._offset += len(self._rest) + self._dropped
        self._cut = True
        self._rest, self._dropped = b"", 0
        return [line]

    def _finish(self, part: bytes) -> Line:
        room = self._limit - len(self._rest)
        kept, dropped = self._rest + part[:room], self._dropped + max(0, len(part) - room)
        line = Line(line_text(kept, dropped), self._offset, self._number)
        self._offset += len(kept) + dropped + 1
        if self._number is not None:
            self._number += 1
        self._rest, self._dropped, self._cut = b"", 0, False
        return line


def lines_back(body: bytes, lines: int) -> int:
    """Return the offset of the last `lines` lines of `body` (not more than a block back)."""
    position = len(body)
    for _ in range(lines + 1):
        position = body.rfind(b"\n", max(0, len(body) - _FAR_BACK), position)
        if position < 0:
            return len(body) if len(body) > _FAR_BACK else 0
    return position + 1
