"""Output of many hosts, gathered by host: `dshbak` of pdsh, and `clush -b`.

A block begins with a rule, the hosts, and a rule; lines of it are given with their host, so that each says whose it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from livedbg.logs.transcripts.journal import journal_entry
from livedbg.logs.wrapping.hosts import may_be_host

__all__ = ["block_lines", "is_blocks"]

_RULE: Final = re.compile(rb"-{15,16}\r?\n")
_HOSTS: Final = re.compile(
    rb"([A-Za-z][\w.-]{0,62}(?:\[[\d,-]{1,200}\][\w.-]{0,62})?(?:,[A-Za-z][\w.,\[\]-]{1,400})?)(?: \(\d{1,6}\))?\r?\n"
)
_PIECE: Final = 64 * 1024


def is_blocks(head: bytes) -> bool:
    """Whether a file begins with a block, and another one follows right behind it."""
    lines = [line + b"\n" for line in head.split(b"\n")]
    first = _hosts_of(lines[:3])
    if first is None:
        return False
    for number in range(4, len(lines) - 2):
        if lines[number] == lines[0]:
            second = _hosts_of(lines[number : number + 3])
            return second is not None and _stem(second) == _stem(first) and bool(lines[number - 1].strip())
    return False


def _hosts_of(lines: list[bytes]) -> str | None:
    """The hosts of three lines that begin a block."""
    if len(lines) < 3 or _RULE.fullmatch(lines[0]) is None or lines[2] != lines[0]:
        return None
    match = _HOSTS.fullmatch(lines[1])
    return None if match is None or not may_be_host(match[1].decode()) else match[1].decode()


def _stem(hosts: str) -> str:
    return re.sub(r"[\d\[\],-]+", "", hosts.partition(".")[0])


def block_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of all blocks, as many as there are in the file; the heads of blocks stay as they are.

    Args:
        file: at its beginning.
    """
    host, out, size = "", list[bytes](), 0
    waiting: list[bytes] = []
    for line in file:
        waiting.append(line)
        if _RULE.fullmatch(waiting[0]) is not None and len(waiting) < 3:
            continue
        hosts = _hosts_of(waiting)
        if hosts is not None:
            host = hosts
            out += waiting
            waiting = []
        while waiting and (_RULE.fullmatch(waiting[0]) is None or len(waiting) == 3):
            out.append(_said(waiting.pop(0), host))
            size += len(out[-1])
        if size > _PIECE:
            yield b"".join(out)
            out, size = [], 0
    out += [_said(line, host) for line in waiting]
    if out:
        yield b"".join(out)


def _said(line: bytes, host: str) -> bytes:
    text = line.rstrip(b"\r\n").decode("utf-8", "replace")
    return journal_entry(MESSAGE=text, _HOSTNAME=host) if text else b"\n"
