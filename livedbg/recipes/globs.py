"""The files that a recipe's glob means."""

from __future__ import annotations

from pathlib import Path

__all__ = ["matching"]


def matching(pattern: str, folder: Path | None = None) -> list[Path]:
    """The files that a glob matches, the oldest first.

    Args:
        pattern: absolute, or of `folder`; `~` is the home folder.
        folder: the current one when None.
    """
    path = Path(pattern).expanduser()
    root, parts = (Path("/"), path.parts[1:]) if path.is_absolute() else (folder or Path.cwd(), path.parts)
    return sorted(root.glob("/".join(parts)), key=_age) if parts else []


def _age(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, str(path)
    except OSError:
        return 0.0, str(path)
