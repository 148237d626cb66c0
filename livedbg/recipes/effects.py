"""Checks whether recipes took effect, and reports those that did not.

Invariants:
    effects.E5. A recipe that declares how its effect is verified, and whose effect is not found, is reported, with
        the likely cause.
    effects.E7. What was not sampled is not reported as missing: a process that lived too short a time to be sampled may
        have loaded the file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from livedbg.recipes.globs import written
from livedbg.recipes.model import Effect, Reason
from livedbg.recipes.plan import Part
from livedbg.recipes.witness import Seen
from livedbg.text.sanitize import clean_line

_SHOWN: Final = 60
"""A longer expression is not shown."""

_BLOCK: Final = 1 << 20  # bytes of a file that are searched at once
_OVERLAP: Final = 64 << 10  # a match of several lines is not longer


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended.

    Attributes:
        output: the files of its output, and other logs.
        processes: what was seen of its processes.
        began_s: when it began, as files' times are (time.time()).
        folder: it ran in.
        above: the folder of its script, and some above that.
    """

    output: Sequence[Path]
    processes: Sequence[Seen] = ()
    began_s: float = 0.0
    folder: Path = Path()
    above: Sequence[Path] = ()


def without_effect(parts: Sequence[Part], ended: Ended) -> Iterator[str]:
    """A sentence for each recipe that had no visible effect, and for the program's own message about it."""
    for part in parts:
        unseen = bool(part.effects) and not any(_seen(way, part, ended) for way in part.effects)
        why = [text for reason in part.reasons if unseen or reason.always for text in _means(reason, ended.output)]
        if unseen:
            why = why or _astray(part, ended) or [way.hint for way in part.effects if way.hint]
            what = " or ".join(map(_expected, part.effects))
            yield " ".join([f"recipe {part.label} had no visible effect: {what}.", *why])
        elif why:
            yield " ".join([f"recipe {part.label}:", *why])


def _expected(way: Effect) -> str:
    if way.says and way.file:
        return f"no file {way.file} has a line that matches /{way.says}/"
    if way.says:
        return f"no line matches /{way.says}/" if len(way.says) <= _SHOWN else "the output has none of its lines"
    return f"no file {way.file}" if way.file else f"no process was seen with a file that matches /{way.loaded}/"


def _seen(way: Effect, part: Part, ended: Ended) -> bool:
    if way.file:
        found = written(way.file, ended.folder, ended.began_s, ended.above if way.above else ())
        wanted = re.compile(way.says.encode(), re.MULTILINE)
        return any(not way.says or _search(file, wanted) is not None for file in found)
    if way.loaded:
        return not ended.processes or any(_has(seen, way.loaded) and _got(seen, part) for seen in ended.processes)
    pattern = re.compile(way.says.encode(), re.MULTILINE)
    return any(_search(path, pattern) is not None for path in ended.output)


def _astray(part: Part, ended: Ended) -> list[str]:
    """Variables that did not reach the processes that would have read them."""
    for seen in ended.processes:
        reads = not any(way.loaded for way in part.effects) or any(
            way.loaded and _has(seen, way.loaded) for way in part.effects
        )
        if reads and (lost := _lost(seen, part)):
            name = clean_line(Path(seen.name).name)
            return [f"{', '.join(lost)} did not reach process {seen.pid} ({name}): a program in between changed it."]
    return []


def _has(seen: Seen, expression: str) -> bool:
    return any(re.search(expression, path) for path in seen.loaded)


def _got(seen: Seen, part: Part) -> bool:
    return not _lost(seen, part)


def _lost(seen: Seen, part: Part) -> list[str]:
    """The recipe's variables that a process has not, or with another value."""
    if not seen.readable:
        return []
    return [name for name, value in part.environment.items() if not _same(seen.environment.get(name), value)]


def _same(has: str | None, value: str) -> bool:
    """Whether it is that value; gperftools marks the first character of its own (src/base/sysinfo.cc)."""
    return has == value or (has is not None and has[:1] == "\ufffd" and has[1:] == value[1:])


def _means(reason: Reason, output: Sequence[Path]) -> list[str]:
    pattern = re.compile(reason.says.encode(), re.MULTILINE)
    for path in output:
        groups = _search(path, pattern)
        if groups is not None:
            text = reason.means
            for number, group in enumerate(groups, 1):
                text = text.replace(f"{{{number}}}", clean_line(group.decode("utf-8", "replace"), 200))
            return [text]
    return []


def _search(path: Path, pattern: re.Pattern[bytes]) -> tuple[bytes, ...] | None:
    """The groups of the first match in a file, which may be written and truncated meanwhile."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        left, data = b"", file.read(_BLOCK)
        while data:
            text, data = left + data, file.read(_BLOCK)
            at = len(text) if not data or b"\n" not in text else text.rindex(b"\n")
            match = pattern.search(text, 0, at)
            if match is not None:
                return tuple(group or b"" for group in match.groups())
            left = text[text.rfind(b"\n", 0, max(0, at - _OVERLAP)) + 1 :][-_BLOCK:]
    return None
