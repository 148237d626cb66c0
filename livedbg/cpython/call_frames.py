"""Python frames of a call: the innermost as the kernel read them, outer ones from memory just after.

A frame's callers don't change while it lives. So if the last frame that the kernel read is still among its thread's
frames, at the same instruction, after the outer ones were read, those are the ones of the call.

Invariants:
    call_frames.T1. A stack is called whole only if all of its frames were read and were so at the call.
    call_frames.F1. A variable is returned only if the code object has one name for each of its variables: a tuple of as
        many strings.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final, NamedTuple

from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import Code, ObjectReader, is_pointer, word_in
from livedbg.cpython.threads import PyFrame
from livedbg.linux import memory
from livedbg.model import Frame
from livedbg.probes.newest import Newest
from livedbg.probes.tracefs import number_in


class PyFrames(NamedTuple):
    """Python frames of a call.

    Attributes:
        whole: all of them are there, and were so at the call.
        runs: how many of them belong to each run of the eval loop, innermost first.
    """

    frames: tuple[Frame, ...]
    whole: bool
    runs: tuple[int, ...] = ()


class PyPlace(NamedTuple):
    """The position of a frame; `entry`: C code called it (3.11; from 3.12 on a frame of its own follows it)."""

    code: int
    instruction: int
    entry: bool


_UNREAD: Final = PyPlace(0, 0, entry=False)
"""Stands for frames that were not read."""

_MOST: Final = 400  # frames
_KEPT: Final = 512  # stacks that are remembered
_KEPT_NS: Final = 1_000_000_000  # another code object may be made where one was
_TRAMPOLINE: Final = "<interpreter trampoline>"  # 3.12: an entry of C code (Python/specialize.c)


def words_of(values: Mapping[str, int | bytes]) -> tuple[int, ...]:
    """Return the words that identify the stack of a call."""
    places, behind = _fetched(values)
    return tuple(word for place in places for word in place[:2]) + ((behind,) if behind else ())


def goes_on(words: tuple[int, ...], before: tuple[int, ...]) -> bool:
    """Return whether a call is an outer frame of the previous call, and nothing ran between them."""
    inner, outer = (places[: len(places) // 2 * 2] for places in (before, words))
    return any(inner[start : start + len(outer)] == outer[: len(inner) - start] for start in range(2, len(inner), 2))


class CallFrames:
    """Makes frames of the data fetched at calls of one process. `objects` isn't shared: its caches are dropped at
    times.
    """

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._fresh_ns = time.monotonic_ns()
        self._known: Newest[tuple[int, ...], PyFrames] = Newest(_KEPT)

    def of(self, values: Mapping[str, int | bytes]) -> PyFrames:
        self._refresh()
        key = (number_in(values, "state"), *words_of(values))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._read(values)
        return known

    def now(self, state: int, *, stopped: bool = False) -> PyFrames:
        """Return the current frames of a thread; unless stopped not whole, as they may be others than at the call."""
        self._refresh()
        made = self._made(place for _, place in self._living(state))
        return made if stopped else made._replace(whole=False)

    def places(self, state: int) -> tuple[PyPlace, ...]:
        """Return the current positions of a thread's frames, innermost first: fast, for a running thread."""
        return tuple(place for _, place in self._living(state))

    def named(self, places: Iterable[PyPlace]) -> PyFrames:
        """Return the frames of recent positions; whole if all of them are there."""
        self._refresh()
        return self._made(places)

    def _refresh(self) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - self._fresh_ns > _KEPT_NS:
            self._fresh_ns = now_ns
            self._known.clear()
            self._objects = ObjectReader(self._objects.pid, self._objects.layout)

    def _read(self, values: Mapping[str, int | bytes]) -> PyFrames:
        places, behind = _fetched(values)
        whole = True
        if behind:
            outer = [place for _, place in self._chain(behind)]
            last = number_in(values, "last"), places[-1]
            whole = last in self._living(number_in(values, "state"))
            places += outer
        made = self._made(places)
        return made._replace(whole=whole and made.whole)

    def _made(self, places: Iterable[PyPlace]) -> PyFrames:
        frames: list[Frame] = []
        runs = [0]
        whole = True
        for code, at, entry in places:
            frame = self._frame(code & ~7, at)
            if frame is None:
                whole = False
            meant = frame is not None and frame.function not in {"", _TRAMPOLINE}
            if frame is not None and meant:
                frames.append(frame)
                runs[-1] += 1
            if runs[-1] and (entry or not meant):
                runs.append(0)
        return PyFrames(tuple(frames), whole and bool(frames), tuple(run for run in runs if run))

    def _frame(self, code: int, at: int) -> Frame | None:
        """Return a frame; one without a name for an entry of C code, None for one that is gone."""
        if not code:
            return None
        found = self._objects.code(code)
        if found is not None:
            line = found.line(at - found.start)
            return Frame(function=found.name, file=found.file, line=line, language="python")
        try:
            (head,) = self._objects.heads([code])
        except OSError:  # the process has ended
            return None
        return Frame(function="") if head is not None and self._objects.type_name(head) == "NoneType" else None

    def _living(self, state: int) -> Iterator[tuple[int, PyPlace]]:
        at = self._objects.layout.thread
        try:
            frame = self._objects.word(state + at.frame)
            if at.cframe is not None:
                frame = self._objects.word(frame + at.cframe)
        except OSError:
            return
        yield from self._chain(frame)

    def _chain(self, frame: int) -> Iterator[tuple[int, PyPlace]]:
        """Yield a frame and its outer ones with their addresses; `_UNREAD` last if more follow."""
        at = self._objects.layout.frame
        for _ in range(_MOST):
            if not is_pointer(frame):
                break
            try:
                head = memory.read(self._objects.pid, frame, at.size)
            except OSError:
                break
            code, instruction, previous = (word_in(head, place) for place in (at.code, at.instruction, at.previous))
            yield frame, PyPlace(code, instruction, at.entry is not None and bool(head[at.entry] & 1))
            frame = previous
        if frame:  # there are more
            yield 0, _UNREAD


