"""Shortens a text so that its reason stays: long names and quotes lose their middle before the text loses its end.

Invariants:
    shortening.S1. No result is longer than asked for, and a text that is not too long stays as it is.
"""

from __future__ import annotations

from typing import Final

from livedbg.text.patterns import lazy_re

_WORD: Final = lazy_re(r"(\S{24})\S{5,4000}(\S{20})")
_QUOTED: Final = lazy_re(r"(?<!\w)((['\"`])[^'\"`\n]{23})[^'\"`\n]{5,4000}([^'\"`\n]{20}\2)(?=.{8})")
"""One with words behind it: a quote at the end may be the reason itself."""


def shortened(text: str, most: int) -> str:
    """Return the text, cut to at most `most` characters; `…` marks what was cut."""
    for pattern, ends in ((_WORD, r"\1…\2"), (_QUOTED, r"\1…\3")):
        if len(text) > most:
            text = pattern.sub(ends, text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
