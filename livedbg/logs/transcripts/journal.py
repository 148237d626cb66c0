"""systemd's Journal Export Format (`journalctl -o export`): a field of an entry in each line, a blank line after it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final

__all__ = ["is_export", "journal_entry", "journal_lines"]

_FIELDS: Final = frozenset(
    ("MESSAGE", "__REALTIME_TIMESTAMP", "_PID", "_HOSTNAME", "SYSLOG_IDENTIFIER", "_TRANSPORT", "CONTAINER_NAME")
)
_NAME: Final = re.compile(rb"[A-Z\d_]{1,64}")
_LONGEST: Final = 1 << 20  # bytes of a field that are kept
_PIECE: Final = 64 * 1024


def is_export(head: bytes) -> bool:
    """Whether a file begins with an entry."""
    return head.startswith(b"__CURSOR=") and b"\n__REALTIME_TIMESTAMP=" in head[:4096]


def journal_entry(**fields: str) -> bytes:
    """A line of JSON as the journal writes it, which the front door unwraps."""
    return json.dumps({"MESSAGE": "", "__REALTIME_TIMESTAMP": "", **fields}, ensure_ascii=False).encode() + b"\n"


def journal_lines(file: BinaryIO) -> Iterator[bytes]:
    """The entries, one a line.

    Args:
        file: at its beginning.
    """
    fields: dict[str, str] = {}
    lines: list[bytes] = []
    size = 0
    while line := file.readline(_LONGEST):
        if line == b"\n":
            if fields:
                lines.append(journal_entry(**fields))
                size += len(lines[-1])
            fields = {}
            if size > _PIECE:
                yield b"".join(lines)
                lines, size = [], 0
            continue
        name, equals, value = line.rstrip(b"\n").partition(b"=")
        if _NAME.fullmatch(name) is None:
            continue  # the rest of what is too long
        if not equals:  # its length, 8 bytes, and what may hold newlines
            length = int.from_bytes(file.read(8), "little")
            value = file.read(min(length, _LONGEST))
            file.seek(max(0, length - len(value)) if len(value) == _LONGEST else 0, 1)
            file.readline()
        key = name.decode("ascii", "replace")
        if key in _FIELDS:
            fields[key] = value.decode("utf-8", "replace")
    if fields:
        lines.append(journal_entry(**fields))
    if lines:
        yield b"".join(lines)
