"""The table of texts of which livedbg does not say all yet (not_yet.toml), which the tests hold true."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["NOT_YET", "not_yet", "not_yet_wrapped", "write"]

NOT_YET: Final = Path(__file__).with_name("not_yet.toml")
_HEAD: Final = """\
# Texts of which livedbg does not say all yet: the grade of each, by id; and by wrapping those of which something else
# is said in it than bare. `python -m tests.wild --write` writes it. A test fails where one has become better or worse.
"""


def _read() -> dict[str, dict[str, str | list[str]]]:
    return tomllib.loads(NOT_YET.read_text()) if NOT_YET.exists() else {}


def not_yet() -> dict[str, str]:
    """The grade of each text that is not right."""
    return {id_: str(grade) for id_, grade in _read().get("bare", {}).items()}


def not_yet_wrapped() -> dict[str, list[str]]:
    """The texts of which something else is said in a wrapping, by wrapping."""
    return {name: list(ids) for name, ids in _read().get("wrapped", {}).items()}


def write(grades: Mapping[str, str], wrapped: Mapping[str, list[str]]) -> None:
    """Write the table."""
    lines = [_HEAD, "[bare]", *(f'{id_} = "{grade}"' for id_, grade in grades.items() if grade != "right")]
    lines += ["", "[wrapped]"]
    for name, ids in wrapped.items():
        if ids:
            lines += [f"{name} = [", *(f'    "{id_}",' for id_ in ids), "]"]
    NOT_YET.write_text("\n".join(lines) + "\n")
