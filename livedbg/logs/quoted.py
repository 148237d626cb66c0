"""Lines that store what others logged: a collector's or an exporter's own line, of no error, with theirs as a field.

Forms: logfmt (`ts=… level=info msg="stored" line="…"`: Loki, Prometheus exporters), a JSON object with a level,
Fluentd's stdout (`TIME ZONE TAG: {"log":"…"}`).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["may_store_others", "stores_others"]

_LOGFMT: Final = re.compile(
    r"(?:[\w.]{1,30}=(?:\"(?:[^\"\\]|\\.){0,500}\"|[^\s\"]{0,200}) ){0,12}?"
    r"level=\"?(?:trace|debug|info|notice)\b",
    re.IGNORECASE,
)
_KEY: Final = 30
_PAIR: Final = re.compile(rf"[\w.]{{1,{_KEY}}}=\S")
_JSON: Final = re.compile(r"\{.{0,2000}?\"(?:level|lvl|severity)\" ?: ?\"(?:trace|debug|info|notice)\"", re.IGNORECASE)
_FLUENTD: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [+-]\d{4} [\w.*-]{1,200}: \{\"")


def may_store_others(text: str) -> bool:
    """Whether one of many lines can be a collector's: a quick look at all of them."""
    return "=" in text or "{" in text


def stores_others(line: str) -> bool:
    """Whether a line is a collector's, which says that nothing is wrong with it."""
    if line.startswith("{"):
        return _JSON.match(line) is not None
    if line.find("=", 1, _KEY + 1) > 0 and _PAIR.match(line) is not None:
        return _LOGFMT.match(line) is not None
    return line[:2] == "20" and ': {"' in line and _FLUENTD.match(line) is not None
