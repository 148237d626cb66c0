"""Looks whether recipes took effect: a flag that had none is reported, not swallowed.

Invariants:
    E5. A recipe that says how its effect is seen, and of which nothing is seen, is named.
"""

from __future__ import annotations

import contextlib
import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from livedbg.recipes.model import Effect

__all__ = ["without_effect"]


def without_effect(effects: Mapping[str, Sequence[Effect]], output: Sequence[Path]) -> Iterator[str]:
    """A sentence for each recipe of which nothing was seen.

    Args:
        effects: by recipe.
        output: the files of the command's output.
    """
    for label, ways in effects.items():
        if ways and not any(_seen(way, output) for way in ways):
            hints = " ".join(way.hint for way in ways if way.hint)
            what = " or ".join(f"no line like /{way.says}/" if way.says else f"no file {way.file}" for way in ways)
            yield f"recipe {label} had no effect that could be seen: {what}. {hints}".rstrip()


def _seen(way: Effect, output: Sequence[Path]) -> bool:
    if way.file:
        return any(map(_has_bytes, Path("/").glob(way.file.lstrip("/"))))
    pattern = re.compile(way.says.encode(), re.MULTILINE)
    return any(_matches(path, pattern) for path in output)


def _has_bytes(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _matches(path: Path, pattern: re.Pattern[bytes]) -> bool:
    with (
        contextlib.suppress(OSError, ValueError),  # ValueError: an empty file can't be mapped
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
    ):
        return pattern.search(text) is not None
    return False
