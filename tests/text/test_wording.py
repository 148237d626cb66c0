"""Counted nouns: one, several, and plurals that are not regular."""

from __future__ import annotations

import pytest

from livedbg.text.wording import many, sentence_case


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", ""),
        ("t", "T"),
        ("thread 7 (DataLoader_GPU0) waits", "Thread 7 (DataLoader_GPU0) waits"),
        ("3 more threads wait for /tmp/A", "3 more threads wait for /tmp/A"),
        ("Rank 3 of NCCL", "Rank 3 of NCCL"),
        ("ärger in Öl", "Ärger in Öl"),
    ],
)
def test_only_the_first_letter_of_a_sentence_is_changed(text: str, sentence: str) -> None:
    assert sentence_case(text) == sentence
