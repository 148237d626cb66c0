"""Tracebacks in other forms than Python's own, as lines of that form: rich's boxes, IPython and Jupyter, Ray, groups.

Sources of the texts: rich/traceback.py (boxes, in Unicode and in ASCII), IPython/core/ultratb.py (verbose and context
mode), Ray python/ray/exceptions.py (RayTaskError), CPython Lib/traceback.py (exception groups).

Invariants:
    traceback_forms.F1. Each line stays one line at its place, so that a line's number stays known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["BOX_BEGIN", "BOX_END", "BOX_LINE", "NOTEBOOK_BEGIN", "RAY_BEGIN", "plain_form"]

BOX_BEGIN: Final = re.compile(r"\s*[╭┌+][─\-━ ]+Traceback \(most recent call last\)[─\-━ ]++[╮┐+]?\s*$")
BOX_LINE: Final = re.compile(r"\s*[│┃|╭╰┌└+❱]")
BOX_END: Final = re.compile(r"\s*[╰└+][─\-━]{10,}[╯┘+]\s*$")
NOTEBOOK_BEGIN: Final = re.compile(r"([A-Za-z_][\w.]*) {2,}Traceback \(most recent call last\)\s*$")
RAY_BEGIN: Final = re.compile(r"(?:.{0,200}: )?ray::[\w.<>:\[\]]+\(\) \(pid=\d{1,10}\b")

_HEADER: Final = "Traceback (most recent call last):"
_FILLER: Final = "    "
_SIDES: Final = "│┃|"
_CORNERS: Final = ("╭", "╰", "┌", "└", "+")
_BOX_FRAME: Final = (
    re.compile(
        r"(?P<file>(?:/|[A-Za-z]:|<|\.)[^:│|]{0,500}|[\w.-]{1,200}\.py)"
        r":(?P<line>\d{1,9}) in (?P<function>[^│|]{1,200}?)\s*$"
    ),
    re.compile(r"in (?P<function>[\w.<>]{1,200}):(?P<line>\d{1,9})\s*$"),
)
_NOTEBOOK_FRAME: Final = (
    re.compile(r"(?P<file>(?:Cell )?In ?\[\d{1,6}\]), line (?P<line>\d{1,9})(?:, in (?P<function>[\w.<>]+))?"),
    re.compile(r"File (?P<file>\S.{0,500}?):(?P<line>\d{1,9}),? in (?P<function>[\w.<>]+)"),
    re.compile(r"(?P<file>(?:~|/|<ipython-input)\S{0,500}) in (?P<function>[\w.<>]+)"),
)
_ARROW: Final = re.compile(r"-+> (\d{1,9}) ")
_GROUP: Final = re.compile(r"^ *[|+] ?(-?\+?-{3,} \d{1,9} -{3,}$|-{10,}$)?")


def plain_form(lines: Sequence[str]) -> list[str]:
    """The same lines, with each traceback as CPython writes it; what a line has no place for becomes a filler."""
    text = lines
    if any("Exception Group Traceback" in line for line in text):
        text = [_ungrouped(line) for line in text]
    if any(BOX_BEGIN.match(line) for line in text):
        text = _unboxed(text)
    if any(NOTEBOOK_BEGIN.match(line) for line in text):
        text = _of_notebook(text)
    if any("ray::" in line for line in text):
        text = [_HEADER if RAY_BEGIN.match(line) else line for line in text]
    return list(text)


def _ungrouped(line: str) -> str:
    match = _GROUP.match(line)
    if match is None:
        return line
    return _FILLER if match[1] else line[match.end() :]


def _unboxed(lines: Sequence[str]) -> list[str]:
    found = []
    inside = local = False  # in the box; in that of the local variables inside of it
    file = wrapped = ""
    for line in lines:
        if not inside:
            inside, local, wrapped = BOX_BEGIN.match(line) is not None, False, ""
            found.append(_HEADER if inside else line)
            continue
        found.append(_FILLER)
        body = line.strip()
        if body[:1] not in _SIDES:
            inside = BOX_END.match(line) is None
            continue
        inner = body[1:].rstrip(f"{_SIDES} ").strip()
        if inner[:1] in _CORNERS or local:
            local = " locals " in inner or (local and inner[:1] not in _CORNERS)
            continue
        match = _box_frame(inner) or (
            _box_frame(wrapped + inner) or _box_frame(f"{wrapped} {inner}") if wrapped else None
        )
        wrapped = inner if match is None and inner.startswith("/") else ""
        if match is not None:
            file = match.groupdict().get("file") or file or "<unknown>"
            found[-1] = f'  File "{file}", line {match["line"]}, in {match["function"]}'
    return found


def _box_frame(text: str) -> re.Match[str] | None:
    return next((match for form in _BOX_FRAME if (match := form.match(text))), None)


def _of_notebook(lines: Sequence[str]) -> list[str]:
    found: list[str] = []
    raised = ""
    frame: tuple[int, str, str] | None = None  # of the older form: the arrow has the line's number
    for line in lines:
        begins = NOTEBOOK_BEGIN.match(line)
        if begins is not None:
            raised, frame = begins[1], None
            found.append(_HEADER)
            continue
        if not raised:
            found.append(line)
            continue
        if re.match(rf"(?:[\w.]*\.)?{re.escape(raised)}(?::|$)", line):
            raised = ""
            found.append(line)
            continue
        match = next((match for form in _NOTEBOOK_FRAME if (match := form.match(line))), None)
        found.append(_FILLER)
        if match is not None:
            about = match.groupdict()
            function = about.get("function") or "<module>"
            if about.get("line"):
                found[-1] = f'  File "{about["file"]}", line {about["line"]}, in {function}'
            else:
                frame = (len(found) - 1, str(about["file"]), function)
        elif frame is not None and (arrow := _ARROW.match(line)):
            found[frame[0]] = f'  File "{frame[1]}", line {arrow[1]}, in {frame[2]}'
            frame = None
    return found
