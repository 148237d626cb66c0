"""Wrappings that the first lines of a log show together, and no line by itself.

HTML entities of a page that was copied, lines that a terminal broke at its width, the columns of `gh run view --log`
and the one of `parallel --tag`, and prefixes that nobody knows (livedbg.logs.wrapping.common). They are taken off in
this order, before all others.

Invariant:
    opening.O1. Nothing is taken off unless all of the lines agree with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.broken import broken_at
from livedbg.logs.wrapping.common import common_prefix
from livedbg.logs.wrapping.hosts import may_be_host
from livedbg.logs.wrapping.peeling import Known
from livedbg.logs.wrapping.platforms import PLATFORMS
from livedbg.logs.wrapping.rows import Layer, begins_line
from livedbg.logs.wrapping.tags import Opened, Tag

__all__ = ["FIRST_LINES", "shown_by"]

FIRST_LINES: Final = 1_000
"""Lines that are looked at."""

_FEWEST: Final = 3
_LABEL: Final = re.compile(r"(?P<label>[\w.@:/-]{1,80})\t")
_LEVEL: Final = re.compile(r"(?i:debug|trace|info|notice|warn|warning|error|critical|fatal|default)")
_MANY: Final = 0.8  # of lines that must have the columns of gh

_ENTITY: Final = re.compile(r"&(?:lt|gt|quot|amp|nbsp|apos|#0?39|#x27|#34|#x2[fF]|#47|#x60|#96|#x3[dD]|#61);")
_CHARACTER: Final = {
    "&lt;": "<", "&gt;": ">", "&quot;": '"', "&amp;": "&", "&nbsp;": " ", "&apos;": "'", "&#39;": "'", "&#039;": "'",
    "&#x27;": "'", "&#34;": '"', "&#x2f;": "/", "&#47;": "/", "&#x60;": "`", "&#96;": "`", "&#x3d;": "=", "&#61;": "=",
}  # fmt: skip
_GH: Final = re.compile(
    r"(?P<job>[^\t]{1,200})\t(?P<step>[^\t]{1,200})\t[\ufeff\ufffd]?"
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(?P<part>\d{1,9})Z(?: |$)"
)


def shown_by(texts: Sequence[str]) -> list[Known]:
    """What the first lines of a log show.

    Args:
        texts: they, as they came; the last one may be a piece of one.
    """
    found: list[Known] = []
    if _has_entities(texts):
        found.append(Known("", _unescaped, once=True, rewrites=True))
        texts = [_plain(text) for text in texts]
    width = broken_at(texts)
    if width:
        found.append(Known("", _joining(width), once=True, joins=True, rewrites=True))
    if _has_columns(texts):
        found.append(Known("", _columns, once=True))
    elif _has_labels(texts):
        found.append(Known("", _label, once=True))
    elif (prefix := common_prefix(texts)) is not None:
        found.append(Known("", prefix, once=True))
    return found


def _has_entities(texts: Sequence[str]) -> bool:
    """Whether what HTML must write as an entity never stands there itself, and some is."""
    if not any("&lt;" in text or "&quot;" in text or "&#" in text for text in texts):
        return False
    found = {entity[0] for text in texts for entity in _ENTITY.finditer(text)}
    meant = {_CHARACTER[entity.lower()] for entity in found}
    raw = {one for one in "<>\"'" if any(one in text for text in texts)}
    return bool(meant & {"<", '"', "'"}) and "<" not in raw and not meant & raw and not _bare_ampersand(texts)


def _bare_ampersand(texts: Sequence[str]) -> bool:
    return any("&" in _ENTITY.sub("", text) for text in texts if "&" in text)


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda match: _CHARACTER[match[0].lower()], text) if "&" in text else text


def _unescaped(text: str, clock: SourceClock) -> Opened | None:
    return Opened(_plain(text)) if "&" in text else None


def _joining(width: int) -> Layer:
    def opened(text: str, clock: SourceClock) -> Opened | None:
        return Opened(text, part=len(text) == width)

    return opened


def _has_columns(texts: Sequence[str]) -> bool:
    said = [text for text in texts if text and not text.isspace()]
    if not said or "\t" not in said[0]:
        return False
    match: Callable[[str], re.Match[str] | None] = _GH.match
    return sum(match(text) is not None for text in said) >= _MANY * len(said)


def _columns(text: str, clock: SourceClock) -> Opened | None:
    match = _GH.match(text)
    if match is None:
        return None
    wall_ns = clock.date_time(match["time"], match["part"], "Z")
    return Opened(text[match.end() :], Tag(f"job {match['job']}", container=match["job"]), wall_ns)


def _has_labels(texts: Sequence[str]) -> bool:
    """Whether a tab stands behind the same few hosts in all lines, or behind few words before what surely are lines."""
    if "\t" not in next((text for text in texts if text and not text.isspace()), ""):
        return False
    said = [match for text in texts if text and not text.isspace() and (match := _LABEL.match(text))]
    lines = sum(bool(text) and not text.isspace() for text in texts)
    labels = {match["label"] for match in said}
    clock = SourceClock(0, 0)
    if any(one.open(match.string, clock) is not None for match in said[:1] for one in PLATFORMS):
        return False
    if len(said) < max(_FEWEST, lines - 1) or len(labels) * 2 > len(said):  # the last line may be a piece
        return False
    if any(map(_LEVEL.fullmatch, labels)):
        return False
    return all(map(may_be_host, labels)) or any(begins_line(match.string[match.end() :]) for match in said)


def _label(text: str, clock: SourceClock) -> Opened | None:
    match = _LABEL.match(text)
    if match is None:
        return None
    host = match["label"] if may_be_host(match["label"]) else ""
    return Opened(text[match.end() :], Tag(match["label"], host=host))