def _fetched(values: Mapping[str, int | bytes]) -> tuple[list[PyPlace], int]:
    """Return the frames that the kernel read, and the address of the next outer one, if any.

    Values after the first missing one are of another call.
    """
    places: list[PyPlace] = []
    while f"code{len(places)}" in values:
        code = number_in(values, f"code{len(places)}")
        if not code:
            return places, 0
        number = len(places)
        places.append(PyPlace(code, number_in(values, f"at{number}"), bool(number_in(values, f"entry{number}") & 1)))
    return places, number_in(values, "behind") if places else 0


_MOST_LOCALS: Final = 512


class FrameLocals:
    """Reads local variables of frames of one process; the names of each code object are cached."""

    def __init__(self, heap: HeapReader) -> None:
        self._heap = heap
        self._names: dict[int, tuple[str, ...]] = {}

    def of(self, frame: PyFrame, wanted: Set[str]) -> dict[str, int]:
        """Return the addresses of the values of some local variables of a frame, without unset ones.

        Raises:
            OSError: not readable.
        """
        found = {}
        for name, value in zip(self._names_of(frame.code), frame.slots, strict=False):
            if name in wanted and value:
                found[name] = self._heap.in_cell(value)
        return {name: value for name, value in found.items() if value}

    def named(self, code: Code, slots: Iterable[int]) -> list[tuple[str, int]]:
        """Return the variables of a frame or a coroutine with their values, cells as they are.

        Raises:
            OSError: not readable.
        """
        return [(name, value) for name, value in zip(self._names_of(code), slots, strict=False) if value]

    def _names_of(self, code: Code) -> tuple[str, ...]:
        if code.address not in self._names:
            self._names[code.address] = self._read(code)
        return self._names[code.address]

    def _read(self, code: Code) -> tuple[str, ...]:
        (at,) = self._heap.words(code.address + self._heap.objects.layout.code.names, 1)
        if self._heap.type_name(at) != "tuple" or not 0 < code.locals_count <= _MOST_LOCALS:
            return ()
        (size,) = self._heap.words(at + 16, 1)
        items = self._heap.items(at, _MOST_LOCALS)
        if size != code.locals_count or any(self._heap.type_name(item) != "str" for item in items):
            return ()
        return tuple(self._heap.name(item) for item in items)
