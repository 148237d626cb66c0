"""Shortens a text so that its reason stays: long names and quotes lose their middle before the text loses its end.

Invariants:
    shortening.S1. No result is longer than asked for, and a text that is not too long stays as it is.
    shortening.S2. A clause that says why (`, but it was applied to 2`) is kept, and what stands before it is cut, where
        otherwise its end would be lost; not one (`; however`) that a later sentence adds to its own advice.
    shortening.S3. Of a text that is too long, a clause that is said twice in a row is said once, and what wraps a
        compiler's message (`FILE:LINE:COLUMN: error:`) is left out, before anything else is.
"""

from __future__ import annotations

from typing import Final

from livedbg.text.patterns import lazy_re

_WORD: Final = lazy_re(r"(\S{24})\S{5,4000}(\S{20})")
_QUOTED: Final = lazy_re(r"(?<!\w)((['\"`])[^'\"`\n]{23})[^'\"`\n]{5,4000}([^'\"`\n]{20}\2)(?=.{8})")
"""One with words behind it: a quote at the end may be the reason itself."""

_AGAIN: Final = lazy_re(r"(\S[^\n]{15,200}?[.;!] ?)\1{1,20}")
_SEARCHED: Final = 2000
"""Characters of a text in which a clause that is said twice is looked for."""
_COMPILERS: Final = lazy_re(r"(?<![\w.+-])[\w.+-]{1,80}\.[A-Za-z]\w{0,6}:\d{1,6}:\d{1,5}: (?:fatal )?error: ")

_REASON: Final = lazy_re(
    r",? (?:but|because|since|whereas|however|instead of|which is not)\b"
    r"| (?:is|are|was|were) (?:not (?:supported|allowed|permitted|implemented)|unsupported)\b"
)

_CAVEAT: Final = lazy_re(r"[.!] [A-Z][^\n]{1,400}; however$")
"""What a later sentence adds to its own advice."""


def shortened(text: str, most: int) -> str:
    """Return the text, cut to at most `most` characters; `…` marks what was cut."""
    if len(text) > most:
        text = _AGAIN.sub(r"\1", text[:_SEARCHED]) + text[_SEARCHED:]
        text = compilers_own(text) if len(text) > most and compilers_own(text) else text
    for pattern, ends in ((_WORD, r"\1…\2"), (_QUOTED, r"\1…\3")):
        if len(text) > most:
            text = pattern.sub(ends, text)
    if len(text) > most and (why := _why(text, most)):
        return f"{text[: most - len(why) - 2].rstrip(' .,:;')}… {why}"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def compilers_own(text: str) -> str:
    """Return the message of a compiler that a text wraps, from its file on, or ""."""
    found = _COMPILERS.search(text)
    return text[found.start() :] if found is not None else ""


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
