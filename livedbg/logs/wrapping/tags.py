"""What a wrapping of a line says about the line, besides its text."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["NO_TAG", "Opened", "Tag", "merged"]


class Tag(NamedTuple):
    """Who wrote a line, as far as its wrappings say so.

    Attributes:
        writer: in words, which of those that share the log wrote it: `rank 3`, `worker TP1`, `node12`.
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
    """A line without a wrapping.

    Attributes:
        text: what was wrapped.
        wall_ns: when it was written, as the wrapping says.
        part: the text goes on in the next line of the same writer.
    """

    text: str
    tag: Tag = NO_TAG
    wall_ns: int | None = None
    part: bool = False


@lru_cache(maxsize=4096)
def merged(outer: Tag, inner: Tag) -> Tag:
    """What two wrappings say together; what is nearer to the text knows better."""
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
