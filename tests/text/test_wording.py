"""Counted nouns: one, several, and plurals that are not regular."""

from __future__ import annotations

import pytest

from livedbg.text.wording import many


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [
        (0, ("thread",), "0 threads"),
        (1, ("thread",), "1 thread"),
        (4201, ("record",), "4,201 records"),
        (2, ("touch",), "2 touches"),
        (2, ("address",), "2 addresses"),
        (1, ("entry", "entries"), "1 entry"),
        (0, ("tensor has", "tensors have"), "0 tensors have"),
        (1, ("tensor has", "tensors have"), "1 tensor has"),
    ],
)
def test_number_decides_between_one_and_several(count: int, words: tuple[str, ...], said: str) -> None:
    assert many(count, *words) == said
