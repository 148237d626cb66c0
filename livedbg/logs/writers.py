"""Writers of log lines, by the lines' wrappings, and the words for them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple


class Tag(NamedTuple):
    """The writer of a line, as far as its wrappings tell.

    Attributes:
        writer: which writer of a shared log: `rank 3`, `worker TP1`, `node12`.
        host: name of the host, node or address.
        stream: `stdout` or `stderr`.
        container: name of the container, pod or service.
    """

    writer: str = ""
    rank: int | None = None
    pid: int | None = None
    host: str = ""
    stream: str = ""
    container: str = ""


NO_TAG: Final = Tag()


class Opened(NamedTuple):
    """A line without a wrapping; a `part` continues in the next line of the same writer."""

    text: str
    tag: Tag = NO_TAG
    wall_ns: int | None = None
    part: bool = False


@lru_cache(maxsize=4096)
def merged(outer: Tag, inner: Tag) -> Tag:
    """Merge two tags; the one nearer to the text wins."""
    if outer is NO_TAG:
        return inner
    writer = " ".join(dict.fromkeys(word for word in (outer.writer, inner.writer) if word))
    if inner.rank is not None:
        writer = inner.writer
    return Tag(
        writer,
        outer.rank if inner.rank is None else inner.rank,
        outer.pid if inner.pid is None else inner.pid,
        inner.host or outer.host,
        inner.stream or outer.stream,
        inner.container or outer.container,
    )


WORDS: Final = "rank pid pod worker engine core container process or port job"
"""What stands in the words for a writer, besides what the log says."""


def written_by(writer: str, host: str, pid: int | None) -> str:
    """Describe the writer of a line: `rank 3, 10.0.3.7, pid 4242`. `writer` may already contain host and pid."""
    parts = [writer] if writer else []
    if host and host not in writer:
        parts.append(host)
    if parts and pid is not None and str(pid) not in writer:
        parts.append(f"pid {pid}")
    return ", ".join(parts)


def rank_of(writer: str) -> int | None:
    """Return the number of `rank 3`; None if a writer is no rank."""
    word, _, number = writer.partition(" ")
    return int(number) if word == "rank" and number.isdecimal() else None
