"""Lines of source around the frames of a stack, where their files are on this machine.

Invariants:
    source.Z1. A path is a target's word: only regular files with the suffix of a language are read (also behind a
        symbolic link), and never whole into a terminal.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import structs

from livedbg.linux import target_files
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_AROUND: Final = 3  # lines before and after
_MOST_BYTES: Final = 16 << 20
_LANGUAGES: Final = lazy_re(r"\.(c|cc|cpp|cxx|c\+\+|h|hh|hpp|hxx|inl|ipp|tcc|cuh?|pyx?|rs|go|f|f90)", re.IGNORECASE)


class SourceLines(NamedTuple):
    """Sanitised lines around a line of source; `note` says why there are none, or why they may be wrong."""

    lines: tuple[str, ...] = ()
    first: int = 0
    note: str = ""
    changed_wall_ns: int = 0


def with_source(pid: int, frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Return the frames with lines of source where the file exists: in the process's root folder, or in ours."""
    return tuple(_with_source(pid, frame) for frame in frames)


def sourced(frame: Frame, found: SourceLines) -> Frame:
    """Return a frame with its lines of source, or the reason why there are none."""
    return structs.replace(frame, source=found.lines, source_from=found.first, source_note=found.note)


def read_source(pid: int, name: str, line: int) -> SourceLines:
    """Return the lines around a line of a file: in the process's root folder, or in ours.

    A relative path is taken from the process's working folder.
    """
    path = Path(name)
    if name.startswith("<") or not _LANGUAGES.fullmatch(path.suffix):
        return SourceLines(note=f"{name} is no source file")
    places = (Path(f"/proc/{pid}/root{path}"), path) if path.is_absolute() else (Path(f"/proc/{pid}/cwd") / path,)
    note = f"{name} is not on this host"
    for place in places:
        try:
            found = _lines(place, line)
        except PermissionError:
            note = f"{name} may not be read by this user"
            continue
        except OSError:
            continue
        if found.lines:
            return found
        note = f"{name} {found.note}"
    return SourceLines(note=note)


def _lines(place: Path, line: int) -> SourceLines:
    status = target_files.status(place)
    if not stat.S_ISREG(status.st_mode):
        return SourceLines(note="is no source file")
    if status.st_size > _MOST_BYTES:
        return SourceLines(note="is too large to be shown")
    first = max(1, line - _AROUND)
    with target_files.open_text(place) as file:
        if not _LANGUAGES.fullmatch(Path(os.readlink(f"/proc/self/fd/{file.fileno()}")).suffix):  # noqa: PTH115
            return SourceLines(note="is no source file")
        lines = tuple(clean_line(text.rstrip("\n").expandtabs(4)) for text in islice(file, first - 1, line + _AROUND))
    if len(lines) <= line - first:
        return SourceLines(note=f"has no line {line}: it is another version of the file")
    return SourceLines(lines, first, "", status.st_mtime_ns)


def _with_source(pid: int, frame: Frame) -> Frame:
    if not frame.file or not frame.line or frame.source or not Path(frame.file).is_absolute():
        return frame
    found = read_source(pid, frame.file, frame.line)
    return structs.replace(frame, source=found.lines, source_from=found.first) if found.lines else frame
