"""Both ways of finding many words find the same."""

from __future__ import annotations

import pytest

from livedbg.logs.error_lines import ALARMS
from livedbg.logs.skim import _AhoCorasick, _Hyperscan, finder
from tests.logs.ordinary import SHAPES, block

WORDS = (*ALARMS, b"loss", b"oss: ", b"a", b"\nE0")


def test_hyperscan_and_aho_corasick_find_the_same_words_at_the_same_places() -> None:
    pytest.importorskip("hyperscan")
    data = "".join(block(name, 40) for name in SHAPES).encode() + b"\nE0 ERROR: x\0\xff a.b*c"
    assert _Hyperscan(WORDS).find(data) == _AhoCorasick(WORDS).find(data) != []


def test_words_are_no_patterns_and_none_find_nothing() -> None:
    assert finder((b"a.c", b"c")).find(b"abc a.c") == [(1, 2, 3), (0, 4, 7), (1, 6, 7)]
    assert finder(()).find(b"abc") == []
