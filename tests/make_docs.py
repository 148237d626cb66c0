"""`make docs`: the pages and pictures of docs/ that are made from livedbg itself; see tests/docs."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from tests.docs.pages import pages
from tests.docs.pictures import PICTURES, picture

__all__ = ["DOCS", "UNSET", "main"]

DOCS = Path(__file__).parents[1] / "docs"
UNSET = ("NO_COLOR", "COLORTERM", "SSH_CONNECTION", "TEXTUAL_COLOR_SYSTEM", "COLUMNS", "LINES")
"""What of the environment could be seen in a picture."""


def main() -> None:
    """Write everything, and remove pictures that no longer are any."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name in UNSET:
        os.environ.pop(name, None)
    pictures = DOCS / "pictures"
    for folder in (DOCS / "commands", pictures):
        folder.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        (DOCS / path).write_text(text, encoding="utf-8")
    for old in pictures.glob("*.svg"):
        old.unlink()
    for wanted in PICTURES:
        (pictures / f"{wanted.name}.svg").write_text(asyncio.run(picture(wanted)), encoding="utf-8")
    print(f"{len(pages())} pages and {len(PICTURES)} pictures in {DOCS.name}/")


if __name__ == "__main__":
    main()
