"""Quoted C strings of gdb/MI."""

from __future__ import annotations

import re
from typing import Final

from livedbg.text.patterns import lazy_re

_ESCAPE = lazy_re(r"\\(?:([0-7]{1,3})|(.))", re.DOTALL)
_SIMPLE: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


def c_string(literal: str) -> str:
    """The text of a quoted C string of MI, octal escapes as UTF-8 bytes."""
    body = literal[1:-1] if len(literal) >= 2 and literal[0] == '"' == literal[-1] else literal
    if "\\" not in body:
        return body
    raw = _ESCAPE.sub(_unescape, body)
    return raw.encode("latin-1", "surrogateescape").decode("utf-8", "replace") if _is_latin(raw) else raw


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 8) & 0xFF)
    return _SIMPLE.get(match[2], match[2])


def _is_latin(text: str) -> bool:
    return all(ord(sign) < 256 for sign in text)
