"""JSON of strings and numbers that a target chose."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.text.json_text import clean_value, json_bytes, needs_cleaning
from livedbg.text.sanitize import clean, is_clean

_TEXT = st.text(st.one_of(st.sampled_from("\x1b\x9b\x07\r\n\t\x7f\u202e\u2028\udcff\ud800\\u\ufeff"), st.characters()))
_VALUES = st.recursive(
    st.one_of(_TEXT, st.integers(-(1 << 63), (1 << 64) - 1), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXT, inner, max_size=4)),
    max_leaves=12,
)


@given(_VALUES)
@pytest.mark.invariant("json_text.J1")
@pytest.mark.invariant("json_text.J2")
def test_J1_J2_whatever_the_value_is_the_text_is_clean_and_parses(value: object) -> None:
    encoded = json_bytes(value)
    assert is_clean(encoded.decode())
    assert msgspec.json.decode(encoded) == clean_value(value)
    assert clean_value(msgspec.json.decode(encoded)) == msgspec.json.decode(encoded)


@given(_TEXT)
def test_a_text_that_is_not_clean_is_noticed(text: str) -> None:
    try:
        encoded = msgspec.json.encode(text)
    except UnicodeEncodeError:
        return
    assert needs_cleaning(encoded) or clean(text) == text


def test_names_and_numbers_that_json_has_not() -> None:
    assert json_bytes(["a\udcff", "\x9b31m", 1 << 70]) == b'["a\\\\xff","",18446744073709551615]'
    assert json_bytes({"plain": "größe"}) == '{"plain":"größe"}'.encode()
    assert json_bytes({"a": 1}, pretty=True) == b'{\n  "a": 1\n}'
