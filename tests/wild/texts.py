"""Texts of failed jobs that nobody here wrote, rewritten after public threads, and what is true of each.

A folder ID holds `logs/` and `truth.json`: the states that a careful engineer accepts, words that show that the culprit
was found (`mention`), words that would mislead (`never`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

__all__ = ["FOLDERS", "Text", "texts"]

_FIXTURES: Final = Path(__file__).parents[1] / "fixtures"
FOLDERS: Final = (_FIXTURES / "wild", _FIXTURES / "threads")
"""Where they are: those of the project's corpus, and those of more threads."""


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A text and what is true of it.

    Attributes:
        id: the name of its folder.
        kind: what kind of failure it is.
        source: the threads that it was rewritten after.
        reading: what a perfect debugger would say.
        culprit: what failed first.
        next: what one would look at next.
        state: the states that are accepted.
        mention: what the report must say, in any case.
        never: what its sentences must not say.
        folder: where it is.
    """

    id: str
    kind: str
    source: str
    reading: str
    culprit: str
    next: str
    state: tuple[str, ...]
    mention: tuple[str, ...]
    never: tuple[str, ...]
    folder: Path = Path()

    @property
    def name(self) -> str:
        """Of its folder below the fixtures: `wild/asc-03-a5-mte`."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def logs(self) -> Path:
        """The folder that `report --logs` reads."""
        return self.folder / "logs"

    def files(self) -> dict[str, str]:
        """The text of each log, by its name below `logs`."""
        found = sorted(path for path in self.logs.rglob("*") if path.is_file())
        return {str(path.relative_to(self.logs)): path.read_bytes().decode(errors="replace") for path in found}


def texts(*folders: Path) -> list[Text]:
    """All texts of folders (all of them, if none is named), by id."""
    found = []
    for truth in (path for folder in folders or FOLDERS for path in folder.glob("*/truth.json")):
        text = msgspec.json.decode(truth.read_bytes(), type=Text)
        found.append(msgspec.structs.replace(text, folder=truth.parent))
    return sorted(found, key=lambda text: text.id)
