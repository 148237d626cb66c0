"""Shortens a text so that its reason stays: long names and quotes lose their middle before the text loses its end.

Invariants:
    shortening.S1. No result is longer than asked for, and a text that is not too long stays as it is.
    shortening.S2. A clause that says why (`, but it was applied to 2`) is kept, and what stands before it is cut, where
        otherwise its end would be lost; not one (`; however`) that a later sentence adds to its own advice.
"""

from __future__ import annotations

from typing import Final

from livedbg.text.patterns import lazy_re

_WORD: Final = lazy_re(r"(\S{24})\S{5,4000}(\S{20})")
_QUOTED: Final = lazy_re(r"(?<!\w)((['\"`])[^'\"`\n]{23})[^'\"`\n]{5,4000}([^'\"`\n]{20}\2)(?=.{8})")
"""One with words behind it: a quote at the end may be the reason itself."""

_REASON: Final = lazy_re(r",? (?:but|because|since|whereas|however|instead of|which is not)\b")

_CAVEAT: Final = lazy_re(r"[.!] [A-Z][^\n]{1,400}; however$")
"""What a later sentence adds to its own advice."""


def shortened(text: str, most: int) -> str:
    """Return the text, cut to at most `most` characters; `…` marks what was cut."""
    for pattern, ends in ((_WORD, r"\1…\2"), (_QUOTED, r"\1…\3")):
        if len(text) > most:
            text = pattern.sub(ends, text)
    if len(text) > most and (why := _why(text, most)):
        return f"{text[: most - len(why) - 2].rstrip(' .,:;')}… {why}"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _why(text: str, most: int) -> str:
    """Return the clause with the reason whose end would be lost, from the colon before it if there is room, or ""."""
    told = (match for match in _REASON.finditer(text, most // 3) if _CAVEAT.search(text, 0, match.end()) is None)
    ends = ((match, text.find(". ", match.end())) for match in told)
    found = ((match.start(), end if end > 0 else len(text)) for match, end in ends)
    begin, end = next(((begin, end) for begin, end in found if end > most), (0, 0))
    room = most * 2 // 3
    colon = max(text.rfind(mark, max(0, end - room), begin) for mark in (": ", "; ", ". "))
    clause = text[colon + 2 if colon > 0 else begin : end].lstrip(" ,")
    return clause if end - begin <= room else ""
