"""C++ frames in the text of a log: `#0  0x… in f () at a.cpp:3`, `frame #1: f + 0x1c (0x… in lib.so)`."""

from __future__ import annotations

import re
from typing import Final

from livedbg.model import Frame

__all__ = ["native_frames"]

_LIMIT: Final = 200
_FRAME: Final = re.compile(
    r"^\s*(?:frame )?#(\d{1,18}):? +(?:0x([0-9a-f]{1,16}) in )?(.+?)(?: \+ 0x[0-9a-f]+)?"
    r"(?: \(0x([0-9a-f]{1,16}) in ([^)]+)\)"
    r"| (?:at|from) ([^\s:]+)(?::(\d{1,18}))?(?::\d{1,18})?)?$",
    re.MULTILINE,
)


def native_frames(text: str) -> tuple[Frame, ...]:
    """The frames of a listing, innermost first; no more than 200."""
    frames: list[Frame] = []
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
