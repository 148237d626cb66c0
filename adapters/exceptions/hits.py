"""Merge calls into hits: calls with the same type, message and stack are one hit with a count.

Before its stack is unwound a call is identified by the words of its stack that point into code. Only the first call of
a kind is unwound; the others are counted with it.

If messages always differ (they contain an address, a step number), or places do, hits would grow without bound. So
beyond a limit, calls of one type and stack are one hit, and then calls of one type.

Invariants:
    hits.Q1. The counts of a catchpoint's hits sum up to the calls that it was given.
    hits.Q2. A catchpoint has at most `MOST` hits, whatever is thrown.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from livedbg.adapters.exceptions.calls import TracedCall
from livedbg.linux.maps import Mapping
from livedbg.model import ExceptionHit, Frame, ids
from livedbg.probes.newest import Newest

MOST: Final = 500
"""Hits of a catchpoint."""

_EXACT, _BY_PLACE, _BY_TYPE = MOST - 100, MOST - 20, MOST - 1  # how many there may be for another of that sort
_MESSAGES: Final = 20  # messages of one type and stack that are hits of their own
_COUNTED: Final = 1000  # different messages of one hit that are counted
_KINDS: Final = 4096
_OTHER_TYPES: Final = "several types"

_WORDS: Final = 20  # words of a stack that point into code, and distinguish one stack from another
_SEARCHED: Final = 1024  # bytes of a stack that are searched for them
_SECONDS: Final = 60  # of history
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Kind:
    """Key of calls before a stack is unwound: words on the stack that point into code, and Python frames."""

    pid: int
    type: str
    message: str
    words: tuple[int, ...]
    python: tuple[int, ...] = ()


class _Key(NamedTuple):
    """Key of a hit; None for parts that don't matter any more."""

    type: str | None
    message: str | None
    shape: Hashable | None


class Code:
    """The mappings of a process that contain code.

    Args:
        mappings: all of its mappings, by rising address.

    Attributes:
        layout: equal for processes that have the same files at the same addresses, as after a fork.
    """

    def __init__(self, mappings: Iterable[Mapping]) -> None:
        code = [mapping for mapping in mappings if mapping.executable]
        self.layout = hash(tuple((mapping.start, mapping.end, mapping.offset, mapping.path) for mapping in code))
        self._ranges = [(mapping.start, mapping.end) for mapping in code]
        self._starts = [start for start, _ in self._ranges]

    def kind_of(self, call: TracedCall) -> Kind:
        """Return the kind of a call of this process."""
        words: list[int] = []
        stack = call.sample.stack[:_SEARCHED]
        for (word,) in struct.iter_unpack("<Q", stack[: len(stack) // 8 * 8]):
            place = bisect_right(self._starts, word) - 1
            if place >= 0 and word < self._ranges[place][1]:
                words.append(word)
                if len(words) == _WORDS:
                    break
        return Kind(call.sample.pid, call.call.names[0], call.call.message, tuple(words), call.call.words)


@dataclass(slots=True)
class _Hit:
    """One merged hit; with several messages it keeps a limited set of hashes, with several places no stack."""

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
    messages: set[int] | None = None
    from_several: bool = False
    sent: bool = False
    fatal: bool = False
    deep: int = 0

    @property
    def text(self) -> str:
        """Return its message, or the number of messages."""
        if self.messages is None:
            return self.message
        more = "more than " if len(self.messages) >= _COUNTED else ""
        where = " from different places" if self.from_several else ""
        return f"{more}{len(self.messages):,} different messages{where}; the last: {self.message}"


class Hits:
    """The hits of one catchpoint."""

    def __init__(self, host: str, catchpoint: str) -> None:
        self._host = host
        self._catchpoint = catchpoint
        self._hits: dict[_Key, _Hit] = {}
        self._of_kind: Newest[Kind, _Key] = Newest(_KINDS)
        self._messages: Counter[_Key] = Counter()
        self._changed: set[_Key] = set()

    def add(
        self, kind: Kind, call: TracedCall, wall_ns: int, stack: tuple[tuple[Frame, ...], bool] | None = None
    ) -> None:
        """Count a call; `stack` has its frames and whether they are complete, if known."""
        key = self._of_kind.get(kind)
        if key is None:
            key = self._key_of(kind, stack)
            if stack is not None:
                self._of_kind[kind] = key
        thread = ids.thread(self._host, call.sample.pid, call.sample.tid)
        process = ids.process(self._host, call.sample.pid)
        hit = self._hits.get(key)
        if hit is None:
            hit = self._hits[key] = _Hit(len(self._hits) + 1, thread, process, kind.type, kind.message)
            hit.first_wall_ns = wall_ns
            hit.messages = set() if key.message is None else None
            hit.from_several = key.shape is None
            hit.sent, hit.fatal = call.call.sent, call.call.fatal
            if stack is not None and key.shape is not None:
                hit.frames, hit.partial = stack[0], not stack[1]
                hit.deep = _deep(call, stack[0])
        hit.count += 1
        hit.thread, hit.process = thread, process
        if hit.messages is not None:
            hit.type, hit.message = key.type or _OTHER_TYPES, kind.message
            if len(hit.messages) < _COUNTED:
                hit.messages.add(hash(kind.message))
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

    def _key_of(self, kind: Kind, stack: tuple[tuple[Frame, ...], bool] | None) -> _Key:
        """Return the hit key of a call: the more hits there are, the coarser."""
        frames = stack[0] if stack is not None else ()
        shape: Hashable = tuple((frame.function, frame.module, frame.line) for frame in frames) or (
            *kind.words,
            *kind.python,
        )
        exact, by_place = _Key(kind.type, kind.message, shape), _Key(kind.type, None, shape)
        if exact in self._hits:
            return exact
        if self._messages[by_place] < _MESSAGES and len(self._hits) < _EXACT:
            self._messages[by_place] += 1
            return exact
        for key, most in ((by_place, _BY_PLACE), (_Key(kind.type, None, None), _BY_TYPE)):
            if key in self._hits or len(self._hits) < most:
                return key
        return _Key(None, None, None)

    def changed(self) -> list[ExceptionHit]:
        """Return the hits changed since the last call, oldest first."""
        found = sorted((self._hits[key] for key in self._changed), key=lambda hit: hit.number)
        self._changed.clear()
        return [self._shown(hit) for hit in found]

    def _shown(self, hit: _Hit) -> ExceptionHit:
        last = hit.last_wall_ns // _SECOND_NS
        begun = max(hit.first_wall_ns // _SECOND_NS, last - _SECONDS + 1)
        return ExceptionHit(
            id=f"exception:{self._host}/{self._catchpoint}/{hit.number}",
            type=hit.type,
            message=hit.text,
            thread=hit.thread,
            process=hit.process,
            stack=hit.frames,
            at_wall_ns=hit.last_wall_ns,
            first_wall_ns=hit.first_wall_ns,
            history=tuple(hit.seconds.get(second, 0) for second in range(begun, last + 1)),
            catchpoint=self._catchpoint,
            count=hit.count,
            partial=hit.partial,
            sent=hit.sent,
            fatal=hit.fatal,
            deep=hit.deep,
        )


def _deep(call: TracedCall, frames: tuple[Frame, ...]) -> int:
    """Return about how many frames a stack has that was overflowed, by those in the part that was copied."""
    copied = len(call.sample.stack)
    return max(1, len(frames), call.call.overflow * len(frames) // max(1, copied)) if call.call.overflow else 0
