"""Texts of more threads, of forms that were new when they came: bare only, until they join those of `threads`."""

from __future__ import annotations

import pytest

from tests.golden.sentences import golden, written
from tests.wild.judging import graded, report
from tests.wild.texts import FOLDERS, Text, texts

FRESH = texts(FOLDERS[0].parent / "fresh")


@pytest.mark.parametrize("text", FRESH, ids=[text.id for text in FRESH])
def test_a_fresh_log(text: Text) -> None:
    said = report(text.logs)
    assert graded(text, said) == "right", said
    assert written(said) == golden()[text.name], "python -m tests.golden --write, and read what changed"
