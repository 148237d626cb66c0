"""What is said of every log of the project's fixtures, in one file that is read when it changes: sentences.txt."""

from __future__ import annotations

import textwrap
from functools import cache
from pathlib import Path
from typing import Final

from tests.wild.judging import Said

FILE: Final = Path(__file__).parent / "sentences.txt"
_FIXTURES: Final = Path(__file__).parents[1] / "fixtures"
_TEXTS: Final = ("wild", "threads", "fresh")
_LOGS: Final = ("ascend", "cann", "cuda", "nvfuser", "pypto", "sanitizers")
LONG: Final = 25
"""Words after which a sentence is long."""


def texts() -> dict[str, Path]:
    """The texts that other tests judge, by name: `wild/asc-03-a5-mte`."""
    return {f"{top}/{path.parent.name}": path for top in _TEXTS for path in sorted(_FIXTURES.glob(f"{top}/*/logs"))}


def logs() -> dict[str, Path]:
    """The other logs, by name: `cuda/assert.txt`."""
    paths = (path for top in _LOGS for path in sorted((_FIXTURES / top).iterdir()))
    wanted = (path for path in paths if path.is_dir() or path.suffix in (".log", ".txt"))
    return {path.relative_to(_FIXTURES).as_posix(): path for path in wanted}


def written(said: Said) -> str:
    """A report as the file has it: its state, the verdict's sentence, and those of the findings that say more."""
    first, *more = dict.fromkeys(said.sentences.split("\n"))
    return "\n".join([f"{said.state}: {first}", *more])


@cache
def golden() -> dict[str, str]:
    """What the file has, by name."""
    blocks = FILE.read_text().split("\n\n") if FILE.exists() else []
    return {name: textwrap.dedent(text).rstrip("\n") for name, _, text in (block.partition("\n") for block in blocks)}


def write(said: dict[str, str]) -> None:
    """Write the file."""
    FILE.write_text("\n\n".join(f"{name}\n{textwrap.indent(text, '    ')}" for name, text in said.items()) + "\n")


def long_ones(said: dict[str, str]) -> list[str]:
    """The names of those whose verdict's first sentence is long."""
    firsts = {name: text.partition("\n")[0].partition(": ")[2].partition(". ")[0] for name, text in said.items()}
    return [name for name, sentence in firsts.items() if len(sentence.split()) > LONG]
