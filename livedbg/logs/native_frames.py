"""C++ frames in the text of a log: `#0  0x… in f () at a.cpp:3`, `frame #1: f + 0x1c (0x… in lib.so)`.

Also of UCX's backtraces (src/ucs/debug/debug.c): ` 8 0x0000000000127022 f()  /src/a.c:3`, ` 2 /l.so(f+0xf09) [0x…]`.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.model import Frame

__all__ = ["native_frames"]

_LIMIT: Final = 200
_FRAME: Final = re.compile(
    r"^[^\S\n]*(?:frame )?#(\d{1,18}):? +(?:0x([0-9a-f]{1,16}) in )?(.{1,4000}?)(?: \+ 0x[0-9a-f]{1,16})?"
    r"(?: \(0x([0-9a-f]{1,16}) in ([^)]{1,1000})\)"
    r"| (?:at|from) ([^\s:]{1,1000})(?::(\d{1,18}))?(?::\d{1,18})?)?$",
    re.MULTILINE,
)


_UCX: Final = re.compile(
    r"^ {0,2}\d{1,3} +(?:0x(?P<address>[0-9a-f]{4,16}) (?P<name>\S.{0,400}?)\(\)  "
    r"(?P<file>[^\s:]{0,400}):(?P<line>\d{1,9})"
    r"|(?P<module>/\S{1,300}?)\((?P<symbol>[^()\s]{0,300}?)\+0x[0-9a-f]{1,16}\) \[0x(?P<at>[0-9a-f]{4,16})\])[ \t]*$",
    re.MULTILINE,
)
_REPORTS: Final = re.compile(
    r"(?:ucs_(?:handle_error|fatal_error|log_|debug_)\w*|__sigaction|__restore_rt|gsignal|raise|abort)$"
)
"""Functions of the report itself."""


def _ucx_frames(text: str) -> tuple[Frame, ...]:
    found: list[Frame] = []
    for match in _UCX.finditer(text):
        name = match["name"] or match["symbol"] or "?"
        if _REPORTS.match(name) is not None:
            continue
        file = match["file"] if match["file"] and match["file"] != "???" and match["line"] != "0" else None
        found.append(
            Frame(
                function=name,
                file=file,
                line=int(match["line"]) if file else None,
                module=match["module"].rpartition("/")[2] if match["module"] else None,
                address=int(match["address"] or match["at"], 16),
            )
        )
        if len(found) == _LIMIT:
            break
    return tuple(found)


def native_frames(text: str) -> tuple[Frame, ...]:
    """The frames of a listing, innermost first; no more than 200."""
    frames: list[Frame] = []
    if "==== backtrace (tid" in text:
        return _ucx_frames(text)
    if "#" not in text:
        return ()
    for match in _FRAME.finditer(text):
        address = match[2] or match[4]
        frames.append(
            Frame(
                function=match[3],
                file=match[6],
                line=int(match[7]) if match[7] else None,
                module=match[5].rpartition("/")[2] if match[5] else None,
                address=int(address, 16) if address else None,
            )
        )
        if len(frames) == _LIMIT:
            break
    return tuple(frames)
