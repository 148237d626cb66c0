"""The words for those that share a log."""

from __future__ import annotations

from typing import Final

__all__ = ["WORDS", "rank_of", "written_by"]

WORDS: Final = "rank pid pod worker container process or port job"
"""What stands in the words for a writer, besides what the log says."""


def written_by(writer: str, host: str, pid: int | None) -> str:
    """Who wrote a line, as far as its wrappings say so: `rank 3, 10.0.3.7, pid 4242`.

    Args:
        writer: see `LogRecord.writer`.
        host: its host, which the writer's name may hold.
        pid: its process, too.
    """
    parts = [writer] if writer else []
    if host and host not in writer:
        parts.append(host)
    if parts and pid is not None and str(pid) not in writer:
        parts.append(f"pid {pid}")
    return ", ".join(parts)


def rank_of(writer: str) -> int | None:
    """The number of `rank 3`; None where a writer is no rank."""
    word, _, number = writer.partition(" ")
    return int(number) if word == "rank" and number.isdecimal() else None
