"""The files that a recipe's glob means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def matching(pattern: str, folder: Path | None = None) -> list[Path]:
    """The files that a glob matches, the oldest first.

    Args:
        pattern: absolute, or of `folder`; `~` is the home folder.
        folder: the current one when None.
    """
    path = Path(pattern).expanduser()
    root, parts = (Path("/"), path.parts[1:]) if path.is_absolute() else (folder or Path.cwd(), path.parts)
    return sorted(root.glob("/".join(parts)), key=_age) if parts else []


def written(pattern: str, folder: Path, since_s: float, above: Sequence[Path] = ()) -> list[Path]:
    """The files that a glob matches, that are not empty and were written since a time, the oldest first.

    Args:
        pattern: as for `matching`.
        folder: where a relative one begins.
        since_s: the time, as files' times are (time.time()).
        above: more folders where it may begin.
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
