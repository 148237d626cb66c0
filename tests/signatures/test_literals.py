"""The words that every match of a pattern has."""

from __future__ import annotations

import re

import pytest

from livedbg.session.signatures import book
from livedbg.signatures.book import Entry
from livedbg.signatures.literals import derived

ENTRIES = book()[0].entries


@pytest.mark.invariant("literals.L1")
@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"the pump of (?P<host>\w+) stopped", {"the pump of "}),
        (r"^[ \t]{0,16}CMake Error(?: at \w+)?: \w", {"CMake Error"}),
        (r"(?:Transport|Receiver) retry (?=x)", {"Transport", "Receiver"}),
        (r"TERM_(?:OWNER|ADMIN)\b", {"TERM_OWNER", "TERM_ADMIN"}),
        (r"(?:alpha|beta)\d", {"alpha", "beta"}),
        (r"(?:alpha|\d+)x", set()),
        (r"(?:word ){2}\d", {"word "}),
        (r"(?:word ){0,2}\d", set()),
        (r"(?i)anything", set()),
        (r"x(?i:anything)", set()),
        (r"ab\d", set()),
        (r"[Oo]ut of memory: (?!none)Kill", {"ut of memory: Kill"}),
    ],
)
def test_L1_the_most_telling_text_that_every_match_has(pattern: str, words: set[str]) -> None:
    assert derived(pattern).words == words


def test_a_pattern_of_several_lines_has_words_for_each_of_them() -> None:
    found = derived(r"The rank (?P<rank>\d+) called abort\n(?:[^\n]{1,80}\n)?  error code: \d")
    assert found.lines and found.words | found.parts == {" called abort", "  error code: "}
    assert not derived(r"one line \d[^)\n]*").lines
    assert derived(r"wrapped on\s+signal \d").lines


@pytest.mark.invariant("literals.L1")
@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])
def test_L1_words_that_are_named_are_in_all_examples_and_agree_with_what_is_derived(entry: Entry) -> None:
    for example in entry.signature.examples:
        for pattern in entry.patterns:
            for match in pattern.finditer(example.text):
                for words in (entry.words, derived(pattern.pattern).words):
                    assert not words or any(word in match[0] for word in words) or _is_quiet(entry, match)


def _is_quiet(entry: Entry, match: re.Match[str]) -> bool:
    """A match that amounts to nothing may have no word."""
    return entry.said(match) is None
