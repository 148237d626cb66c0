"""Tests of `livedbg.text.shortening`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.signatures.templates import render
from livedbg.text.shortening import shortened

NAME = "mix_rows_" + "f8E4M3_times_" * 20 + "dispatch_7"
TYPE = "tile<4, " + "wave<float, 2>, " * 12 + "last>"


@pytest.mark.invariant("shortening.S1")
@given(st.text(alphabet="ab /'\"…", max_size=400), st.integers(1, 200))
def test_S1_nothing_is_longer_than_asked_for(text: str, most: int) -> None:
    short = shortened(text, most)
    assert len(short) <= most
    if len(text) <= most:
        assert short == text


@pytest.mark.parametrize("name", [NAME, TYPE, f"/srv/build/{NAME}.mlir"])
def test_a_long_name_in_front_does_not_hide_the_reason(name: str) -> None:
    for text in (f"function '{name}' uses 9000 bytes of local memory; the limit is 4096", f"'{name}': no such symbol"):
        short = render("{text:short}", {"text": text})
        assert short.endswith(text.rpartition("'")[2]) and "…" in short and len(short) <= 160
        assert render("{text:reason}", {"text": text}) == short


def test_a_quoted_reason_at_the_end_keeps_its_begin() -> None:
    text = f"the tool said '{'no room is left for the table ' * 9}'"
    assert shortened(text, 100).startswith("the tool said 'no room is left for the table no room is left for")
    text = f"it can't be read: {'a few more words of it, ' * 5}and isn't there at all"
    assert shortened(text, 100).startswith("it can't be read: a few more words of it, a few more")


@pytest.mark.invariant("shortening.S2")
def test_S2_the_clause_that_says_why_is_kept() -> None:
    first = "the plan of the plant can't be made with the tanks that were given to it by the caller"
    why = "Tank([a, b], shape=(1,)) takes one row, but it was given two"
    assert shortened(f"{first}: {why}", 120).endswith(f"… {why}")
    assert shortened(f"{first}: {why}. Read the manual of the plant", 120).endswith(f"… {why}")
    advice = "The option --keep-old can be used to go on without it; however, that may leave wrong levels in the tanks"
    told = f"#error: {first}: 4 tanks are the most! {advice}"
    assert shortened(told, 140).startswith(f"#error: {first}: 4 tanks are the most!")
    seen = f"it was given two, but one fits: {first}"
    assert shortened(seen, 80).startswith("it was given two, but one fits: the plan")


@pytest.mark.invariant("shortening.S2")
def test_S2_the_clause_that_says_what_is_not_supported_is_kept() -> None:
    first = "the pump can't be placed in any of the halls of the plant that was given by the caller"
    why = "the width 40 of valve [a] is not supported"
    assert shortened(f"{first}: [hall 3]: {why}. All widths of valves that fit: 10, 20, 30, 60, 80", 100).endswith(why)
    assert shortened(f"the width is not supported: {first}, or in the yard", 80).startswith(
        "the width is not supported"
    )


@pytest.mark.invariant("shortening.S3")
def test_S3_what_is_said_twice_is_said_once_and_what_wraps_a_compiler_s_message_goes_first() -> None:
    hall = "[hall 3]: there is no place for the pump."
    assert shortened(f"The plan fails. {hall}{hall}{hall}It has 40 rows", 90) == f"The plan fails. {hall}It has 40 rows"
    assert shortened(f"{hall}{hall}", 90) == f"{hall}{hall}"  # not too long
    own = "pump.cpp:31:7: error: no matching function for call to 'turn'"
    wrapped = f"[build] an exception came up in stage FILL of the plan, its text is /srv/plant/halls/3/{own}"
    assert shortened(wrapped, 90) == own
    assert shortened(wrapped, 300) == wrapped
    clock = f"{'the plan of the plant is late ' * 3}at 10:31:07: error: none"
    assert shortened(clock, 90).startswith("the plan of")
