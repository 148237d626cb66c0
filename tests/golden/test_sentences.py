"""The sentences of sentences.txt are what livedbg says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.sentences import golden, logs, texts, written
from tests.wild.judging import report


@pytest.mark.parametrize(("name", "path"), list(logs().items()), ids=list(logs()))
def test_a_log_gets_the_sentences_of_the_file(name: str, path: Path) -> None:
    assert written(report(path)) == golden().get(name), "python -m tests.golden --write, and read what changed"


def test_every_text_is_in_the_file() -> None:
    assert set(golden()) == {*texts(), *logs()}
