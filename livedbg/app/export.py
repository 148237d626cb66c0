"""What is on the screen as files: report JSON, report Markdown, a picture. Into the current directory."""

from __future__ import annotations

import time
from pathlib import Path

from livedbg.session.view import Update
from livedbg.text.private_files import write_private


def free_path(suffix: str, folder: Path | None = None) -> Path:
    """A name that is not taken: `livedbg-20260101-120354.json`."""
    folder = folder or Path.cwd()
    stem = time.strftime("livedbg-%Y%m%d-%H%M%S")
    path, number = folder / f"{stem}.{suffix}", 1
    while path.exists():
        path, number = folder / f"{stem}-{number}.{suffix}", number + 1
    return path


def write_report(update: Update, suffix: str, folder: Path | None = None) -> Path:
    """Write the report of one update.

    Args:
        update: what to report.
        suffix: `json` or `md`.
        folder: where to; the current directory when None.

    Raises:
        OSError: it can't be written.
    """
    from livedbg.report.build import build
    from livedbg.report.lines import to_json
    from livedbg.report.markdown import to_markdown

    made = build(update)
    text = to_json(made, pretty=True) if suffix == "json" else to_markdown(made).encode()
    path = free_path(suffix, folder)
    write_private(path, text)
    return path
