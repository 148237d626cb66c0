"""Lines of source around the frames of a stack, where their files are on this machine.

Invariants:
    source.Z1. A path is a target's word: only regular files with the suffix of a language are read, and never whole
        into a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import structs

from livedbg.model import Frame
from livedbg.text.sanitize import clean_line

__all__ = ["with_source"]

_AROUND: Final = 3  # lines before and after
_MOST_BYTES: Final = 16 << 20
_LANGUAGES: Final = re.compile(r"\.(c|cc|cpp|cxx|c\+\+|h|hh|hpp|hxx|inl|ipp|tcc|cuh?|pyx?|rs|go|f|f90)", re.IGNORECASE)


def with_source(pid: int, frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """The frames, those with lines of source whose file is there: in the process's root folder, or in ours."""
    return tuple(_with_source(pid, frame) for frame in frames)


def _with_source(pid: int, frame: Frame) -> Frame:
    if not frame.file or not frame.line or frame.source:
        return frame
    path = Path(frame.file)
    if not path.is_absolute() or not _LANGUAGES.fullmatch(path.suffix):
        return frame
    first = max(1, frame.line - _AROUND)
    for place in (Path(f"/proc/{pid}/root{path}"), path):
        try:
            if not place.is_file() or place.stat().st_size > _MOST_BYTES:
                continue
            with place.open(encoding="utf-8", errors="replace") as file:
                lines = [
                    clean_line(line.rstrip("\n").expandtabs(4))
                    for line in islice(file, first - 1, frame.line + _AROUND)
                ]
        except OSError:
            continue
        if len(lines) > frame.line - first:
            return structs.replace(frame, source=tuple(lines), source_from=first)
    return frame
