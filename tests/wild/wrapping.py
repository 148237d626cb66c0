"""Texts in wrappings: which are tried in the test suite, and whether the same is said of them as bare."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.wild.judging import Said, graded, report
from tests.wild.texts import Text
from tests.wild.wrappings import RANKED, WRAPPINGS, encoded, has_ranks

__all__ = ["EACH", "like_bare", "pairs", "rotation"]

EACH: Final = 4
"""The wrappings that the suite tries for each text; `make wild` tries all."""
_TOLD: Final = 60
_NAMES: Final = re.compile(
    r"(?i)\b(?:rank|pid|process|worker|host|container|pod|job|log|line)s? [\w.:/-]+|\([^()]*\)|\d+"
)


def pairs(found: list[Text]) -> Iterator[tuple[Text, str]]:
    """All texts in all wrappings that suit them."""
    for text in found:
        ranks = has_ranks("\n".join(text.files().values()))
        yield from ((text, name) for name in WRAPPINGS if not (ranks and name in RANKED))


def rotation(found: list[Text]) -> dict[str, list[Text]]:
    """A choice of all pairs, the same every time: `EACH` wrappings for each text, the next text the next ones."""
    chosen: dict[str, list[Text]] = {name: [] for name in WRAPPINGS}
    for number, text in enumerate(found):
        suiting = [name for one, name in pairs([text])]
        step = len(suiting) // EACH
        for turn in range(EACH):
            chosen[suiting[(number + turn * step) % len(suiting)]].append(text)
    return chosen


def like_bare(text: Text, name: str, folder: Path) -> str | None:
    """None if a text in a wrapping gets the verdict that it gets bare; else what it gets.

    Args:
        text: the text.
        name: of the wrapping.
        folder: an empty one, for the wrapped logs.
    """
    for log, content in text.files().items():
        path = folder / log
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(name, content))
    bare, said = _bare(text), report(folder)
    same = said.state == bare.state and graded(text, said) == graded(text, bare)
    if same and _plain(bare)[:_TOLD] in _plain(said):  # which may name the rank or the container, too
        return None
    return f"{said.state}, {graded(text, said)}: {said.sentence!r}; bare {bare.state}: {bare.sentence!r}"


@functools.cache
def _bare(text: Text) -> Said:
    return report(text.logs)


def _plain(said: Said) -> str:
    """The sentence without numbers and the names of ranks, hosts and processes."""
    return re.sub(r"\W+", " ", _NAMES.sub("", said.sentence).lower().replace("crashed", "")).strip()
