"""Which of those that share a log wrote a line, in words: `rank 3`, `worker TP1`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from livedbg.logs.shapes import split_writer

__all__ = ["rank_of", "writer_of"]

_RANK: Final = re.compile(r"\[(?:rank|default)(\d{1,6})\]|\[\d{1,6},(\d{1,6})\]<std|\brank=(\d{1,6})\b|^(\d{1,6})$")
_WORKER: Final = re.compile(r"\(([\w.-]{0,40}) ?((?:[A-Z]{2}\d{1,4} ?)*)pid=(\d{1,10})\b")


def writer_of(line: str) -> str:
    """The writer that a launcher's prefix of a line names; "" if it has none."""
    prefix = split_writer(line)[0]
    return _writer(prefix) if prefix else ""


@lru_cache(maxsize=4096)
def _writer(prefix: str) -> str:
    rank = _RANK.search(prefix)
    if rank is not None:
        return f"rank {int(next(number for number in rank.groups() if number))}"
    worker = _WORKER.search(prefix)
    if worker is None:
        return ""
    return f"worker {worker[2].strip()}" if worker[2] else f"pid {worker[3]}"


def rank_of(writer: str) -> int | None:
    """The number of `rank 3`; None where a writer is no rank."""
    word, _, number = writer.partition(" ")
    return int(number) if word == "rank" and number.isdecimal() else None
