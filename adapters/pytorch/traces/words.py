"""What is known of compilations, in a user's words."""

from __future__ import annotations

from typing import Final

from livedbg.adapters.pytorch.traces.program import Again, Compilation, Place, frame_of
from livedbg.text.patterns import lazy_re

_GUARD: Final = lazy_re(r"(?P<of>!?\d+(?:/\d+){1,2}): (?P<text>.*)")
_EXPECTED: Final = lazy_re(r"[.,;:]? {1,20}expected (?P<expected>.{1,500}?),? (?:actual|but got|got) (?P<actual>.+)")
_COMMENT: Final = lazy_re(r" {1,20}# .*")


def place_words(place: Place) -> str:
    """`big (model.py:20)`; "" where nothing is known."""
    file = place.file.rpartition("/")[2]
    where = f"{file}:{place.line}" if file and place.line else file
    return f"{place.function} ({where})" if place.function and where else place.function or where


def frame_words(one: Compilation) -> str:
    """`frame 0/1 of big (model.py:20)`."""
    where = place_words(one.place)
    if not one.key:
        return "a model by AOTInductor or export"
    return f"frame {one.key}" + (f" of {where}" if where else "")


def guard_words(guard: str) -> str:
    """`guard of 0/7 failed: tensor 'x' size mismatch at index 0: expected 8, got 9`."""
    match = _GUARD.match(guard)
    of, text = (f" of {match['of']}", match["text"]) if match is not None else ("", guard)
    text = _COMMENT.sub("", text).strip()
    compared = _EXPECTED.search(text)
    if compared is not None:
        head = text[: compared.start()]
        return f"guard{of} failed: {head}: expected {compared['expected']}, got {compared['actual'].rstrip('.')}"
    return f"guard{of} failed: {text}"


def recompilation_words(again: Again, place: Place) -> str:
    """What happened to a frame that was compiled more than once, a sentence."""
    where = place_words(place)
    of = f" of {where}" if where else ""
    guard = guard_words(again.guard) if again.guard else ""
    if again.limit or again.setting:
        limit = f"{again.setting or 'its limit'} ({again.limit})" if again.limit else again.setting
        last = f"; the last {guard}" if guard else ""
        frame = frame_of(again.key) or again.key
        return f"Frame {frame}{of} has reached {limit} and is not compiled any more{last}."
    often = f", {again.times} times in all" if again.times > 1 else ""
    return f"Frame {again.key}{of} was compiled again{often}" + (f": {guard}." if guard else ".")


def failure_words(one: Compilation) -> str:
    """What a compilation failed with, a sentence."""
    said = f": {one.reason.rstrip('.')}" if one.reason else ""
    return f"torch.compile failed on {frame_words(one)}: {one.error}{said}."
