"""Merges calls into hits: what has the same type, the same message and the same stack is one hit with a count.

Before its stack is unwound a call is known by the words of its stack that point into code. Only the first call of a
kind is unwound; the others are counted with it.

Invariants:
    Q1. The counts of a catchpoint's hits sum up to the calls that it was given.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from livedbg import ids
from livedbg.adapters.exceptions.hearing import Heard
from livedbg.linux.maps import Mapping
from livedbg.model import ExceptionHit, Frame

__all__ = ["Code", "Hits", "Kind"]

_WORDS: Final = 20  # words of a stack that point into code, and tell one stack from another
_LOOKED_AT: Final = 1024  # bytes of a stack that are looked through for them
_SECONDS: Final = 60  # of history
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """What is told apart before a stack is unwound."""

    pid: int
    type: str
    message: str
    words: tuple[int, ...]


class Code:
    """The mappings of a process that hold code.

    Args:
        mappings: all of its mappings, in rising order.
    """

    def __init__(self, mappings: Iterable[Mapping]) -> None:
        self._ranges = [(mapping.start, mapping.end) for mapping in mappings if mapping.executable]
        self._starts = [start for start, _ in self._ranges]

    def kind_of(self, heard: Heard) -> Kind:
        """What tells a call of this process from another."""
        words = list(heard.call.words)
        stack = b"" if words else heard.sample.stack[:_LOOKED_AT]
        for (word,) in struct.iter_unpack("<Q", stack[: len(stack) // 8 * 8]):
            place = bisect_right(self._starts, word) - 1
            if place >= 0 and word < self._ranges[place][1]:
                words.append(word)
                if len(words) == _WORDS:
                    break
        return Kind(heard.sample.pid, heard.call.names[0], heard.call.message, tuple(words))


@dataclass(slots=True)
class _Hit:
    number: int
    thread: str
    process: str
    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    partial: bool = True
    count: int = 0
    first_wall_ns: int = 0
    last_wall_ns: int = 0
    seconds: dict[int, int] = field(default_factory=dict)


class Hits:
    """The hits of one catchpoint.

    Args:
        host: for the identifiers.
        catchpoint: its identifier.
    """

    def __init__(self, host: str, catchpoint: str) -> None:
        self._host = host
        self._catchpoint = catchpoint
        self._hits: dict[object, _Hit] = {}
        self._of_kind: dict[Kind, object] = {}
        self._changed: set[object] = set()

    def known(self, kind: Kind) -> bool:
        """Whether a call of this kind was unwound, or given up."""
        return kind in self._of_kind

    def add(self, kind: Kind, heard: Heard, wall_ns: int, stack: tuple[tuple[Frame, ...], bool] | None = None) -> None:
        """Count a call.

        Args:
            kind: of the call.
            heard: the call.
            wall_ns: when it was.
            stack: frames and whether they are whole, for the first of a kind.
        """
        key = self._of_kind.get(kind)
        if key is None:
            frames, whole = stack or ((), False)
            shape = tuple((frame.function, frame.module, frame.line) for frame in frames) or kind.words
            key = (kind.type, kind.message, shape)
            self._of_kind[kind] = key
            if key not in self._hits:
                thread = ids.thread(self._host, heard.sample.pid, heard.sample.tid)
                process = ids.process(self._host, heard.sample.pid)
                self._hits[key] = _Hit(
                    len(self._hits) + 1, thread, process, kind.type, kind.message, frames, not whole, 0, wall_ns
                )
        hit = self._hits[key]
        hit.count += 1
        hit.thread = ids.thread(self._host, heard.sample.pid, heard.sample.tid)
        hit.process = ids.process(self._host, heard.sample.pid)
        hit.first_wall_ns = min(hit.first_wall_ns, wall_ns)
        hit.last_wall_ns = max(hit.last_wall_ns, wall_ns)
        second = wall_ns // _SECOND_NS
        if second not in hit.seconds:
            hit.seconds[second] = 0
            for old in [old for old in hit.seconds if old <= hit.last_wall_ns // _SECOND_NS - _SECONDS]:
                del hit.seconds[old]
        if second in hit.seconds:
            hit.seconds[second] += 1
        self._changed.add(key)

    def changed(self) -> list[ExceptionHit]:
        """The hits that are new, or came again, since this was last asked; oldest first."""
        found = sorted((self._hits[key] for key in self._changed), key=lambda hit: hit.number)
        self._changed.clear()
        return [self._said(hit) for hit in found]

    def _said(self, hit: _Hit) -> ExceptionHit:
        last = hit.last_wall_ns // _SECOND_NS
        begun = max(hit.first_wall_ns // _SECOND_NS, last - _SECONDS + 1)
        return ExceptionHit(
            id=f"exception:{self._host}/{self._catchpoint}/{hit.number}",
            type=hit.type,
            message=hit.message,
            thread=hit.thread,
            process=hit.process,
            stack=hit.frames,
            at_wall_ns=hit.last_wall_ns,
            first_wall_ns=hit.first_wall_ns,
            history=tuple(hit.seconds.get(second, 0) for second in range(begun, last + 1)),
            catchpoint=self._catchpoint,
            count=hit.count,
            partial=hit.partial,
        )
