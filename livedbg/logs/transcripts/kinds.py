"""Which files are written out line by line before they are read as logs, by how they begin.

Each form is written out as lines that the front door (livedbg.logs.wrapping) unwraps: the entries themselves in one
line of JSON each, or those of the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from livedbg.logs.transcripts.blocks import block_lines, is_blocks
from livedbg.logs.transcripts.documents import document_depth, document_lines
from livedbg.logs.transcripts.journal import is_export, journal_lines
from livedbg.logs.transcripts.terminal import is_cast, shown_bytes

__all__ = ["HEAD", "LIKELY_FIRST", "transcript_of"]

HEAD: Final = 64 * 1024
"""Bytes at the beginning by which a form is known."""

LIKELY_FIRST: Final = frozenset(b"[{_-\xef \t\r\n")
"""The bytes that such a file can begin with; most logs begin with others."""

Transcript = Callable[[BinaryIO], Iterator[bytes]]
"""Pieces of the lines of a file that is at its beginning."""


def transcript_of(head: bytes) -> Transcript | None:
    """What writes out a file that begins like this; None for one that is read as it is.

    Args:
        head: the first `HEAD` bytes, or all.
    """
    if not head or head[0] not in LIKELY_FIRST:
        return None
    if is_cast(head):
        return shown_bytes
    if is_export(head):
        return journal_lines
    if is_blocks(head):
        return block_lines
    depth = document_depth(head)
    return None if depth is None else lambda file: document_lines(file, depth)
