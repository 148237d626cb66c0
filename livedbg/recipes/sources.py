"""Reads the source text of a command before it is started: which flags its version knows, what it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from livedbg.linux import target_files
from livedbg.recipes.model import Recipe, Source

_UP: Final = 5  # folders above a script that are looked into for its other files
_SIZE: Final = 2 << 20  # of a file that is read
_FILES: Final = 50  # that a glob may give


def fitting_sources(recipe: Recipe, option: str, argv: Sequence[str], folder: Path) -> tuple[Source, ...]:
    """Return the entries of `recipe.sources` that hold for a command in its working folder."""
    if not recipe.sources:
        return ()
    script = _script(argv, folder)
    return tuple(
        source
        for source in recipe.sources
        if (not source.only or option in source.only) and _holds(source, script, folder)
    )


def folders_above(argv: Sequence[str], folder: Path) -> tuple[Path, ...]:
    """Return the folder of a command's script, and some above it; () if it has no script."""
    script = _script(argv, folder)
    return () if script is None else tuple([script.parent, *script.parent.parents][:_UP])


def _script(argv: Sequence[str], folder: Path) -> Path | None:
    words = (folder / word for word in argv if word.endswith(".py"))
    return next((script for script in words if target_files.is_regular(script)), None)


def _holds(source: Source, script: Path | None, folder: Path) -> bool:
    text = "\n".join(_read(path) for path in _files(source, script, folder))
    if not text:
        return False
    says = not source.says or re.search(source.says, text) is not None
    return says and not (source.unless and re.search(source.unless, text))


def _files(source: Source, script: Path | None, folder: Path) -> Iterator[Path]:
    """Yield the script, and the files beside or above it that the entry names."""
    if script is not None:
        yield script
    start = script.parent if script is not None else folder
    for pattern in source.files:
        for above in [start, *start.parents][:_UP]:
            found = target_files.matching(above, pattern)[:_FILES]
            if found:
                yield from found
                break


def _read(path: Path) -> str:
    try:
        with target_files.open_binary(path) as file:
            return file.read(_SIZE).decode("utf-8", "replace")
    except OSError:
        return ""


def matching(pattern: str, folder: Path | None = None) -> list[Path]:
    """Return the files that a glob (`~` is expanded) matches in a folder, by default the current one, oldest first."""
    path = Path(pattern).expanduser()
    root, parts = (Path("/"), path.parts[1:]) if path.is_absolute() else (folder or Path.cwd(), path.parts)
    return sorted(root.glob("/".join(parts)), key=_age) if parts else []


def written(pattern: str, folder: Path, since_s: float, above: Sequence[Path] = ()) -> list[Path]:
    """Return the non-empty files that a glob matches and that were written since a time, the oldest first.

    Args:
        pattern: as for `matching`.
        since_s: the time, as files' times are (time.time()).
        above: more folders where a relative pattern may begin.
    """
    found = {path for start in (folder, *above) for path in matching(pattern, start) if _was_written(path, since_s)}
    return sorted(found, key=_age)


def _was_written(path: Path, since_s: float) -> bool:
    try:
        stat = path.stat()
    except OSError:
        return False
    return stat.st_size > 0 and stat.st_mtime >= since_s - 1.0  # coarse clocks of file systems


def _age(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, str(path)
    except OSError:
        return 0.0, str(path)
