"""What the last passes of a compilation changed: the difference of two dumps, near what the error is about."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.linux import target_files
from livedbg.text.sanitize import clean_bytes, clean_line

__all__ = ["PassChange", "change_of"]

_SIZE: Final = 4 << 20  # of a dump that is compared
_LINES: Final = 16  # of a difference that are shown
_WIDTH: Final = 180
_BACK: Final = 12  # dumps that are gone back over where the last ones are equal
_WORD: Final = re.compile(r"[A-Za-z_][\w.]{2,}|\d{2,}")
_COMMON: Final = frozenset({"the", "and", "for", "has", "must", "exceeds", "failed", "error", "check", "pass", "after"})


class PassChange(Struct, frozen=True):
    """What one pass changed.

    Attributes:
        before, after: the files' names.
        lines: of the difference, the ones that matter most, each beginning with `-`, `+` or a blank.
        more: further lines that differ.
    """

    before: str
    after: str
    lines: tuple[str, ...]
    more: int


def change_of(files: Sequence[Path], message: str) -> PassChange | None:
    """The last change before an error, or None where no two dumps differ. Blocking.

    Args:
        files: the dumps, oldest first; the last one is that of the pass that failed, or of the last that ended.
        message: of the error; what it names is looked for in the difference.
    """
    texts: dict[Path, list[str]] = {}
    recent = list(files)[-_BACK:]
    for before, after in reversed(list(pairwise(recent))):
        for path in (before, after):
            if path not in texts:
                texts[path] = _read(path)
        if texts[before] and texts[after] and texts[before] != texts[after]:
            return _change(before, after, texts, message)
    return None


def _read(path: Path) -> list[str]:
    try:
        with target_files.open_binary(path) as file:
            return [clean_bytes(line) for line in file.read(_SIZE).splitlines()]
    except OSError:
        return []


def _change(before: Path, after: Path, texts: dict[Path, list[str]], message: str) -> PassChange:
    words = {word for word in _WORD.findall(message) if word.lower() not in _COMMON}
    hunks = list(_hunks(texts[before], texts[after]))
    best = max(hunks, key=lambda hunk: len(words.intersection(_WORD.findall("\n".join(hunk)))))
    shown = tuple(line[:_WIDTH] for line in best[:_LINES])
    changed = sum(line[:1] in "+-" for hunk in hunks for line in hunk)
    return PassChange(
        clean_line(before.name), clean_line(after.name), shown, changed - sum(line[:1] in "+-" for line in shown)
    )


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[list[str]]:
    hunk: list[str] = []
    for line in list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]:
        if line.startswith("@@"):
            if hunk:
                yield hunk
            hunk = []
        else:
            hunk.append(line)
    if hunk:
        yield hunk
