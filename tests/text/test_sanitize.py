"""The invariants of livedbg.text.sanitize, on a list of hostile strings and by property."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.text.sanitize import clean, clean_bytes, clean_line


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"sanitize_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


hostile = _load("hostile")

_HOSTILE_TEXT = st.text(
    st.one_of(
        st.sampled_from("\x1b\x9b\x9d\x90\x9c\x07\r\n\t\x00\x7f\u202e\u2028\ud800[]P^_X\\0;m52c?(=HJ qz"),
        st.characters(),
        st.characters(categories=["Cs"]),
    ),
    max_size=60,
)


@pytest.mark.parametrize("name", hostile.HOSTILE)
def test_hostile_strings_lose_their_power_and_nothing_around_them(name: str) -> None:
    cleaned = clean(hostile.HOSTILE[name])
    assert not hostile.FORBIDDEN.search(cleaned)
    assert hostile.KEEP_LEFT in cleaned
    assert hostile.KEEP_RIGHT in cleaned
    assert cleaned.encode("utf-8")  # no lone surrogate
    assert hostile.is_harmless(cleaned.encode("utf-8"))


@pytest.mark.parametrize("name", hostile.MARKUP)
def test_markup_is_text_and_stays(name: str) -> None:
    assert clean(hostile.MARKUP[name]) == hostile.MARKUP[name]


@given(_HOSTILE_TEXT)
@pytest.mark.invariant("sanitize.Z1")
def test_Z1_nothing_forbidden_is_left(text: str) -> None:
    cleaned = clean(text)
    assert not hostile.FORBIDDEN.search(cleaned)
    cleaned.encode("utf-8")


@given(_HOSTILE_TEXT)
@pytest.mark.invariant("sanitize.Z2")
def test_Z2_idempotent(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
@pytest.mark.invariant("sanitize.Z2")
def test_Z2_identity_on_printable_ascii(text: str) -> None:
    assert clean(text) == text


@given(st.sampled_from(sorted(hostile.HOSTILE)), st.text("abc xyz"), st.text("abc xyz"))
@pytest.mark.invariant("sanitize.Z3")
def test_Z3_lines_around_are_kept(name: str, before: str, after: str) -> None:
    cleaned = clean(f"{before}\n{hostile.HOSTILE[name]}\n{after}")
    assert cleaned.startswith(f"{before}\n")
    assert cleaned.endswith(f"\n{after}")


def test_a_redraw_shows_what_it_last_showed() -> None:
    assert clean("1 %\r50 %\r100 %\nnext") == "100 %\nnext"
    assert clean("error: x\r\r\n") == "error: x\n"
    assert clean("\r") == ""


@given(st.binary(max_size=80))
def test_bytes_never_raise(data: bytes) -> None:
    assert not hostile.FORBIDDEN.search(clean_bytes(data))


@given(_HOSTILE_TEXT, st.integers(1, 50))
def test_clean_line_is_one_short_line(text: str, limit: int) -> None:
    line = clean_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line and "\t" not in line


@pytest.mark.parametrize("unit", ["\x9d", "\x1b]", "\x90", "\x1bP", "\x9b", "\x1b[1;", "\x1b ", "\r", "\x1b[0;\x9d"])
def test_long_hostile_lines_take_linear_time(unit: str) -> None:
    """Quadratic matching of a 1 MB line would run into the time limit of the suite."""
    assert not hostile.FORBIDDEN.search(clean(unit * (1_000_000 // len(unit))))
