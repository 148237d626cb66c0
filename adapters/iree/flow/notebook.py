"""What a step of the guide has found so far, in a file that its program writes and livedbg reads meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready

_NAME: Final = "found.json"


class Note(Struct):
    """What was found; as `livedbg.session.guide.StepFound`.

    Attributes:
        doing: what the step does now; "" when it has ended.
        trace: folder of the traced run that goes on; "" if there is none.
        places: the source of each dispatch, by its name.
    """

    lines: list[tuple[str, str]] = field(default_factory=list)
    hands: dict[str, str] = field(default_factory=dict)
    cause: bool = False
    wrong_value: bool = False
    hung: bool = False
    failed: bool = False
    undone: bool = False
    lacks: dict[str, str] = field(default_factory=dict)
    doing: str = ""
    trace: str = ""
    places: dict[str, str] = field(default_factory=dict)


class Notebook:
    """Collects what is found, and writes it down at once.

    Args:
        folder: of the step.
    """

    def __init__(self, folder: Path) -> None:
        self.note = Note()
        self._path = folder / _NAME
        self.write()

    def doing(self, what: str) -> None:
        """Say what the step does now."""
        self.note.doing = what
        self.write()
        if what:
            print(clean_line(what), flush=True)

    def say(self, label: str, sentence: str) -> None:
        """Something was found."""
        self.note.lines.append((label, sentence))
        self.write()

    def lacks(self, what: str, remedy: str) -> None:
        """The step can't be done."""
        self.note.undone = True
        self.say("missing", what)
        self.say("give it", remedy)

    def write(self) -> None:
        """Write all of it; a reader sees the file whole, before or after."""
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(self.note))
        fresh.rename(self._path)


def read_note(folder: Path) -> Note | None:
    """What a step wrote down; None if it has not begun, or was killed as it began."""
    try:
        return msgspec.json.Decoder(ready(Note)).decode((folder / _NAME).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
