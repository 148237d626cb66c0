"""Summarises the files that a recipe made, when the command has ended, and names the command that opens them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from livedbg.recipes.effects import Ended
from livedbg.recipes.globs import written
from livedbg.recipes.growing import bytes_in_use
from livedbg.recipes.model import After
from livedbg.recipes.plan import Part
from livedbg.text.sanitize import clean, clean_line

__all__ = ["summaries"]

_LONGEST_S: Final = 60.0
_WIDEST: Final = 160


def summaries(
    parts: Sequence[Part], program: str, find: Callable[[str], str | None] = shutil.which, ended: Ended | None = None
) -> Iterator[str]:
    """Lines about the files of each recipe.

    Args:
        parts: of the plan.
        program: the first word of the command.
        find: gives the path of a program, or None.
        ended: when and where the command ran; None: all files of the current folder count.
    """
    ended = ended if ended is not None else Ended(())
    path = shutil.which(program) or program
    for part in parts:
        for end in part.after:
            files = written(end.file, ended.folder, ended.began_s, ended.above if end.above else ())
            if files and (len(files) > 1 or not end.several):
                last = max(files, key=lambda file: bytes_in_use(file) or 0) if end.form == "heap" else files[-1]
                names = {"{file}": str(last), "{at}": str(last.parent), "{first}": str(files[0]), "{program}": path}
                yield from _summary(part.label, end, names, find)


def _summary(label: str, end: After, names: dict[str, str], find: Callable[[str], str | None]) -> Iterator[str]:
    argv = [_filled(word, names) for word in end.command]
    if argv:
        printed = _printed(argv, find)
        if printed:
            yield f"{label}: {shlex.join(argv)}"
            yield from (f"    {line}" for line in printed[: end.lines])
            if len(printed) > end.lines:
                yield f"    ({len(printed) - end.lines} more lines)"
        else:
            failed = f"{clean_line(argv[0])} is not installed, or can't read the file"
            yield f"{label}: {shlex.join(argv)}   (for a summary; {failed})"
    if end.opens:
        words = {key: shlex.quote(name) for key, name in names.items()}
        yield f"{label}: to open the file: {_filled(end.opens, words)}"


def _filled(text: str, names: dict[str, str]) -> str:
    for key, name in names.items():
        text = text.replace(key, name)
    return text


def _printed(argv: Sequence[str], find: Callable[[str], str | None]) -> list[str]:
    program = find(argv[0])
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, *argv[1:]], capture_output=True, timeout=_LONGEST_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    text = clean(done.stdout.decode("utf-8", "replace")) if done.returncode == 0 else ""
    return [line[:_WIDEST].rstrip() for line in text.splitlines() if line.strip()]
