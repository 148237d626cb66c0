"""Recordings of terminals by asciinema (asciicast 2 and 3): what the terminal was sent, without the times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec

__all__ = ["is_cast", "shown_bytes"]

_BEGIN: Final = re.compile(
    rb'\{[^\n]{0,4000}"version": ?[23][,}][^\n]*\n(?:#[^\n]*\n)*(?:\[ ?\d+(?:\.\d+)?, ?"[a-z]", ?"|$)'
)
_PIECE: Final = 64 * 1024
_event = msgspec.json.Decoder(list[Any])


def is_cast(head: bytes) -> bool:
    """Whether a file begins with the header of a recording, and an event."""
    return head.startswith(b"{") and _BEGIN.match(head) is not None


def shown_bytes(file: BinaryIO) -> Iterator[bytes]:
    """What was shown.

    Args:
        file: at its beginning.
    """
    file.readline()
    shown: list[bytes] = []
    size = 0
    for line in file:
        try:
            event = _event.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            continue  # a comment, or the end of a recording that was cut off
        if len(event) > 2 and event[1] == "o" and isinstance(event[2], str):
            shown.append(event[2].encode("utf-8", "replace"))
            size += len(shown[-1])
        if size > _PIECE:
            yield b"".join(shown)
            shown, size = [], 0
    if shown:
        yield b"".join(shown)
