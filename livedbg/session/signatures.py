"""The signature files of a session: those of the systems, the user's own, and those of `--signatures`.

Invariants:
    signatures.F1. A file that can't be used is a problem with its name; the others are used.
    signatures.F2. Files are read once for all sessions of a process, and not before logs are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from livedbg.model.errors import LivedbgError
from livedbg.session.systems import note_problem, systems
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:
    from livedbg.signatures.book import Book, Room

USERS = "signatures"
"""The system of signatures that are no system's."""


def own_folder() -> Path:
    """Return the folder of a user's own signatures (XDG Base Directory Specification)."""
    return _own_folder(os.environ.get("XDG_CONFIG_HOME"), os.environ.get("HOME"))


@cache
def _own_folder(_configuration: str | None, _home: str | None) -> Path:
    from platformdirs import user_config_path

    return user_config_path("livedbg") / "signatures"


def book(folders: Sequence[str] = ()) -> tuple[Book, tuple[str, ...]]:
    """Return all signatures, and a sentence for each file of a user that can't be used."""
    return _book(tuple(folders), own_folder())


def ids_in(text: str) -> set[str]:
    """Return the ids of the signatures that match a text."""
    return {one.entry.signature.id for one in book()[0].found(text)}


@cache
def _book(folders: tuple[str, ...], own: Path) -> tuple[Book, tuple[str, ...]]:
    from livedbg.signatures.book import Book, parse
    from livedbg.signatures.check import checked

    rooms, wrong = list(_of_systems()), list[str]()
    paths = [path for folder in (own, *map(Path, folders)) for path in sorted(folder.glob("*.toml"))]
    for path in paths:
        try:
            room = checked(parse(USERS, str(path), path.read_bytes()))
        except (OSError, LivedbgError) as error:
            wrong.append(clean_line(str(error)))
        else:
            rooms.append(room)
    return Book(rooms), tuple(wrong)


def _of_systems() -> Iterator[Room]:
    from livedbg.signatures.book import parse

    for system in systems():
        if system.signatures:
            try:
                folder = files(system.signatures)
                found = sorted((one.name, one) for one in folder.iterdir() if one.name.endswith(".toml"))
                yield from [parse(system.name, f"{system.name}/{name}", one.read_bytes()) for name, one in found]
            except Exception as error:  # a system that fails is a problem of its own (systems.Y2)
                note_problem(system.name, f"its signatures in {system.signatures} can't be read", error)
