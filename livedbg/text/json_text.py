"""JSON of strings and numbers that a target chose, for people and programs.

Every JSON text that livedbg prints is made here: it holds no control character of C0, C1 or Unicode's formats, and is
valid UTF-8, for any input.

Invariants:
    json_text.J1. `json_bytes` raises nothing because of the content of a string or the size of a number.
    json_text.J2. Its result is UTF-8, and each string in it is `clean` (livedbg.text.sanitize).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from livedbg.text.sanitize import clean, is_clean

_LEAST: Final = -(1 << 63)
_GREATEST: Final = (1 << 64) - 1
"""Bounds of the integers that msgspec writes and reads."""

_ESCAPES: Final = (b"\\u", b"\\r", b"\\b", b"\\f")
"""What an encoder writes for control characters other than newline and tab."""


def json_bytes(value: object, *, pretty: bool = False) -> bytes:
    r"""Return a value as one line of JSON, or indented by two; no newline at the end.

    Bytes of file names that aren't UTF-8 become `\xff` (see `clean`); integers of more than 64 bits the nearest one
    that fits.
    """
    try:
        encoded = msgspec.json.encode(value)
        dirty = needs_cleaning(encoded)
    except (UnicodeEncodeError, OverflowError):
        dirty = True
    if dirty:
        encoded = msgspec.json.encode(clean_value(msgspec.to_builtins(value)))
    return msgspec.json.format(encoded, indent=2) if pretty else encoded


def json_line(value: object) -> str:
    """Return `json_bytes` as text: one line, without its end."""
    return json_bytes(value).decode()


def needs_cleaning(data: bytes) -> bool:
    """Return whether a JSON text may hold a string that isn't clean; False is certain.

    Raises:
        UnicodeDecodeError: not UTF-8.
    """
    if any(escape in data for escape in _ESCAPES):
        return True
    return b"\x7f" in data if data.isascii() else not is_clean(data.decode())


def clean_value(value: Any) -> Any:
    """Clean all strings in a value of plain types (dict, list, tuple, str, int, …) and limit integers to 64 bits."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return max(_LEAST, min(value, _GREATEST))
    if isinstance(value, dict):
        return {clean_value(name): clean_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_value(part) for part in value]
    return value
